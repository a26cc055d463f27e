"""Steering updates of Stable-Baselines3 and sb3-contrib, with the real libraries."""

import pytest

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from hosts.sb3 import ENVS, ROLLOUT, SB3, STEPS, AtRolloutEnd, build
from recording import Counting, Recorder, Scripted
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from adept.integrations.sb3 import AdeptCallback

RATE = 0.02


def test_the_host_logs_the_scheduled_rate_and_has_its_own_schedule_back(tmp_path):
    run = SB3(tmp_path, "ppo", Scripted([(2, 1.0), (1, 3.0), (3, 0.5)]), scheduled=True, updates=6)
    own = run.model.lr_schedule
    run.run(6)
    scheduled = [run.schedule(number, 1)[0] for number in range(6)]
    assert run.logged("train/learning_rate") == pytest.approx(scheduled[:-1])
    assert run.model.lr_schedule is own
    assert run.optimizer.param_groups[0]["lr"] == pytest.approx(scheduled[-1], abs=1e-12)


def test_checkpoints_have_the_models_own_settings(tmp_path):
    model = build(learning_rate=RATE, target_kl=0.5)
    periodic = CheckpointCallback(STEPS + 3, str(tmp_path))
    between = AtRolloutEnd(lambda: model.save(tmp_path / "at_end"))  # after the choice and before the update
    callback = AdeptCallback(Scripted([(2, 3.0)], kl_stop=0.1), verbose=0)
    model.learn(3 * ROLLOUT, [periodic, callback, between])
    for name in (f"rl_model_{(STEPS + 3) * ENVS}_steps", "at_end"):
        loaded = PPO.load(tmp_path / name, env=DummyVecEnv([Counting] * ENVS))
        assert (loaded.n_epochs, loaded.target_kl, loaded.lr_schedule(1.0)) == (7, 0.5, RATE)
        assert not {"train", "_excluded_save_params"} & vars(loaded).keys()
        loaded.learn(ROLLOUT)
    assert (model.n_epochs, model.target_kl) == (7, 0.5)


def assert_own_settings(model):
    assert (model.n_epochs, model.target_kl, model.lr_schedule(1.0)) == (7, None, RATE)
    assert "get" not in vars(model.rollout_buffer)
    assert not {"train", "_excluded_save_params"} & vars(model).keys()


def test_an_interrupt_before_an_update_leaves_the_models_own_settings(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    model = build(learning_rate=RATE)
    with pytest.raises(KeyboardInterrupt):
        model.learn(ROLLOUT, [AdeptCallback(Scripted([(2, 3.0)], kl_stop=0.1), verbose=0), AtRolloutEnd(interrupt)])
    model.save(tmp_path / "model")
    assert_own_settings(PPO.load(tmp_path / "model", env=model.get_env()))
    model.learn(ROLLOUT, AdeptCallback(verbose=0))
    assert_own_settings(model)


def test_learns_one_after_the_other_are_one_run():
    grows = {"name": "kl-rate", "target": 1e3}
    one, several = AdeptCallback(grows, verbose=0), AdeptCallback(grows, verbose=0)
    build(learning_rate=1e-5).learn(5 * ROLLOUT, one)
    model = build(learning_rate=1e-5)
    for _ in range(5):
        model.learn(ROLLOUT, several, reset_num_timesteps=False)
    assert several.engine.settings.lr_scale == one.engine.settings.lr_scale == pytest.approx(1.5**4)


def test_what_happened_between_two_learns_counts():
    model, callback = build(learning_rate=RATE), AdeptCallback("kl-rate", verbose=0)
    model.learn(2 * ROLLOUT, callback)
    model.n_epochs = 5
    with pytest.raises(ValueError, match=r"epochs 7, this one 5.*del model\.adept_state"):
        model.learn(ROLLOUT, callback, reset_num_timesteps=False)
    scripted = Scripted([(2, 1.0)])
    model, first = build(learning_rate=RATE), AdeptCallback(scripted, verbose=0)
    model.learn(2 * ROLLOUT, first)
    model.learn(ROLLOUT, AdeptCallback(Scripted([(2, 1.0)]), verbose=0), reset_num_timesteps=False)
    model.learn(2 * ROLLOUT, first, reset_num_timesteps=False)
    # Its own two rollouts, then two more: the first of these follows an update that was not seen.
    assert [each is None for each in scripted.feedback] == [True, False, True, False]
    assert scripted.state_dict()["state"] == {"made": 5}, "the state that the other saved goes on"


@pytest.mark.parametrize("given", [[3, 1, 2], "round-robin", {"name": "thompson", "arms": [3, 1]}], ids=str)
def test_another_model_is_another_run(given):
    callback, alone = AdeptCallback(given, verbose=0), AdeptCallback(given, verbose=0)
    build().learn(3 * ROLLOUT, callback)
    build().learn(2 * ROLLOUT, callback)
    build().learn(2 * ROLLOUT, alone)
    assert callback.rule.state_dict() == alone.rule.state_dict(), "nobody is credited with the other's return"
    assert str(callback.advice()) == str(alone.advice()), "of the second model alone"


def test_a_scheduler_object_serves_one_model(tmp_path):
    recorder = Recorder([3, 1, 2])
    model, callback = build(), AdeptCallback(recorder, verbose=0)
    model.learn(2 * ROLLOUT, callback)
    with pytest.raises(ValueError, match=r"has chosen for another model.*a new one for each model, or give it as data"):
        build().learn(ROLLOUT, callback)
    assert len(recorder.chosen) == 2
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", env=DummyVecEnv([Counting] * ENVS))
    loaded.learn(ROLLOUT, callback)
    assert recorder.chosen == [3, 1, 2], "the state that the model carries goes on"


def hooks(model):
    optimizer = model.policy.optimizer
    return len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)


@pytest.mark.parametrize("where", ["_on_step", "train"])
def test_a_learn_that_failed_leaves_nothing_behind(where):
    class Fails(BaseCallback):
        def _on_step(self):
            if where == "_on_step":
                raise Broken
            return True

    model, callback = build(learning_rate=RATE), AdeptCallback(Scripted([(2, 3.0)], kl_stop=0.1), verbose=0)
    breaks = model.policy.optimizer.register_step_pre_hook(lambda *_: 1 / 0) if where == "train" else None
    for _ in range(2):
        for each in (callback, AdeptCallback(Scripted([(2, 3.0)], kl_stop=0.1), verbose=0)):
            with pytest.raises((Broken, ZeroDivisionError)):
                model.learn(ROLLOUT, [each, Fails()])
    if breaks is not None:
        breaks.remove()
    assert_own_settings(model)
    assert hooks(model) == 0, "nothing scales the steps of the next training"
    model.learn(ROLLOUT, callback)
    assert hooks(model) == 0


class Broken(RuntimeError):
    """Of a policy or callback that fails."""


def test_without_monitoring_nothing_is_evaluated_and_rules_are_refused():
    callback = AdeptCallback("ucb", monitor=False)
    build().learn(3 * ROLLOUT, callback)
    assert not callback.engine.feedback.slope.known
    with pytest.raises(ValueError, match="needs measurements of updates, which are not made here"):
        build().learn(ROLLOUT, AdeptCallback("hindsight", monitor=False))
