"""River's bandits as an oracle, where its definitions and the paper's coincide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from river import bandit, proba, stats, utils

from adept import UCB, GaussianThompson

ARMS = [5, 3, 2, 1]


class FirstOnTies:
    """River breaks ties at random; the paper's arms are listed in order, and the first is taken."""

    def choice(self, candidates: list[int]) -> int:
        return candidates[0]


def river_ucb(exploration: float, window: int) -> bandit.UCB:
    """River's UCB, brought to the paper's start.

    River scores mean + delta·√(2·ln n / n(K)) with n and n(K) from 0, and takes arms that were never pulled first.
    So delta = c/√2, the mean is rolling, and the counters start at 1, with a mean of nothing, 0.
    """
    policy = bandit.UCB(
        delta=exploration / math.sqrt(2), reward_obj=utils.Rolling(stats.Mean, window_size=window), seed=0
    )
    policy._rng = FirstOnTies()
    policy._n = 1
    for arm in ARMS:
        policy._counts[arm] = 1
        policy._rewards[arm] = utils.Rolling(stats.Mean, window_size=window)
    return policy


@pytest.mark.parametrize("exploration", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("window", [1, 10, 50])
def test_ucb_chooses_what_river_chooses(exploration, window):
    rng = np.random.default_rng(0)
    ours, theirs = UCB(ARMS, exploration=exploration, window=window), river_ucb(exploration, window)
    for iteration in range(1_500):
        choice = ours.select()
        assert choice == theirs.pull(ARMS), iteration
        reward = float(rng.normal(choice * math.sin(iteration / 200), 1.0))
        ours.observe(choice, reward)
        theirs.update(choice, reward)


def test_gaussian_belief_is_rivers_up_to_the_papers_variance():
    """With η = 1 and W = 1, Q is the reward and μ the mean of all of them: river's μ.

    The variances differ by definition. Both add up squares of d = x − μ_old; river (Welford) weighs the one that
    follows N rewards by N/(N+1) and divides the sum by N (ddof 1), the paper weighs them all by 1 and divides by
    N+1. So river's variance follows from the increments of ours.
    """
    rng = np.random.default_rng(2)
    ours, theirs = GaussianThompson([1], step_size=1.0, window=1), proba.Gaussian()
    sum_of_squares = welford = 0.0
    for before in range(400):
        reward = float(rng.normal(-4, 3))
        ours.observe(1, reward)
        theirs.update(reward)
        diagnostics = ours.diagnostics()
        assert diagnostics["mean/1"] == pytest.approx(theirs.mu, abs=1e-10)
        square = diagnostics["std/1"] ** 2 * (before + 1) - sum_of_squares
        sum_of_squares += square
        welford += square * before / (before + 1)
        if before > 0:
            assert welford / before == pytest.approx(theirs.sigma**2, rel=1e-9)
    assert diagnostics["std/1"] == pytest.approx(theirs.sigma, rel=0.05)
