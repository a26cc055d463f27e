"""The PPO of sbx takes the callback of Stable-Baselines3."""

import pytest

pytest.importorskip("sbx", reason="needs the environment of sbx: make test-integrations")

import jax
import numpy as np
import sbx
from recording import Counting, Recorder, Scripted, counting_means, gain_by_hand, import_afresh, slope_by_hand
from stable_baselines3.common.callbacks import BaseCallback
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


def leaves(model):
    states = (model.policy.actor_state, model.policy.vf_state)
    return [np.asarray(leaf) for state in states for leaf in jax.tree.leaves((state.params, state.opt_state))]


def test_monitoring_changes_no_parameter_of_the_training():
    plain = build()
    plain.learn(5 * ROLLOUT)
    monitored, callback = build(), AdeptCallback(gains_every=1, verbose=0)
    monitored.learn(5 * ROLLOUT, callback)
    assert callback.engine.feedback.update_gain.known
    for one, other in zip(leaves(plain), leaves(monitored), strict=True):
        np.testing.assert_array_equal(one, other)


def test_slope_and_gain_are_those_of_an_independent_computation():
    model, callback = build(learning_rate=0.02, n_epochs=2), AdeptCallback(gains_every=1, verbose=0)
    found = []

    class Oracle(BaseCallback):
        start = None

        def _on_step(self):
            return True

        def _on_rollout_end(self):
            end, buffer = model.policy.actor_state.params, model.rollout_buffer
            if self.start is not None:

                def at(share):
                    place = jax.tree.map(lambda a, b: a + share * (b - a), self.start, end)
                    rows = buffer.observations.reshape(-1, 3)
                    logits = model.policy.actor_state.apply_fn(place, rows).logits
                    taken = buffer.actions.reshape(-1).astype(int)
                    return np.asarray(jax.nn.log_softmax(logits))[np.arange(len(taken)), taken]

                slope = slope_by_hand(at(1.25), at(0.75), buffer.advantages)
                gain = gain_by_hand(at(1.0), at(0.0), at(1.0), buffer.advantages)
                evaluation = callback.engine.feedback
                found.append((evaluation.slope.value, slope, evaluation.update_gain.value, gain))
            self.start = end

    model.learn(4 * ROLLOUT, [callback, Oracle()])
    assert len(found) == 3
    for ours, by_hand, gain, expected in found:
        assert ours == pytest.approx(by_hand, rel=1e-3, abs=1e-6)
        assert gain == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert sorted(callback.engine.feedback.gain_by_epoch) == [1, 2]


def test_the_lr_scale_multiplies_the_scheduled_rate():
    model = build(learning_rate=lambda left: 0.01 * left)
    updates, own = count_gradient_steps(model), model.lr_schedule
    model.learn(4 * ROLLOUT, AdeptCallback(Scripted([(1, 1.0), (2, 3.0)]), verbose=0))
    assert [update["steps"] for update in updates] == [MINIBATCHES * epochs for epochs in (1, 2, 1, 2)]
    for number, (update, lr_scale) in enumerate(zip(updates, [1.0, 3.0] * 2, strict=True), start=1):
        assert list(update["rates"]) == pytest.approx([0.01 * (1 - number / 4) * lr_scale], abs=1e-7)
    assert model.lr_schedule is own


def test_the_guard_ends_an_update():
    model, rows = build(learning_rate=0.3), Rows()
    model.set_logger(Logger(None, [rows]))
    updates = count_gradient_steps(model)
    model.learn(3 * ROLLOUT, AdeptCallback(Scripted([(7, 1.0)], kl_stop=1e-4), verbose=0))
    done = [row["adept/epochs_done"] for row in rows.rows[1:]]
    assert done == [update["steps"] / MINIBATCHES for update in updates[:2]]
    assert max(done) < 7


def test_advice_does_not_mind_a_learning_rate_that_adapts():
    callback = AdeptCallback(verbose=0)
    build(target_kl=0.01).learn(3 * ROLLOUT, callback)
    assert callback.engine.feedback.slope.known


def test_control_resumes_through_save_and_load(tmp_path):
    grows = {"name": "kl-rate", "target": 1e3}  # every KL is below it: the rate grows by half after each judged update
    model = build(learning_rate=0.001)
    model.learn(3 * ROLLOUT, AdeptCallback(grows, verbose=0))
    model.save(tmp_path / "model")
    loaded = sbx.PPO.load(tmp_path / "model", env=DummyVecEnv([Counting] * ENVS))
    assert (loaded.n_epochs, loaded.lr_schedule(1.0)) == (7, 0.001)
    updates = count_gradient_steps(loaded)
    loaded.learn(2 * ROLLOUT, AdeptCallback(grows, verbose=0))
    # The first update after a load is not judged, so that its scale is that of the last.
    assert [list(update["rates"]) for update in updates] == [pytest.approx([0.001 * 1.5**k], abs=1e-7) for k in (2, 3)]


def test_learns_one_after_the_other_are_one_run():
    scripted = Scripted([(2, 1.0)])
    model, callback = build(), AdeptCallback(scripted, verbose=0)
    for _ in range(3):
        model.learn(ROLLOUT, callback, reset_num_timesteps=False)
    assert [each is None for each in scripted.feedback] == [True, False, False]


def test_a_model_that_cannot_be_judged_is_trained_as_without_the_callback(monkeypatch):
    monkeypatch.setattr("adept.integrations.sbx.log_probs", lambda *_: 1 / 0)
    plain = build()
    plain.learn(3 * ROLLOUT)
    monitored = build()
    with pytest.warns(RuntimeWarning, match="training goes on unchanged: ZeroDivisionError"):
        monitored.learn(3 * ROLLOUT, AdeptCallback(verbose=0))
    for one, other in zip(leaves(plain), leaves(monitored), strict=True):
        np.testing.assert_array_equal(one, other)


def test_nothing_is_copied():
    model, callback = build(), AdeptCallback(gains_every=1, verbose=0)
    before = []

    class Remember(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            before.append(model.policy.actor_state.params)

    model.learn(2 * ROLLOUT, [callback, Remember()])
    assert callback.engine._evaluator.start is before[-1], "JAX arrays never change: the parameters themselves are kept"


def test_unsupported_versions_are_refused(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "0.29.0")
    with pytest.raises(ImportError, match=r"sbx-rl 0\.29\.0 .*>=0.28,<0.29: pip install 'adept-rl\[sbx\]'"):
        import_afresh("adept.integrations.sbx")
