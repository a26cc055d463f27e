"""Schedulers by name, and the errors for names, options and numbers of epochs that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import adept
from adept.schedulers import SCHEDULERS, GaussianThompson, make_scheduler, scheduler_class, scheduler_options


def test_make_scheduler_passes_arms_seed_and_options():
    scheduler = make_scheduler("thompson", [4, 2], seed=3, step_size=0.1, window=7)
    twin = GaussianThompson([4, 2], step_size=0.1, window=7, seed=3)
    assert type(scheduler) is GaussianThompson
    assert scheduler.state_dict() == twin.state_dict()
    assert scheduler.options == {"step_size": 0.1, "window": 7}


def test_every_name_builds_its_class():
    for name, cls in SCHEDULERS.items():
        assert scheduler_class(name) is cls
        assert scheduler_class(f"{cls.__module__}:{cls.__qualname__}") is cls
        assert type(make_scheduler(name, [1])) is cls


@pytest.mark.parametrize(
    ("given", "near"),
    [("ubc", "ucb"), ("UCB", "ucb"), ("Thompsen", "thompson"), ("roundrobin", "round-robin"), ("fix", "fixed")],
)
def test_unknown_name_names_the_nearest(given, near):
    with pytest.raises(ValueError, match=rf"unknown scheduler '{given}', expected one of ucb, .*'{near}'\?"):
        make_scheduler(given, [1])


def test_unknown_option_lists_the_options():
    with pytest.raises(ValueError, match="unknown option") as caught:
        make_scheduler("ucb", [1], explorations=1.0)
    assert str(caught.value) == (
        "unknown option of scheduler 'ucb': 'explorations', expected one of exploration, window; "
        "did you mean 'exploration'?"
    )
    with pytest.raises(ValueError, match="unknown option of scheduler 'fixed': 'window', there are none"):
        make_scheduler("fixed", [1], window=1)


@pytest.mark.parametrize("scale", ["auto", None])
def test_the_former_option_scale_names_the_schedulers_that_took_its_place(scale):
    with pytest.raises(ValueError, match=r"'ucb' has no scale, got .*; .*'standardized-ucb' and 'standardized-thomp"):
        make_scheduler("ucb", [1], scale=scale)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:Thing", "No module named 'no_such_module'; give 'package.module:Class'"),
        ("adept.schedulers:Missing", "no attribute 'Missing'; give 'package.module:Class'"),
        ("adept.schedulers:", "is no name of a class; give 'package.module:Class'"),
        (":UCB", "is no name of a class"),
        (".x:y", "is no name of a class"),
        ("a..b:C", "is no name of a class"),
        ("a b:C", "is no name of a class"),
        ("math:sqrt", "must be a complete subclass of adept.Scheduler, got <built-in function sqrt>; derive"),
        ("builtins:dict", "must be a complete subclass"),
        ("adept:Scheduler", "must be a complete subclass"),
    ],
)
def test_a_path_that_is_no_scheduler(path, message):
    with pytest.raises(ValueError, match=message):
        make_scheduler(path, [1])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ucb", ["exploration", "window"]),
        ("thompson", ["step_size", "window"]),
        ("standardized-ucb", ["exploration", "window"]),
        ("standardized-thompson", ["step_size", "window"]),
        ("round-robin", []),
        ("fixed", []),
    ],
)
def test_options_are_the_constructors_own_knobs(name, options):
    assert scheduler_options(SCHEDULERS[name]) == list(make_scheduler(name, [1]).options) == options


def test_epoch_arms_are_whole_numbers_from_one():
    assert adept.epoch_arms([3, 2, 1]) == (3, 2, 1)
    arms = adept.epoch_arms(np.array([10, 5]))
    assert arms == (10, 5)
    assert all(type(arm) is int for arm in arms)


WHOLE = r"a number of epochs must be a whole number ≥ 1, got .*; for example 3"
DISTINCT = r"arms must be .*; for example \[3, 2, 1\]"


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        *(([arm], WHOLE) for arm in (0, -1, 2.0, "3", True, None, np.float64(2))),
        ([3, 0], WHOLE),
        *((arms, DISTINCT) for arms in ([], [2, 2], 3, None, "321", {3, 2})),
    ],
)
def test_epoch_arms_refuses_what_is_no_list_of_numbers_of_epochs(arms, message):
    with pytest.raises(ValueError, match=message):
        adept.epoch_arms(arms)
