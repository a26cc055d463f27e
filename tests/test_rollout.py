from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from adept.config import Config
from adept.envs import make_environments
from adept.networks import TorchActor, make_network
from adept.normalization import ObservationNormalizer, RewardNormalizer, RunningMoments
from adept.rollout import Collector, gae


def test_gae_by_hand() -> None:
    # δ = r + γV' - V with γ = 0.5, λ = 0.5, so γλ = 0.25. Two steps, the episode goes on:
    # δ0 = 1 + 0.5·4 - 2 = 1, δ1 = 3 + 0.5·6 - 4 = 2; A1 = 2, A0 = 1 + 0.25·2 = 1.5.
    rewards, values = np.array([[1.0], [3.0]], np.float32), np.array([[2.0], [4.0]], np.float32)
    going_on = np.zeros((2, 1), np.bool_)
    advantages = gae(rewards, values, np.array([[4.0], [6.0]], np.float32), going_on, 0.5, 0.5)
    assert advantages.tolist() == [[1.5], [2.0]]
    # The same with an end after the first step: V' = 0 there, and nothing of A1 reaches A0. δ0 = 1 - 2 = -1.
    ended = np.array([[True], [False]])
    advantages = gae(rewards, values, np.array([[0.0], [6.0]], np.float32), ended, 0.5, 0.5)
    assert advantages.tolist() == [[-1.0], [2.0]]


@pytest.mark.parametrize(("discount", "coefficient"), [(0.99, 0.95), (0.9, 0.0), (0.9, 1.0)])
def test_gae_is_the_weighted_sum_of_later_errors(discount: float, coefficient: float) -> None:
    """A_t = Σ_l (γλ)^l δ_{t+l} up to the end of the episode, by a plain double loop in float64."""
    rng = np.random.default_rng(0)
    steps, count = 40, 3
    rewards, values, following = rng.normal(size=(3, steps, count))
    done = rng.random((steps, count)) < 0.15
    errors = rewards + discount * following - values
    expected = np.zeros_like(errors)
    for env in range(count):
        for start in range(steps):
            weight = 1.0
            for step in range(start, steps):
                expected[start, env] += weight * errors[step, env]
                if done[step, env]:
                    break
                weight *= discount * coefficient
    columns = (column.astype(np.float32) for column in (rewards, values, following))
    np.testing.assert_allclose(gae(*columns, done, discount, coefficient), expected, rtol=1e-5, atol=1e-5)


def collector(env: str, **settings: Any) -> Collector:
    options: dict[str, Any] = {"environments": 2, "rollout_length": 7, "minibatch_size": 14, "steps": 14} | settings
    config = Config(env=f"gymnasium/tiny/{env}", **options)
    environments = make_environments(config)
    network = make_network("auto", environments.observation_shape, environments.actions, 0)
    device = torch.device("cpu")
    return Collector(config, environments, network, TorchActor(network, device), device)


def test_no_row_is_a_mere_reset_and_episodes_are_counted() -> None:
    """Episodes of 3 steps: observations 0 1 2, 0 1 2, 0; the row after an end is the first of the next episode."""
    under_test = collector("Ends-v0")
    under_test.restart(0)
    rollout = under_test.collect()
    assert rollout.observations.reshape(7, 2).tolist() == [[x, x] for x in (0, 1, 2, 0, 1, 2, 0)]
    assert rollout.episode_returns == (3.0,) * 4
    assert rollout.episode_lengths == (3,) * 4
    rollout = under_test.collect()  # an episode goes on over the seam of two rollouts
    assert rollout.observations.reshape(7, 2)[:, 0].tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert rollout.episode_returns == (3.0,) * 4
    assert list(under_test.recent_returns) == [3.0] * 8


@pytest.mark.parametrize(("env", "time_limit_ends"), [("Ends-v0", False), ("Cut-v0", False), ("Cut-v0", True)])
def test_what_comes_after_a_step_by_hand(env: str, time_limit_ends: bool) -> None:
    """With λ = 0 a return is r + γV': V(next), at the third step 0 (end) or V(final observation 3) (time limit)."""
    under_test = collector(env, gae_coefficient=0.0, discount=0.5, time_limit_ends=time_limit_ends)
    under_test.restart(0)
    rollout = under_test.collect()
    with torch.no_grad():
        value = under_test._network.values(torch.arange(4.0)[:, None]).tolist()
    last = value[3] if env == "Cut-v0" and not time_limit_ends else 0.0
    expected = [1 + 0.5 * following for following in (value[1], value[2], last, value[1], value[2], last, value[1])]
    np.testing.assert_allclose(rollout.returns.reshape(7, 2).numpy(), np.array([expected] * 2).T, rtol=1e-5)
    assert rollout.mean_return == pytest.approx(np.mean(expected), rel=1e-5)


def test_normalised_rewards_follow_the_reference_wrapper() -> None:
    """Gymnasium's own formula, one step at a time, for one environment."""
    rng = np.random.default_rng(3)
    rewards = rng.normal(2.0, 3.0, (60, 1)).astype(np.float32)
    done = rng.random((60, 1)) < 0.1
    under_test = RewardNormalizer(1, 0.9)
    got = np.concatenate([under_test(rewards[:25], done[:25]), under_test(rewards[25:], done[25:])])
    seen: list[float] = []
    current = 0.0
    for step in range(60):
        current = current * 0.9 + float(rewards[step, 0])
        seen.append(current)
        variance = float(np.var(seen)) if len(seen) > 1 else 1.0
        assert got[step, 0] == pytest.approx(np.clip(rewards[step, 0] / np.sqrt(variance + 1e-8), -10, 10), rel=1e-5)
        if done[step, 0]:
            current = 0.0


def test_running_moments_equal_those_of_all_rows() -> None:
    rows = np.random.default_rng(1).normal(5.0, 2.0, (101, 4)).astype(np.float32)
    moments = RunningMoments((4,))
    for start, end in ((0, 1), (1, 2), (2, 40), (40, 41), (41, 101)):
        moments.update(rows[start:end])
    np.testing.assert_allclose(moments.mean, rows.mean(0, dtype=np.float64), rtol=1e-9)
    np.testing.assert_allclose(moments.variance, rows.var(0, dtype=np.float64), rtol=1e-9)
    normalize = ObservationNormalizer((4,))
    normalize.update(rows)
    np.testing.assert_allclose(normalize(rows), (rows - rows.mean(0)) / rows.std(0), rtol=1e-4, atol=1e-5)
    assert normalize(rows * 1e6).max() == 10.0


def test_observations_that_are_not_numbers_stop_the_run() -> None:
    under_test = collector("Poison-v0", rollout_length=400, minibatch_size=100, steps=800)
    under_test.restart(0)
    with pytest.raises(ValueError, match="not finite"):
        under_test.collect()
