"""Placebos by hand, and the verdict on schedulers whose preference is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adept.probe.placebo import Placebo, feed, placebo, preference

FALLING = [np.linspace(1.0, 0.0, 60) + 0.001 * seed for seed in range(6)]
RNG = np.random.default_rng(1)
RISING = [1 / (1 + np.exp((120 - np.arange(240)) / 10)) + 0.02 * RNG.normal(size=240) for _ in range(6)]
NOISE = [RNG.normal(size=200) for _ in range(6)]


def test_a_scheduler_sees_the_given_rewards_and_nothing_else():
    # Round robin whatever comes; fixed always the same.
    assert feed("round-robin", (3, 2, 1), {}, [5.0, math.nan, 7.0, 1.0], 1) == [3, 2, 1, 3]
    assert feed("fixed", (4,), {}, [1.0, 2.0], 1) == [4, 4]


def test_greedy_ucb_on_falling_rewards_by_hand():
    # c = 0, W = 1: the value of an arm is its last reward; untried arms count as 0. The first choice is the first arm,
    # credited with reward 2 when the second comes: it leads with 1 > 0, then with -1 it does not.
    chosen = feed("ucb", (2, 1), {"exploration": 0.0, "window": 1}, [9.0, 1.0, -1.0, -2.0, -3.0], 1)
    #              start: tie → 2; 2 got 1 → 2; 2 got -1 → 1; 1 got -2: 2 has -1 → 2; 2 got -3: 1 has -2 → 1
    assert chosen == [2, 2, 1, 2, 1]


def test_shares_count_each_runs_choices():
    found = placebo("round-robin", (2, 1), {}, [np.zeros(3), np.zeros(4)], "t")
    np.testing.assert_allclose(found.fed, [[2 / 3, 1 / 3], [0.5, 0.5]])
    assert found.favourites == {2: 2, 1: 0}
    assert found.most.value == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_random_order_takes_the_trend_away():
    # While the return rises, the arm that is tried rises with it, and the others keep the rewards of before.
    found = placebo("ucb", (3, 2, 1), {"exploration": 1.0, "window": 50}, RISING, "t")
    assert found.most.value > found.shuffled_most.value + 0.1


def test_a_scheduler_that_takes_arms_in_turn_prefers_none():
    found = preference([placebo("round-robin", (4, 2, 1), {}, NOISE, "t")])
    assert found.verdict == "none"
    assert found.even == pytest.approx(1 / 3)


def test_a_scheduler_that_sticks_to_one_arm_prefers_arms():
    found = preference([placebo("ucb", (4, 2, 1), {"exploration": 0.0, "window": 50}, FALLING, "t")])
    assert found.verdict == "arms"
    assert found.most.low > 1 / 3 + 0.1


def stuck(arm: int, runs: int = 6) -> Placebo:
    table = np.zeros((runs, 3))
    table[:, arm] = 1.0
    return Placebo("t", (4, 2, 1), table, table)


def test_the_cheapest_arm_in_every_run_claims_nothing():
    found = preference([stuck(2), stuck(2)])
    assert (found.verdict, found.cheapest_runs, found.runs) == ("cheapest", 12, 12)
    assert preference([stuck(2), stuck(0)]).verdict == "arms"


def test_one_run_is_too_few():
    assert preference([stuck(0, runs=1)]).verdict == "unclear"
