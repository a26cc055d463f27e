"""Gain and slope against exact worlds: unbiased, and with errors of the right size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adept.hindsight.estimates import (
    UNKNOWN,
    Estimate,
    critic_slope,
    gain,
    kl,
    normalize,
    slope,
    step_kl,
    time_groups,
    weighted,
)
from tests.hindsight.worlds import Bandit, Chain, log_softmax


def near(estimates, truth, errors=4.0):
    """Say whether the mean of independent estimates is the truth within so many Monte-Carlo errors."""
    values = np.array(estimates)
    return abs(values.mean() - truth) < errors * values.std(ddof=1) / math.sqrt(len(values))


def test_by_hand():
    """Four rows in two groups; advantages 1, -1, 3, -3 have mean 0 and standard deviation √5."""
    advantages, groups = [1.0, -1.0, 3.0, -3.0], [0, 0, 1, 1]
    longer, shorter = [0.2, 0.0, 0.1, 0.1], [0.0, 0.2, 0.1, -0.1]
    # (longer - shorter)/(2·0.25) = 0.4, -0.4, 0, 0.4; times Â and averaged: (0.4 + 0.4 + 0 - 1.2)/(4√5) = -0.1/√5.
    found = slope(longer, shorter, advantages, groups)
    assert found.value == pytest.approx(-0.1 / math.sqrt(5))
    # Mean weight 0.1: (0.3, -0.5, -0.1, 0.3)·Â·√5 = 0.3, 0.5, -0.3, -0.9; less -0.1 each and summed: 1.0 and -1.0.
    # Less ½·(-0.1)·(Â² - 1), with Â² = 0.2, 0.2, 1.8, 1.8: less 0.04 and -0.04 for each row of a group: 0.92 and -0.92.
    assert found.error == pytest.approx(math.sqrt(2 / 1 * 2 * 0.92**2) / 4 / math.sqrt(5))
    assert found.freedom == 1
    assert step_kl(longer, shorter) == pytest.approx(0.5 * (3 * 0.16) / 4)


def test_gain_by_hand_is_cut_and_paired():
    deployed, groups, advantages = np.log([0.5, 0.5, 0.1, 0.1]), [0, 1, 0, 1], [1.0, -1.0, 1.0, -1.0]
    candidate, other = np.log([0.6, 0.4, 0.9, 0.2]), np.log([0.55, 0.5, 0.1, 0.1])
    # Ratios 1.2, 0.8, 9 → 5, 2; times Â = ±1: (0.2 + 0.2 + 4 - 1)/4.
    assert gain(candidate, deployed, advantages, groups).value == pytest.approx(0.85)
    assert gain(candidate, deployed, advantages, groups, limit=10).value == pytest.approx(1.85)
    # Over ratios 1.1, 1, 1, 1: (0.1 + 0.2 + 4 - 1)/4.
    assert gain(candidate, deployed, advantages, groups, over=other).value == pytest.approx(0.825)
    assert kl(deployed, other) == pytest.approx((0.1 - math.log(1.1)) / 4)


def test_the_critics_slope_by_hand():
    """Values moved by 1, 1, 2, 2 and are still short by 2, 0, 1, 3: Σ moved·missing = 10, Σ moved² = 10."""
    before, deployed, missing = [0.0, 1.0, 0.0, 1.0], [1.0, 2.0, 2.0, 3.0], [2.0, 0.0, 1.0, 3.0]
    found = critic_slope(before, deployed, missing, [0, 0, 1, 1])
    assert found.value == pytest.approx(1.0)  # twice as far would have been best: Σ(missing - moved)·moved = 0
    # Products 2, 0, 2, 6 less their mean 2.5, by group: -3 and 3. √(2/1·18)/4 over a mean moved² of 2.5.
    assert found.error == pytest.approx(math.sqrt(36) / 4 / 2.5)
    assert found.freedom == 1


def test_the_critics_slope_is_the_best_length_along_the_update():
    rng = np.random.default_rng(0)
    before, moved, noise = rng.normal(size=(3, 4000))
    returns = before + 3.0 * moved + 0.1 * noise  # three times the step would fit
    found = critic_slope(before, before + moved, returns - before - moved, np.arange(4000) % 16)
    assert found.value == pytest.approx(2.0, abs=4 * found.error)
    lengths = np.linspace(2.5, 3.5, 1001)
    losses = [np.mean((returns - before - length * moved) ** 2) for length in lengths]
    assert 1 + found.value == pytest.approx(lengths[np.argmin(losses)], abs=1e-3)


def test_a_critic_that_is_off_by_a_constant_lags_and_one_that_is_right_does_not():
    rng = np.random.default_rng(1)
    values, groups = rng.normal(size=640), np.arange(640) % 16
    off = critic_slope(values, values - 2.0, np.full(640, -10.0) + 0.1 * rng.normal(size=640), groups)
    assert off.value == pytest.approx(5.0, rel=0.01)
    assert off.z > 10
    zs = [critic_slope(values, values + rng.normal(size=640), rng.normal(size=640), groups).z for _ in range(300)]
    assert abs(np.mean(zs)) < 4 / math.sqrt(300)
    assert np.std(zs) == pytest.approx(1.0, abs=0.2)


def test_a_critic_that_did_not_move_or_has_no_spread_says_nothing():
    rows = [1.0, 2.0, 3.0, 4.0]
    assert not critic_slope(rows, rows, rows, [0, 0, 1, 1]).known
    assert not critic_slope([0.0] * 4, rows, [0.0] * 4, [0, 0, 1, 1]).known
    assert not critic_slope([0.0] * 4, rows, rows, [0, 0, 0, 0]).known
    assert not critic_slope([0.0] * 4, [1.0, 2.0, math.nan, 4.0], rows, [0, 0, 1, 1]).known
    assert not critic_slope([], [], [], []).known
    with pytest.raises(ValueError, match="give one value per row"):
        critic_slope(rows, rows, rows[:3], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="give the group of each row"):
        critic_slope(rows, rows, rows, [0, 1])


@pytest.mark.parametrize("names", [(0, 1, 2), (2, 0, 1), (7, -3, 40), (0, 2, 5), ("c", "a", "b"), (0.5, 1.5, 2.0)])
def test_groups_may_have_any_names(names):
    weights, advantages = [1.0, 2.0, 4.0, 1.0, 0.0, 3.0], [1.0, -1.0, 2.0, -2.0, 3.0, -3.0]
    plain = weighted(weights, advantages, [0, 0, 1, 1, 2, 2])
    named = weighted(weights, advantages, [name for name in names for _ in range(2)])
    assert (named.value, named.error, named.freedom) == pytest.approx((plain.value, plain.error, plain.freedom))
    assert plain.freedom == 2


def test_equal_groups_give_the_error_of_a_mean_of_means():
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((32, 10))
    advantages = rng.permuted(np.tile([-1.0, 1.0], (32, 5)), axis=1)  # Â² = 1 in every row, mean 0 in every group
    found = weighted(weights, advantages, np.repeat(np.arange(32), 10))
    products = (weights - weights.mean()) * advantages
    assert found.value == pytest.approx(products.mean())
    assert found.error == pytest.approx(products.mean(1).std(ddof=1) / math.sqrt(32))


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_unbiased_on_a_bandit(noise):
    bandit, rng, slopes, gains, paired = Bandit(), np.random.default_rng(1), [], [], []
    logs = {length: log_softmax(bandit.at(length)) for length in (0.0, 0.75, 1.0, 1.25, 2.0)}
    for _ in range(2000):
        actions, rewards = bandit.collect(rng, 400, noise)
        groups = np.arange(400) % 16
        unit = rewards.std() * 400 / 399  # in rewards, and Bessel's correction: centring costs one row of 400
        first, now, last = logs[0.0][actions], logs[1.0][actions], logs[2.0][actions]
        slopes.append(unit * slope(logs[1.25][actions], logs[0.75][actions], rewards, groups).value)
        gains.append(unit * gain(last, now, rewards, groups).value)
        paired.append(unit * gain(now, now, rewards, groups, over=first).value)
    assert near(slopes, bandit.derivative())
    assert near(gains, bandit.value(bandit.at(2)) - bandit.value(bandit.at(1)))
    assert near(paired, bandit.value(bandit.at(1)) - bandit.value(bandit.at(0)))


def chain_samples(repeats, environments):
    """Estimates of the slope on the chain, with whole returns for advantages: rows of an episode are correlated."""
    chain, rng = Chain(), np.random.default_rng(2)
    longer, shorter = log_softmax(chain.at(1.25)), log_softmax(chain.at(0.75))
    groups = time_groups(chain.horizon, environments)
    found = []
    for _ in range(repeats):
        states, actions, advantages = chain.collect(rng, environments)
        found.append(
            (slope(longer[states, actions], shorter[states, actions], advantages, groups), advantages.std(),
             slope(longer[states, actions], shorter[states, actions], advantages, np.arange(advantages.size)))
        )  # fmt: skip
    return chain, found


def test_unbiased_on_a_chain_with_errors_right_for_correlated_rows():
    chain, found = chain_samples(1500, 64)
    truth = chain.derivative() / chain.horizon  # the mean over the rows of an episode, not their sum
    in_rewards = np.array([estimate.value * deviation for estimate, deviation, _ in found])
    assert near(in_rewards, truth, 4.5)
    unit = truth / np.mean([deviation for _, deviation, _ in found])
    errors = np.array([estimate.error for estimate, _, _ in found])
    values = np.array([estimate.value for estimate, _, _ in found])
    assert np.sqrt((errors**2).mean()) == pytest.approx(values.std(), rel=0.1)
    z = [Estimate(estimate.value - unit, estimate.error, estimate.freedom).z for estimate, _, _ in found]
    assert np.mean(np.abs(z) < 1.96) > 0.9  # returns are skewed, so not quite 0.95
    # Rows taken as independent would claim to know more than they do.
    naive = np.array([estimate.error for _, _, estimate in found])
    assert np.sqrt((naive**2).mean()) < 0.9 * values.std()


def test_the_gain_on_a_chain_is_that_of_the_policy_to_first_order():
    chain, rng = Chain(), np.random.default_rng(3)
    before, now = log_softmax(chain.at(0.0)), log_softmax(chain.at(1.0))
    groups = time_groups(chain.horizon, 32)
    found = []
    for _ in range(2000):
        states, actions, advantages = chain.collect(rng, 32)
        estimate = gain(now[states, actions], now[states, actions], advantages, groups, over=before[states, actions])
        found.append(estimate.value * advantages.std() * chain.horizon)
    assert near(found, -chain.first_order(0.0), 5)
    # The states that π₀ would visit are left out of account, so this is not quite the difference of the returns.
    assert -chain.first_order(0.0) == pytest.approx(chain.value(chain.at(1.0)) - chain.value(chain.at(0.0)), rel=0.25)
    assert -chain.first_order(0.9) == pytest.approx(chain.value(chain.at(1.0)) - chain.value(chain.at(0.9)), rel=0.025)


@pytest.mark.parametrize(("steps", "environments"), [(512, 1), (128, 4), (32, 16), (128, 64)])
def test_z_is_standard_normal_under_permuted_advantages(steps, environments):
    rng, rows = np.random.default_rng(4), steps * environments
    weights = 0.1 * rng.standard_normal(rows) ** 3 + 0.02
    advantages = rng.exponential(size=rows) + 3
    groups = time_groups(steps, environments)
    z = np.array([weighted(weights, rng.permutation(advantages), groups).z for _ in range(4000)])
    assert abs(z.mean()) < 4 / math.sqrt(4000)
    assert np.var(z) == pytest.approx(1, abs=0.1)
    assert np.mean(np.abs(z) > 1.96) == pytest.approx(0.05, abs=0.015)


def test_unequal_groups_whose_rows_depend_on_each_other():
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(60), rng.integers(5, 60, 60))
    z, naive = [], []
    for _ in range(3000):
        weights, advantages = (rng.standard_normal(60)[groups] + rng.standard_normal(len(groups)) for _ in range(2))
        z.append(weighted(weights, advantages, groups).z)
        naive.append(weighted(weights, advantages, np.arange(len(groups))).z)
    assert np.var(z) == pytest.approx(1, abs=0.12)
    assert np.var(naive) > 3


def test_groups_of_rows():
    assert time_groups(2, 8).tolist() == [*range(8)] * 2
    assert time_groups(4, 7)[:7].tolist() == [0, 3, 6, 9, 12, 15, 18]
    assert len(np.unique(time_groups(64, 1))) == 16
    assert np.bincount(time_groups(64, 1)).tolist() == [4] * 16
    assert len(np.unique(time_groups(64, 3))) == 18
    assert np.unique(time_groups(5, 1)).tolist() == [0, 1, 2, 3, 4]
    # Row t·N + n of three environments: 6 blocks of each environment, in time.
    table = time_groups(12, 3).reshape(12, 3)
    assert table[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert table[0].tolist() == [0, 6, 12]


def test_normalize():
    assert normalize([1.0, 3.0]).tolist() == [-1.0, 1.0]
    rng = np.random.default_rng(0)
    values = rng.standard_normal(50)
    assert normalize(normalize(values)) == pytest.approx(normalize(values))
    assert normalize(1e6 * values + 1e6) == pytest.approx(normalize(values))
    assert normalize(1e-6 * values) == pytest.approx(normalize(values))


@pytest.mark.parametrize(
    "advantages",
    [[0.0] * 6, [7.0] * 6, [1e12 + 1e-3 * n for n in range(6)], [1, math.nan, 2, 3, 4, 5], [1, 2, 3, math.inf, 5, 6]],
)
def test_advantages_that_say_nothing(advantages):
    found = slope([0.1] * 3 + [0.2] * 3, [0.0] * 6, advantages, [0, 1, 2, 3, 4, 5])
    assert not found.known
    assert found.z == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_log_probs_that_are_not_finite(bad):
    advantages, groups = [1.0, 2.0, 4.0], [0, 1, 2]
    assert slope([bad, 0, 0], [0, 0, 0], advantages, groups) is UNKNOWN
    # An infinite log-probability still has a ratio: 0, or what ratios are cut at.
    assert gain([0, bad, 0], [0, 0, 0], advantages, groups).known == (not math.isnan(bad))
    assert gain([0, bad, 0], [0, bad, 0], advantages, groups) is UNKNOWN


def test_one_group_or_no_rows_say_nothing():
    assert not slope([0.1, 0.2], [0, 0], [1, 2], [0, 0]).known
    assert not slope([], [], [], []).known
    assert slope([0.1], [0.0], [1.0], [0]).z == 0


def test_columns_of_unequal_length_are_a_mistake():
    with pytest.raises(ValueError, match="3, 2 rows; give one value per row"):
        slope([0, 0, 0], [0, 0], [1, 2, 3], [0, 1, 2])
    with pytest.raises(ValueError, match="2 groups for 3 rows"):
        slope([0, 0, 0], [0, 0, 0], [1, 2, 3], [0, 1])


def test_z_of_few_groups_is_the_normal_deviate_of_the_same_tail():
    """From tables of t: the two-sided 5 % point is 2.131 with 15 degrees of freedom and 2.365 with 7."""
    assert Estimate(2.131, 1.0, 15).z == pytest.approx(1.96, abs=0.01)
    assert Estimate(-2.365, 1.0, 7).z == pytest.approx(-1.96, abs=0.01)
    assert Estimate(3.0, 2.0).z == 1.5
    assert Estimate(1.0, 0.0).z == 0
    assert UNKNOWN.z == 0
    assert math.isfinite(Estimate(1e300, 1e-300, 3).z)
