"""Judging updates of Stable-Baselines3 and sb3-contrib, with the real libraries."""

import gymnasium
import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from hosts.sb3 import ENVS, ROLLOUT, AtRolloutEnd, Counting, build
from recording import assert_equal_bit_for_bit
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.policies import ActorCriticPolicy
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


def test_only_updates_that_were_seen_are_judged():
    model, callback, judged = build(), AdeptCallback(verbose=0), []
    callbacks = [callback, AtRolloutEnd(lambda: judged.append(callback.engine.feedback is not None))]
    model.learn(2 * ROLLOUT, callbacks)
    model.learn(2 * ROLLOUT, callbacks, reset_num_timesteps=False)
    assert judged == [False, True, True, True], "a second learn goes on"
    model.learn(ROLLOUT, reset_num_timesteps=False)
    model.learn(2 * ROLLOUT, callbacks, reset_num_timesteps=False)
    assert judged[4:] == [False, True], "the update in between was not seen"


def test_the_advice_knows_the_schedule_the_score_and_scaled_rewards():
    callback = AdeptCallback(verbose=0)
    env = DummyVecEnv([lambda: Monitor(Counting())] * ENVS)
    model = build(env=env, learning_rate=lambda remaining: 1e-3 * remaining)
    model.learn(4 * ROLLOUT, callback)
    history = list(callback.engine._history)
    assert [row["learning_rate"] for row in history] == pytest.approx([7.5e-4, 5e-4, 2.5e-4, 0.0])
    assert history[-1]["score"] == pytest.approx(np.mean([episode["r"] for episode in model.ep_info_buffer]))
    assert not callback.engine.rewards_scaled


class Unjudged(ActorCriticPolicy):
    """A policy of a user's own that acts and learns, but cannot be asked for its distribution."""

    def get_distribution(self, obs):
        torch.rand(1)
        self.set_training_mode(False)
        raise NotImplementedError("this policy has no distribution")


@pytest.mark.filterwarnings("error")
def test_a_policy_that_cannot_be_judged_is_trained_as_without_the_callback(capsys):
    plain = build(policy=Unjudged)
    plain.learn(4 * ROLLOUT)
    monitored, callback = build(policy=Unjudged), AdeptCallback()
    with pytest.warns(
        RuntimeWarning, match="training goes on unchanged: NotImplementedError: this policy has no"
    ) as told:
        monitored.learn(4 * ROLLOUT, callback)
    assert len(told) == 1
    assert_equal_bit_for_bit((monitored.policy.state_dict(), plain.policy.state_dict()))
    assert vars(monitored).keys() == vars(plain).keys(), "nothing is left on the model"
    assert "get" not in vars(monitored.rollout_buffer)
    said = "Evaluation stopped at update 1: NotImplementedError: this policy has no distribution."
    assert capsys.readouterr().out.endswith(f"{said}\n")
    with pytest.raises(NotImplementedError):
        build(policy=Unjudged).learn(4 * ROLLOUT, AdeptCallback("hindsight"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_errors_of_the_update_itself_are_the_hosts(error):
    def fails(*_):
        raise error

    model = build()
    model.policy.optimizer.register_step_pre_hook(fails)
    with pytest.raises(error):
        model.learn(ROLLOUT, AdeptCallback())


def test_steps_far_too_short_are_called_so():
    env = DummyVecEnv([lambda: Spaces(BOX, gymnasium.spaces.Box(-1, 1, (2,)))] * 8)
    model = PPO(
        "MlpPolicy", env, n_steps=64, batch_size=128, n_epochs=2, learning_rate=1e-5, seed=1, device="cpu", gamma=0
    )
    callback = AdeptCallback(verbose=0, gains_every=1)
    model.learn(30 * 512, callback)
    assert callback.advice().whole.direction == "short"
    assert "learning rate" in str(callback.advice())
    assert "--scheduler" not in str(callback.advice()), "there is no command line here"
