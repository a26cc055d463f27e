import sys

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from recording import Counting, Recorder, assert_same_state, counting_means, import_afresh
from sb3_contrib import TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
)
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import adept
from adept.integrations.sb3 import AdeptCallback

STEPS, ENVS, BATCH = 16, 2, 8
ROLLOUT = STEPS * ENVS
MINIBATCHES = ROLLOUT // BATCH
POLICIES = {PPO: "MlpPolicy", MaskablePPO: "MlpPolicy", RecurrentPPO: "MlpLstmPolicy"}


class Rows(KVWriter):
    """Keep every dump of the logger."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def build(algorithm=PPO, env=None, **options):
    torch.set_num_threads(1)
    options = {"n_steps": STEPS, "batch_size": BATCH, "gamma": 0.0, "n_epochs": 7, "seed": 1, "device": "cpu"} | options
    small = {"net_arch": [4]} | ({"lstm_hidden_size": 4} if algorithm is RecurrentPPO else {})
    small |= options.pop("policy_kwargs", {})
    env = DummyVecEnv([Counting] * ENVS) if env is None else env
    return algorithm(options.pop("policy", POLICIES[algorithm]), env, policy_kwargs=small, **options)


def count_gradient_steps(model):
    """Return a list that gets the gradient steps of each `train`, and the learning rate and clip range in it."""
    updates = []
    step, train = model.policy.optimizer.step, model.train

    def counted_step(*args, **kwargs):
        updates[-1]["steps"] += 1
        updates[-1]["rates"].add(model.policy.optimizer.param_groups[0]["lr"])
        return step(*args, **kwargs)

    def counted_train():
        clip = model.clip_range(model._current_progress_remaining)
        updates.append({"steps": 0, "rates": set(), "clip": clip, "n_epochs": model.n_epochs})
        train()

    model.policy.optimizer.step, model.train = counted_step, counted_train
    return updates


@pytest.mark.parametrize("algorithm", POLICIES)
def test_epochs_that_run_are_the_choices(algorithm, recorder):
    model = build(algorithm)
    updates = count_gradient_steps(model)
    model.learn(5 * ROLLOUT, AdeptCallback(recorder))
    assert recorder.chosen == [3, 1, 2, 3, 1]
    assert [update["steps"] for update in updates] == [MINIBATCHES * epochs for epochs in (3, 1, 2, 3, 1)]
    assert model.n_epochs == 7


@pytest.mark.parametrize("algorithm", POLICIES)
def test_the_previous_choice_gets_the_mean_return(algorithm, recorder):
    build(algorithm).learn(5 * ROLLOUT, AdeptCallback(recorder))
    recorder.assert_credits(counting_means(5, STEPS))


def test_returns_are_gae_returns(recorder):
    """With a discount, the reward is the mean of advantage + value, here summed over the definition of GAE."""
    model = build(gamma=0.9, gae_lambda=0.8)
    expected = []

    class Oracle(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            buffer = model.rollout_buffer
            last = model.policy.predict_values(torch.as_tensor(self.locals["new_obs"])).detach().numpy().flatten()
            values = np.vstack([buffer.values, last])
            alive = 1.0 - np.vstack([buffer.episode_starts[1:], self.locals["dones"]])
            deltas = buffer.rewards + 0.9 * values[1:] * alive - values[:-1]
            returns = [
                values[t, n]
                + sum((0.9 * 0.8) ** k * np.prod(alive[t : t + k, n]) * deltas[t + k, n] for k in range(STEPS - t))
                for t in range(STEPS)
                for n in range(ENVS)
            ]
            expected.append(np.mean(returns))

    model.learn(4 * ROLLOUT, CallbackList([Oracle(), AdeptCallback(recorder)]))
    recorder.assert_credits(expected)


@pytest.mark.parametrize("norm_reward", [True, False])
def test_vec_normalize_is_undone(recorder, norm_reward):
    env = VecNormalize(DummyVecEnv([Counting] * ENVS), norm_reward=norm_reward, clip_reward=np.inf)
    env.training = False
    env.ret_rms.var = np.array(25.0)
    model = build(env=env)
    model.learn(4 * ROLLOUT, AdeptCallback(recorder))
    assert model.rollout_buffer.rewards[-1, 0] == pytest.approx(4 * STEPS / (5.0 if norm_reward else 1.0))
    recorder.assert_credits(counting_means(4, STEPS))


def test_own_reward_and_nothing_to_credit():
    rewards = iter([None, 2.0, None, 4.0])
    scheduler = Recorder([3, 1, 2])
    build().learn(4 * ROLLOUT, AdeptCallback(scheduler, reward=lambda model: next(rewards)))
    assert scheduler.credits == [(3, 2.0), (2, 4.0)]


def test_metrics_of_a_choice_and_its_reward_share_a_row(recorder):
    model, rows = build(), Rows()
    model.set_logger(Logger(None, [rows]))
    model.learn(4 * ROLLOUT, AdeptCallback(recorder))
    means = counting_means(4, STEPS)
    assert [row["adept/reward"] for row in rows.rows] == pytest.approx(means)
    assert "adept/epochs" not in rows.rows[0]
    assert [row["adept/epochs"] for row in rows.rows[1:]] == [3, 1, 2]
    assert [row["adept/epochs_done"] for row in rows.rows[1:]] == [3.0, 1.0, 2.0]
    assert rows.rows[-1]["adept/arm_choices/3"] == 2.0


def test_values_of_the_arms_are_logged():
    model, rows = build(), Rows()
    model.set_logger(Logger(None, [rows]))
    model.learn(3 * ROLLOUT, AdeptCallback(adept.UCB([3, 1], exploration=0.0)))
    # Without exploration every choice is 3, credited with the second and the third mean.
    assert rows.rows[-1]["adept/arm_value/3"] == pytest.approx(np.mean(counting_means(3, STEPS)[1:]))
    assert rows.rows[-1]["adept/arm_share/3"] == 1.0
    assert not [name for name in rows.rows[-1] if name.endswith("/1")], "an arm that was never tried has no numbers"


def test_target_kl_logs_the_asked_and_the_done_epochs(recorder):
    model, rows = build(target_kl=1e-9, learning_rate=0.1), Rows()
    model.set_logger(Logger(None, [rows]))
    updates = count_gradient_steps(model)
    model.learn(4 * ROLLOUT, AdeptCallback(recorder))
    assert [row["adept/epochs"] for row in rows.rows[1:]] == [3, 1, 2]
    done = [update["steps"] / MINIBATCHES for update in updates]
    assert all(0 < epochs < 1 for epochs in done)
    assert [row["adept/epochs_done"] for row in rows.rows[1:]] == done[:-1]


@pytest.mark.parametrize("algorithm", POLICIES)
def test_save_load_learn_continues(algorithm, tmp_path):
    first = Recorder([3, 1, 2])
    model = build(algorithm)
    model.learn(2 * ROLLOUT, AdeptCallback(first))
    model.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", env=DummyVecEnv([Counting] * ENVS))
    assert loaded.n_epochs == 7
    second = Recorder([3, 1, 2])
    loaded.learn(3 * ROLLOUT, AdeptCallback(second))
    assert first.chosen + second.chosen == [3, 1, 2, 3, 1]
    # The policy of the second choice, 1, collects the first rollout after the load.
    means = counting_means(3, STEPS)
    assert [arm for arm, _ in second.credits] == [1, 2, 3]
    assert [reward for _, reward in second.credits] == pytest.approx(means)


def test_a_checkpoint_within_a_rollout_continues(tmp_path):
    def scheduler():
        return adept.GaussianThompson([3, 1, 2], seed=5)

    model = build()
    first = scheduler()
    checkpoint = CheckpointCallback(STEPS * 2 + 3, str(tmp_path))
    model.learn(3 * ROLLOUT, [checkpoint, AdeptCallback(first)])
    loaded = PPO.load(tmp_path / f"rl_model_{(STEPS * 2 + 3) * ENVS}_steps", env=DummyVecEnv([Counting] * ENVS))
    assert loaded.n_epochs == 7
    twin = scheduler()
    for mean in counting_means(2, STEPS):
        twin.step(mean)
    second = scheduler()
    loaded.learn(ROLLOUT, AdeptCallback(second))
    twin.step(counting_means(1, STEPS)[0])
    assert_same_state(second, twin)


def test_a_second_learn_continues(recorder):
    model = build()
    callback = AdeptCallback(recorder)
    model.learn(2 * ROLLOUT, callback)
    model.learn(2 * ROLLOUT, callback, reset_num_timesteps=False)
    assert recorder.chosen == [3, 1, 2, 3]
    # A second learn resets the environments, whose lives go on.
    recorder.assert_credits(counting_means(4, STEPS))


def test_other_arms_than_the_saved_ones_are_refused(recorder):
    model = build()
    model.learn(ROLLOUT, AdeptCallback(recorder))
    with pytest.raises(ValueError, match=r"arms .*'3', '1', '2'.*del model\.adept_state"):
        model.learn(ROLLOUT, AdeptCallback(Recorder([3, 1])))


def test_schedules_follow_steps_not_epochs(recorder):
    model = build(learning_rate=lambda left: 0.01 * left, clip_range=lambda left: 0.2 * left)
    updates = count_gradient_steps(model)
    model.learn(5 * ROLLOUT, AdeptCallback(recorder))
    for number, update in enumerate(updates, start=1):
        assert list(update["rates"]) == pytest.approx([0.01 * (1 - number / 5)])
        assert update["clip"] == pytest.approx(0.2 * (1 - number / 5))


def test_other_callbacks_see_what_they_would_without(recorder, tmp_path):
    evaluation = EvalCallback(
        DummyVecEnv([Counting]), eval_freq=STEPS, n_eval_episodes=1, log_path=str(tmp_path), verbose=0
    )
    build().learn(3 * ROLLOUT, [evaluation, AdeptCallback(recorder)])
    assert len(evaluation.evaluations_timesteps) == 3
    assert recorder.chosen == [3, 1, 2]


def test_as_a_child_of_an_event_it_is_refused(recorder):
    with pytest.raises(ValueError, match=r"child of EveryNTimesteps.*list.*model\.learn"):
        build().learn(ROLLOUT, EveryNTimesteps(4, AdeptCallback(recorder)))


@pytest.mark.parametrize("algorithm", [TRPO, A2C, DQN])
def test_algorithms_without_epochs_are_refused(algorithm, recorder):
    model = algorithm("MlpPolicy", DummyVecEnv([Counting]), device="cpu")
    with pytest.raises(ValueError, match=rf"{algorithm.__name__} has no update epochs.*PPO.*train one of these"):
        model.learn(10, AdeptCallback(recorder))


@pytest.mark.parametrize("arms", [[0, 1], [1.5, 2], ["a"]])
def test_arms_must_be_epochs(arms):
    with pytest.raises(ValueError, match="a number of epochs must be a whole number ≥ 1"):
        AdeptCallback(adept.RoundRobin(arms))


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("ucb", "UCB([7, 3, 1], exploration=5.0, window=10)"),
        ([3, 2, 1], "StandardizedUCB([3, 2, 1], exploration=1.0, window=10)"),
        ({"name": "round-robin", "arms": [2, 1]}, "RoundRobin([2, 1])"),
        ({"name": "kl-rate", "target": 0.02}, "KLRate(7, target=0.02, factor=1.5, band=2.0, furthest=32.0)"),
    ],
)
def test_schedulers_and_controllers_come_as_data(given, shown):
    callback = AdeptCallback(given)
    build().learn(ROLLOUT, callback)
    assert repr(callback.rule) == shown


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("hindsigth", "did you mean 'hindsight'"),
        (3.5, "a rule is a Rule, a Scheduler, a name"),
        ({"arms": [0]}, "≥ 1, got 0"),
    ],
)
def test_what_cannot_choose_is_refused_at_once(given, message):
    with pytest.raises(ValueError, match=message):
        AdeptCallback(given)


def test_unsupported_versions_are_refused(monkeypatch):
    for version in ("2.3.2", "3.0.0"):
        monkeypatch.setattr("importlib.metadata.version", lambda package, version=version: version)
        with pytest.raises(
            ImportError, match=rf"stable-baselines3 {version} .*>=2.4,<3: pip install 'adept-rl\[sb3\]'"
        ):
            import_afresh("adept.integrations.sb3")


def test_a_missing_framework_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    with pytest.raises(ImportError, match=r"stable_baselines3 is not installed.*pip install 'adept-rl\[sb3\]'"):
        import_afresh("adept.integrations.sb3")
