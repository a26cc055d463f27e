"""The PPO of sbx takes the callback of Stable-Baselines3."""

import pytest

pytest.importorskip("sbx", reason="needs the environment of sbx: make test-integrations")

import sbx
from recording import Counting, Recorder, counting_means
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from adept.integrations.sb3 import AdeptCallback

pytestmark = pytest.mark.integration

STEPS, ENVS, BATCH = 16, 2, 8
ROLLOUT = STEPS * ENVS
MINIBATCHES = ROLLOUT // BATCH


class Rows(KVWriter):
    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def build(**options):
    options = {"n_steps": STEPS, "batch_size": BATCH, "gamma": 0.0, "n_epochs": 7, "seed": 1} | options
    return sbx.PPO("MlpPolicy", DummyVecEnv([Counting] * ENVS), policy_kwargs={"net_arch": [4]}, **options)


def count_gradient_steps(model):
    """Return a list that gets the gradient steps of each `train`, and the learning rates in it."""
    updates = []
    one_update, train = model._one_update, model.train

    def counted_one_update(*args, **kwargs):
        updates[-1]["steps"] += 1
        updates[-1]["rates"].add(round(float(model.policy.actor_state.opt_state[1].hyperparams["learning_rate"]), 7))
        return one_update(*args, **kwargs)

    def counted_train():
        updates.append({"steps": 0, "rates": set()})
        train()

    model._one_update, model.train = counted_one_update, counted_train
    return updates


def test_epochs_credits_and_metrics(recorder):
    model, rows = build(), Rows()
    model.set_logger(Logger(None, [rows]))
    updates = count_gradient_steps(model)
    model.learn(5 * ROLLOUT, AdeptCallback(recorder))
    assert recorder.chosen == [3, 1, 2, 3, 1]
    assert [update["steps"] for update in updates] == [MINIBATCHES * epochs for epochs in (3, 1, 2, 3, 1)]
    recorder.assert_credits(counting_means(5, STEPS))
    assert [row["adept/epochs"] for row in rows.rows[1:]] == [3, 1, 2, 3]
    assert [row["adept/epochs_done"] for row in rows.rows[1:]] == [3.0, 1.0, 2.0, 3.0]
    assert model.n_epochs == 7


def test_save_load_learn_continues(tmp_path):
    first, second = Recorder([3, 1, 2]), Recorder([3, 1, 2])
    model = build()
    model.learn(2 * ROLLOUT, AdeptCallback(first))
    model.save(tmp_path / "model")
    loaded = sbx.PPO.load(tmp_path / "model", env=DummyVecEnv([Counting] * ENVS))
    loaded.learn(3 * ROLLOUT, AdeptCallback(second))
    assert first.chosen + second.chosen == [3, 1, 2, 3, 1]
    assert [arm for arm, _ in second.credits] == [1, 2, 3]
    assert [reward for _, reward in second.credits] == pytest.approx(counting_means(3, STEPS))


def test_the_learning_rate_follows_steps_not_epochs(recorder):
    model = build(learning_rate=lambda left: 0.01 * left)
    updates = count_gradient_steps(model)
    model.learn(5 * ROLLOUT, AdeptCallback(recorder))
    for number, update in enumerate(updates, start=1):
        assert list(update["rates"]) == pytest.approx([0.01 * (1 - number / 5)], abs=1e-8)


def test_a_learning_rate_that_adapts_in_each_minibatch_is_refused(recorder):
    with pytest.raises(ValueError, match=r"target_kl, which adapts the learning rate.*target_kl=None: build"):
        build(target_kl=0.01).learn(ROLLOUT, AdeptCallback(recorder))
