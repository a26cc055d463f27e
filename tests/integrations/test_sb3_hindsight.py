"""Judging updates of Stable-Baselines3 and sb3-contrib, with the real libraries."""

import copy

import gymnasium
import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from recording import gain_by_hand, slope_by_hand
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv
from test_sb3 import ENVS, MINIBATCHES, POLICIES, ROLLOUT, STEPS, Counting, Rows, build

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


def parameters(model):
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


@pytest.mark.parametrize("algorithm", POLICIES)
def test_monitoring_changes_no_parameter_of_the_training(algorithm):
    plain = build(algorithm)  # building a model sets the seed of every generator
    plain.learn(6 * ROLLOUT)
    monitored, callback = build(algorithm), AdeptCallback(gains_every=2, verbose=0)
    monitored.learn(6 * ROLLOUT, callback)
    assert callback.engine.feedback.slope.known
    for name, value in parameters(plain).items():
        assert torch.equal(parameters(monitored)[name], value), name
    states = [model.policy.optimizer.state_dict()["state"] for model in (plain, monitored)]
    for index, entry in states[0].items():
        assert all(torch.equal(entry[name], states[1][index][name]) for name in entry)
    assert vars(monitored).keys() == vars(plain).keys(), "nothing is left on the model"
    assert "get" not in vars(monitored.rollout_buffer)


class Oracle(BaseCallback):
    """Compute slope and gains with code of its own: policies loaded with parameters, rows in the buffer's order."""

    def __init__(self):
        super().__init__()
        self.slopes, self.gains, self.gain_by_epoch, self.critics = [], [], [], []
        self.start = None
        self.epochs = []

    def _on_training_start(self):
        self.steps = 0
        self.model.policy.optimizer.register_step_post_hook(self._stepped)

    def _stepped(self, *_):
        self.steps += 1
        if self.steps % MINIBATCHES == 0:
            self.epochs.append(parameters(self.model))

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        end = parameters(self.model)
        if self.start is not None:
            at = {share: {n: self.start[n] + share * (end[n] - self.start[n]) for n in end} for share in (1.25, 0.75)}
            log_probs = {share: self._log_probs(place) for share, place in at.items()}
            deployed, before = self._log_probs(end), self._log_probs(self.start)
            advantages = self._advantages()
            self.slopes.append(slope_by_hand(log_probs[1.25], log_probs[0.75], advantages))
            self.gains.append(gain_by_hand(deployed, before, deployed, advantages))
            self.critics.append(self._critic())
            self.gain_by_epoch.append(
                [gain_by_hand(self._log_probs(place), before, deployed, advantages) for place in self.epochs[:-1]]
            )
        self.start, self.epochs = end, []

    def _critic(self):
        """Return the best length of the critic's step less 1, by least squares; None for a recurrent policy."""
        if isinstance(self.model, RecurrentPPO):
            return None
        policy, buffer = copy.deepcopy(self.model.policy), self.model.rollout_buffer
        policy.load_state_dict(self.start)
        with torch.no_grad():
            rows = torch.as_tensor(buffer.observations.reshape(STEPS * ENVS, -1))
            before = policy.predict_values(rows).numpy().ravel().astype(float)
        moved = buffer.values.ravel() - before
        return np.linalg.lstsq(moved[:, None], buffer.returns.ravel() - before, rcond=None)[0][0] - 1

    def _advantages(self):
        return self.model.rollout_buffer.advantages.T

    def _log_probs(self, place):
        """Pass every environment by itself, one step after the other."""
        policy = copy.deepcopy(self.model.policy)
        policy.load_state_dict(place)
        buffer = self.model.rollout_buffer
        found = np.zeros((ENVS, STEPS))
        with torch.no_grad():
            for env in range(ENVS):
                state = None
                for step in range(STEPS):
                    observation = torch.as_tensor(buffer.observations[step, env][None])
                    action = torch.as_tensor(buffer.actions[step, env]).long()
                    if isinstance(self.model, RecurrentPPO):
                        if state is None:
                            cells = (buffer.hidden_states_pi, buffer.cell_states_pi)
                            state = tuple(torch.as_tensor(cell[0][:, env : env + 1]) for cell in cells)
                        start = torch.as_tensor(buffer.episode_starts[step, env : env + 1])
                        distribution, state = policy.get_distribution(observation, state, start)
                    elif hasattr(buffer, "action_masks"):
                        distribution = policy.get_distribution(observation, buffer.action_masks[step, env][None])
                    else:
                        distribution = policy.get_distribution(observation)
                    found[env, step] = distribution.log_prob(action)
        return found


@pytest.mark.parametrize("algorithm", POLICIES)
def test_slope_and_gains_are_those_of_an_independent_computation(algorithm):
    model, rows, oracle = build(algorithm, learning_rate=RATE, n_epochs=3), Rows(), Oracle()
    model.set_logger(Logger(None, [rows]))
    callback = AdeptCallback(gains_every=1, verbose=0)
    seen = []

    class See(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            seen.append(callback.engine.feedback)

    model.learn(5 * ROLLOUT, [oracle, callback, See()])
    assert seen[0] is None
    for evaluation, slope, gain, by_epoch in zip(
        seen[1:], oracle.slopes, oracle.gains, oracle.gain_by_epoch, strict=True
    ):
        assert evaluation.slope.value == pytest.approx(slope, rel=1e-3, abs=1e-6)
        assert evaluation.update_gain.value == pytest.approx(gain, rel=1e-3, abs=1e-6)
        assert sorted(evaluation.gain_by_epoch) == [1, 2, 3]
        assert evaluation.gain_by_epoch[3] == evaluation.update_gain
        assert [evaluation.gain_by_epoch[k].value for k in (1, 2)] == pytest.approx(by_epoch, rel=1e-3, abs=1e-6)
    assert max(map(abs, oracle.slopes)) > 1e-3, "a slope that says something"
    for evaluation, expected in zip(seen[1:], oracle.critics, strict=True):
        known = evaluation.critic_slope.value if evaluation.critic_slope.known else None
        assert known == (None if expected is None else pytest.approx(expected, rel=1e-3, abs=1e-4))
    logged = rows.rows[-1]
    assert logged["adept/slope_z"] == pytest.approx(seen[-1].slope.z)
    assert logged["adept/update_gain"] == pytest.approx(seen[-1].update_gain.value)
    assert logged["adept/gain/2"] == pytest.approx(seen[-1].gain_by_epoch[2].value)
    assert logged["adept/epochs"] == 3
    assert not [name for name in rows.rows[0] if name.startswith("adept/")], "nothing is known before the first update"


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
    settings = {"policy": "MlpPolicy", "n_steps": STEPS, "batch_size": 8, "n_epochs": 2, "seed": 1, "device": "cpu"}
    model = PPO(env=env, **settings | options)
    callback = AdeptCallback(gains_every=1, verbose=0)
    model.learn(3 * ROLLOUT, callback)
    assert callback.engine.feedback.slope.known
    assert callback.engine.feedback.update_gain.known


def test_rows_beyond_the_limit_are_left_out():
    callback = AdeptCallback(gains_every=1, verbose=0, rows=10)
    build().learn(2 * ROLLOUT, callback)
    assert callback.engine.feedback.rows == 10


def test_memory_is_one_copy_and_one_for_each_epoch_that_is_judged():
    model = build()
    size = sum(parameter.numel() for parameter in model.policy.parameters())
    callback = AdeptCallback(gains_every=2, verbose=0)
    held = []

    class Measure(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_start(self):
            judge = callback.engine._evaluator
            copies = [] if judge.start is None else [judge.start, *judge.marked.values()]
            held.append(sum(tensor.numel() for copy in copies for _, tensor in copy) / size)

    model.learn(4 * ROLLOUT, [callback, Measure()])
    assert held == [0, 1, 1 + 3, 1]  # epochs 1, 2 and 4 of 7; the last one is where the policy is


def test_only_updates_that_were_seen_are_judged():
    model, callback, judged = build(), AdeptCallback(verbose=0), []

    class Judged(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            judged.append(callback.engine.feedback is not None)

    model.learn(2 * ROLLOUT, [callback, Judged()])
    model.learn(2 * ROLLOUT, [callback, Judged()], reset_num_timesteps=False)
    assert judged == [False, True, True, True], "a second learn goes on"
    model.learn(ROLLOUT, reset_num_timesteps=False)
    model.learn(2 * ROLLOUT, [callback, Judged()], reset_num_timesteps=False)
    assert judged[4:] == [False, True], "the update in between was not seen"


def test_advice_is_printed_and_returned(capsys):
    callback = AdeptCallback()
    build().learn(12 * ROLLOUT, callback)
    assert capsys.readouterr().out.endswith(f"adept: {callback.advice()}\n")
    quiet = AdeptCallback(verbose=0)
    build().learn(3 * ROLLOUT, quiet)
    assert capsys.readouterr().out == ""
    assert "2 updates were judged" in str(quiet.advice())


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
    for name, value in parameters(plain).items():
        assert torch.equal(parameters(monitored)[name], value), name
    said = "Evaluation stopped at update 1: NotImplementedError: this policy has no distribution."
    assert capsys.readouterr().out.endswith(f"{said}\n")
    with pytest.raises(NotImplementedError):
        build(policy=Unjudged).learn(4 * ROLLOUT, AdeptCallback("hindsight"))


def test_a_buffer_that_cannot_be_read_does_not_end_the_training(monkeypatch):
    monkeypatch.setattr("adept.integrations.sb3_rows.time_groups", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match="training goes on unchanged: ZeroDivisionError"):
        build().learn(3 * ROLLOUT, AdeptCallback(verbose=0))


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
