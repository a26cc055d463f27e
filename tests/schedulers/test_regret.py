"""Regret on bandits that stay and bandits that switch, as a share of what a uniform choice loses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adept import make_scheduler

ARMS = [3, 2, 1]
STEPS = 2_000
STAY = np.tile([0.0, 0.5, 1.0], (STEPS, 1))
SWITCH = np.concatenate([np.tile(row, (STEPS // 4, 1)) for row in ([0, 0.5, 1], [1, 0.5, 0], [0, 1, 0.5], [0.5, 0, 1])])


def regret(name: str, means: np.ndarray, seed: int, **options: Any) -> float:
    """Return the regret as a share of a uniform choice's, with noise of standard deviation 0.5 on the rewards.

    Rewards reach the scheduler as in training: with the next `step`.
    """
    rng = np.random.default_rng(seed)
    scheduler = make_scheduler(name, ARMS, seed=seed, **options)
    lost = 0.0
    arm = scheduler.step(None)
    for row in means:
        mean = row[ARMS.index(arm)]
        lost += row.max() - mean
        arm = scheduler.step(mean + rng.normal(0.0, 0.5))
    return lost / (means.max(axis=1) - means.mean(axis=1)).sum()


# The bounds are about twice what was measured over these five seeds, so that a wrong rule fails, not a new seed.
@pytest.mark.parametrize(
    ("name", "options", "stays", "switches"),
    [
        ("standardized-ucb", {}, 0.06, 0.18),
        ("standardized-thompson", {}, 0.12, 0.95),  # its μ averages over all time: after a switch it learns slowly
        ("ucb", {"exploration": 1.0}, 0.12, 0.2),
        ("ucb", {}, 0.6, 0.4),
        ("thompson", {}, 0.12, 0.95),
    ],
)
def test_regret_is_a_fraction_of_a_uniform_choices(name, options, stays, switches):
    assert np.mean([regret(name, STAY, seed, **options) for seed in range(5)]) < stays
    assert np.mean([regret(name, SWITCH, seed, **options) for seed in range(5)]) < switches


def test_round_robin_loses_what_a_uniform_choice_loses():
    assert regret("round-robin", STAY, 0) == pytest.approx(1.0, abs=0.01)


def test_crediting_the_choice_at_hand_instead_of_the_previous_one_finds_the_best_arm_less_often():
    """The reason for `step`: a rollout shows what the previous choice led to."""

    def share_of_best(seed: int, previous: bool) -> float:
        rng = np.random.default_rng(seed)
        scheduler = make_scheduler("ucb", ARMS, exploration=1.0, window=10)
        arm, best = scheduler.select(), 0
        for _ in range(STEPS):
            reward = STAY[0][ARMS.index(arm)] + rng.normal(0.0, 0.5)
            if previous:
                scheduler.observe(arm, reward)
                arm = scheduler.select()
            else:
                arm = scheduler.select()
                scheduler.observe(arm, reward)
            best += arm == 1
        return best / STEPS

    to_previous = np.mean([share_of_best(seed, previous=True) for seed in range(5)])
    to_the_new_one = np.mean([share_of_best(seed, previous=False) for seed in range(5)])
    assert to_previous > 0.9
    assert to_the_new_one < to_previous - 0.02
