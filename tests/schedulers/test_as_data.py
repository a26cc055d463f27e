"""`as_scheduler`: what a file or a command line can say, and what it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from adept import UCB, Fixed, GaussianThompson, RoundRobin, Scheduler, as_scheduler


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("ucb", UCB([4, 2, 1])),
        ("thompson", GaussianThompson([4, 2, 1], seed=7)),
        ([10, 5, 1], UCB([10, 5, 1])),
        ((10, 5, 1), UCB([10, 5, 1])),
        ({"name": "ucb", "arms": [10, 5, 1]}, UCB([10, 5, 1])),
        ({"name": "ucb", "arms": [2, 1], "scale": None, "window": 3}, UCB([2, 1], window=3, scale=None)),
        ({"arms": [2, 1], "exploration": 0.5}, UCB([2, 1], exploration=0.5)),
        ({"name": "round-robin"}, RoundRobin([4, 2, 1])),
        ({"name": "thompson", "seed": 3}, GaussianThompson([4, 2, 1], seed=3)),
        ({"name": "fixed", "arms": [3]}, Fixed(3)),
        ("adept.schedulers.ucb:UCB", UCB([4, 2, 1])),
    ],
)
def test_data_stand_for_schedulers(given: Any, meant: Scheduler[int]):
    found = as_scheduler(given, arms=(4, 2, 1), seed=7)
    assert type(found) is type(meant)
    saved, expected = found.state_dict(), meant.state_dict()
    if not isinstance(meant, GaussianThompson):  # the others draw nothing, whatever their seed
        saved.pop("generator"), expected.pop("generator")
    assert saved == expected


def test_a_scheduler_is_itself():
    scheduler = RoundRobin([2, 1])
    assert as_scheduler(scheduler, arms=(4, 2)) is scheduler


def test_the_data_are_not_written_to():
    given = {"name": "ucb", "arms": [2, 1], "window": 3}
    as_scheduler(given)
    assert given == {"name": "ucb", "arms": [2, 1], "window": 3}


@pytest.mark.parametrize("given", [None, 3, 1.5, b"ucb", {3, 2, 1}, {1: "ucb"}, object()])
def test_what_is_no_scheduler(given):
    with pytest.raises(
        ValueError, match=r"a scheduler is a Scheduler, a name, a list of arms or a mapping .*got .*; for"
    ):
        as_scheduler(given, arms=(4, 2, 1))


@pytest.mark.parametrize("given", ["ucb", {"name": "ucb"}, {"window": 3}])
def test_without_arms(given):
    with pytest.raises(ValueError, match=r"names no arms, one or more are needed; for example \{'name': 'ucb', 'arms'"):
        as_scheduler(given)


def test_errors_of_what_is_named():
    with pytest.raises(ValueError, match="did you mean 'ucb'"):
        as_scheduler("ubc", arms=[1])
    with pytest.raises(ValueError, match="unknown option of scheduler 'ucb': 'explore'"):
        as_scheduler({"explore": 1}, arms=[1])
    with pytest.raises(ValueError, match=r"a scheduler's name must be text, got 3; for example 'ucb'"):
        as_scheduler({"name": 3}, arms=[1])
    with pytest.raises(ValueError, match="arms must be one or more distinct"):
        as_scheduler([])
