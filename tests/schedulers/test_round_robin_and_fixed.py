"""The two rules that rewards do not move."""

from __future__ import annotations

import pytest

from adept import Fixed, RoundRobin, make_scheduler


def test_round_robin_takes_the_arms_in_turn_the_first_one_first():
    scheduler = RoundRobin([5, 3, 2, 1])
    rewards = [None, 100.0, -100.0, 0.0, None, 3.0, 1.0, 1.0, 9.0]
    assert [scheduler.step(reward) for reward in rewards] == [5, 3, 2, 1, 5, 3, 2, 1, 5]
    assert scheduler.diagnostics() == {"choices/5": 3.0, "choices/3": 2.0, "choices/2": 2.0, "choices/1": 2.0}


def test_round_robin_counts_select_like_step_and_not_observe():
    scheduler = RoundRobin(["a", "b"])
    assert scheduler.select() == "a"
    scheduler.observe("a", 1.0)
    assert scheduler.step(None) == "b"
    assert scheduler.select() == "a"


def test_fixed_takes_its_arm_whatever_the_rewards():
    scheduler = Fixed(4)
    assert [scheduler.step(reward) for reward in (None, 1.0, -5.0, 1e99)] == [4, 4, 4, 4]
    assert scheduler.arms == (4,)
    assert scheduler.diagnostics() == {"choices/4": 4.0}


def test_fixed_by_name_takes_a_list_of_one():
    assert make_scheduler("fixed", [3]).select() == 3
    with pytest.raises(ValueError, match=r"takes exactly one arm, got \(3, 2\); for example \[3\]"):
        make_scheduler("fixed", [3, 2])
