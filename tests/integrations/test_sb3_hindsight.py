"""Judging and steering updates of Stable-Baselines3 and sb3-contrib, with the real libraries."""

import copy
import math

import gymnasium
import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from recording import Counting, Scripted, gain_by_hand, slope_by_hand
from sb3_contrib import RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv
from test_sb3 import ENVS, MINIBATCHES, POLICIES, ROLLOUT, STEPS, Rows, build

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


def rates_of_updates(model):
    """Return a list that gets the learning rates that the optimiser works with, a set for each update."""
    updates, train = [], model.train

    def counted():
        updates.append([])
        train()

    model.train = counted
    model.policy.optimizer.register_step_pre_hook(
        lambda optimizer, *_: updates[-1].append(optimizer.param_groups[0]["lr"])
    )
    return updates


@pytest.mark.parametrize("algorithm", POLICIES)
def test_watching_changes_no_parameter_of_the_training(algorithm):
    plain = build(algorithm)  # building a model sets the seed of every generator
    plain.learn(6 * ROLLOUT)
    watched, callback = build(algorithm), AdeptCallback(gains_every=2, verbose=0)
    watched.learn(6 * ROLLOUT, callback)
    assert callback.pilot.verdict.slope.known
    for name, value in parameters(plain).items():
        assert torch.equal(parameters(watched)[name], value), name
    states = [model.policy.optimizer.state_dict()["state"] for model in (plain, watched)]
    for index, entry in states[0].items():
        assert all(torch.equal(entry[name], states[1][index][name]) for name in entry)
    assert vars(watched).keys() == vars(plain).keys(), "nothing is left on the model"
    assert "get" not in vars(watched.rollout_buffer)


class Oracle(BaseCallback):
    """Compute slope and gains with code of its own: policies loaded with parameters, rows in the buffer's order."""

    def __init__(self):
        super().__init__()
        self.slopes, self.worths, self.by_epoch = [], [], []
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
            self.worths.append(gain_by_hand(deployed, before, deployed, advantages))
            self.by_epoch.append(
                [gain_by_hand(self._log_probs(place), before, deployed, advantages) for place in self.epochs[:-1]]
            )
        self.start, self.epochs = end, []

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
            seen.append(callback.pilot.verdict)

    model.learn(5 * ROLLOUT, [oracle, callback, See()])
    assert seen[0] is None
    for verdict, slope, worth, by_epoch in zip(seen[1:], oracle.slopes, oracle.worths, oracle.by_epoch, strict=True):
        assert verdict.slope.value == pytest.approx(slope, rel=1e-3, abs=1e-6)
        assert verdict.update_worth.value == pytest.approx(worth, rel=1e-3, abs=1e-6)
        assert sorted(verdict.by_epoch) == [1, 2]
        assert [verdict.by_epoch[k].value for k in (1, 2)] == pytest.approx(by_epoch, rel=1e-3, abs=1e-6)
    assert max(map(abs, oracle.slopes)) > 1e-3, "a slope that says something"
    logged = rows.rows[-1]
    assert logged["adept/slope_z"] == pytest.approx(seen[-1].slope.z)
    assert logged["adept/update_worth"] == pytest.approx(seen[-1].update_worth.value)
    assert logged["adept/gain_epoch_2"] == pytest.approx(seen[-1].by_epoch[2].value)
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
    assert callback.pilot.verdict.slope.known
    assert callback.pilot.verdict.update_worth.known


def test_rows_beyond_the_limit_are_left_out():
    callback = AdeptCallback(gains_every=1, verbose=0, rows=10)
    build().learn(2 * ROLLOUT, callback)
    assert callback.pilot.verdict.rows == 8  # every fourth of 32


@pytest.mark.parametrize("schedule", [RATE, lambda left: RATE * left])
def test_the_stride_multiplies_the_scheduled_rate_and_leaves_it_alone(schedule):
    model = build(learning_rate=schedule)
    updates, own = rates_of_updates(model), model.lr_schedule
    scripted = Scripted([(2, 1.0), (1, 3.0), (3, 0.5)])
    model.learn(6 * ROLLOUT, AdeptCallback(scripted, verbose=0))
    assert [len(rates) for rates in updates] == [MINIBATCHES * epochs for epochs in (2, 1, 3, 2, 1, 3)]
    for number, (rates, stride) in enumerate(zip(updates, [1.0, 3.0, 0.5] * 2, strict=True), 1):
        scheduled = schedule(1 - number / 6) if callable(schedule) else schedule
        assert set(rates) == {rates[0]}
        assert rates[0] == pytest.approx(scheduled * stride, abs=1e-12)
    assert model.lr_schedule is own
    model.learn(ROLLOUT, reset_num_timesteps=False)
    assert set(updates[-1]) == {own(model._current_progress_remaining)}, "gone with the callback"


def test_a_checkpoint_in_a_rollout_has_the_models_own_settings(tmp_path):
    model = build(learning_rate=RATE, target_kl=0.5)
    scripted = Scripted([(2, 3.0)], kl_stop=0.1)
    model.learn(3 * ROLLOUT, [CheckpointCallback(STEPS + 3, str(tmp_path)), AdeptCallback(scripted, verbose=0)])
    loaded = PPO.load(tmp_path / f"rl_model_{(STEPS + 3) * ENVS}_steps", env=DummyVecEnv([Counting] * ENVS))
    assert (loaded.n_epochs, loaded.target_kl, loaded.lr_schedule(1.0)) == (7, 0.5, RATE)
    assert (model.n_epochs, model.target_kl) == (7, 0.5)


@pytest.mark.parametrize("algorithm", POLICIES)
def test_control_resumes_through_save_and_load(algorithm, tmp_path):
    model = build(algorithm, learning_rate=RATE)
    first = AdeptCallback("hindsight", verbose=0)
    model.learn(6 * ROLLOUT, first)
    stride = first.pilot.choice.stride
    assert stride != 1.0
    model.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", env=DummyVecEnv([Counting] * ENVS))
    updates = rates_of_updates(loaded)
    second = AdeptCallback("hindsight", verbose=0)
    loaded.learn(ROLLOUT, second)
    # The first update after a load is not judged: the stride goes on where it was.
    assert second.scheduler.state_dict() == first.scheduler.state_dict()
    assert updates[0][0] == pytest.approx(RATE * stride)


def test_a_state_of_another_kind_is_refused():
    model = build()
    model.learn(2 * ROLLOUT, AdeptCallback("hindsight", verbose=0))
    with pytest.raises(ValueError, match=r"cannot load this state into UCB.*or `del model\.adept_state` to start"):
        model.learn(ROLLOUT, AdeptCallback("ucb"))
    model.learn(ROLLOUT, AdeptCallback(verbose=0))  # advice needs no state and leaves it


def test_the_guard_ends_an_update():
    model, rows = build(learning_rate=0.3), Rows()
    model.set_logger(Logger(None, [rows]))
    model.learn(3 * ROLLOUT, AdeptCallback(Scripted([(7, 1.0)], kl_stop=1e-4), verbose=0))
    assert [row["adept/epochs"] for row in rows.rows[1:]] == [7, 7]
    assert all(row["adept/epochs_done"] < 7 for row in rows.rows[1:])
    assert model.target_kl is None


def test_the_evidence_is_of_the_last_update():
    scripted = Scripted([(2, 1.0)])
    callback = AdeptCallback(scripted, verbose=0, gains_every=1)
    build(learning_rate=RATE).learn(4 * ROLLOUT, callback)
    assert scripted.evidence[0] is None
    last = scripted.evidence[-1]
    assert last.slope_z == callback.pilot.verdict.slope.z
    assert last.epochs_done == 2
    assert last.kl > 0
    assert sorted(last.gains) == [1]


def test_memory_is_one_copy_and_one_for_each_epoch_that_is_judged():
    model = build()
    size = sum(parameter.numel() for parameter in model.policy.parameters())
    callback = AdeptCallback(gains_every=2, verbose=0)
    held = []

    class Measure(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_start(self):
            judge = callback.pilot._judge
            copies = [] if judge.start is None else [judge.start, *judge.waypoints.values()]
            held.append(sum(tensor.numel() for copy in copies for tensor in copy) / size)

    model.learn(4 * ROLLOUT, [callback, Measure()])
    assert held == [0, 1, 1 + 6, 1]  # 7 epochs: the last one is where the policy is


def test_advice_is_printed_and_returned(capsys):
    callback = AdeptCallback()
    build().learn(12 * ROLLOUT, callback)
    assert capsys.readouterr().out.endswith(f"adept: {callback.advice()}\n")
    quiet = AdeptCallback(verbose=0)
    build().learn(3 * ROLLOUT, quiet)
    assert capsys.readouterr().out == ""
    assert "2 updates were judged" in str(quiet.advice())


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


def test_without_watching_nothing_is_judged_and_controllers_are_refused():
    callback = AdeptCallback("ucb", watch=False)
    build().learn(3 * ROLLOUT, callback)
    assert callback.pilot.verdict is None
    with pytest.raises(ValueError, match="chooses by what updates were worth, which is not judged here"):
        build().learn(ROLLOUT, AdeptCallback("hindsight", watch=False))


def test_an_error_in_an_update_leaves_nothing_for_the_next_learn():
    model = build(learning_rate=RATE)
    own, broken = model.lr_schedule, AdeptCallback(Scripted([(2, 3.0)]), verbose=0)
    model.rollout_buffer.compute = None
    hook = model.policy.optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.learn(ROLLOUT, broken)
    hook.remove()
    assert not math.isclose(model.lr_schedule(1.0), RATE)
    model.learn(ROLLOUT, AdeptCallback(verbose=0))
    assert model.lr_schedule is own
