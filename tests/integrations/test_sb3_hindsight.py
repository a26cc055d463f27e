"""Judging updates of Stable-Baselines3 and sb3-contrib, with the real libraries."""

import gymnasium
import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from hosts.sb3 import ENVS, ROLLOUT, Counting, build
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from adept.integrations.sb3 import AdeptCallback

RATE = 0.02


class Spaces(gymnasium.Env):
    """Random observations and rewards of any spaces."""

    def __init__(self, observations, actions):
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), float(np.sum(action)), bool(self.np_random.random() < 0.1), False, {}


BOX, DISCRETE = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(3)


@pytest.mark.parametrize(
    ("observations", "actions", "options"),
    [
        (BOX, gymnasium.spaces.Box(-1, 1, (2,)), {}),
        (BOX, gymnasium.spaces.Box(-1, 1, (2,)), {"use_sde": True}),
        (BOX, gymnasium.spaces.MultiDiscrete([3, 2]), {}),
        (BOX, gymnasium.spaces.MultiBinary(2), {}),
        (DISCRETE, DISCRETE, {}),
        (gymnasium.spaces.Dict({"a": BOX, "b": DISCRETE}), DISCRETE, {"policy": "MultiInputPolicy"}),
    ],
    ids=["box", "sde", "multi-discrete", "multi-binary", "discrete", "dict"],
)
def test_any_spaces_are_judged(observations, actions, options):
    torch.manual_seed(0)
    env = DummyVecEnv([lambda: Spaces(observations, actions)] * ENVS)
    model = build(env=env, n_epochs=2, **options)
    callback = AdeptCallback(gains_every=1, verbose=0)
    model.learn(3 * ROLLOUT, callback)
    assert callback.engine.feedback.slope.known
    assert callback.engine.feedback.update_gain.known


def test_the_advice_knows_the_schedule_the_score_and_scaled_rewards():
    callback = AdeptCallback(verbose=0)
    env = DummyVecEnv([lambda: Monitor(Counting())] * ENVS)
    model = build(env=env, learning_rate=lambda remaining: 1e-3 * remaining)
    model.learn(4 * ROLLOUT, callback)
    history = list(callback.engine._history)
    assert [row["learning_rate"] for row in history] == pytest.approx([7.5e-4, 5e-4, 2.5e-4, 0.0])
    assert history[-1]["score"] == pytest.approx(np.mean([episode["r"] for episode in model.ep_info_buffer]))
    assert not callback.engine.rewards_scaled


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_errors_of_the_update_itself_are_the_hosts(error):
    def fails(*_):
        raise error

    model = build()
    model.policy.optimizer.register_step_pre_hook(fails)
    with pytest.raises(error):
        model.learn(ROLLOUT, AdeptCallback())
