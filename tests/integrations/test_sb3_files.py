"""What files say and get: rl-zoo's YAML names the callback, and `adept report` reads the logs."""

import importlib
import re
from pathlib import Path

import pytest
import yaml

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")

from hosts.sb3 import ENVS, ROLLOUT, build
from recording import Counting, Scripted
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from adept.integrations.sb3 import AdeptCallback
from adept.report.analysis import analyze
from adept.report.loading import load_comparison

GUIDE = Path(__file__).parents[2] / "docs" / "integrations.md"


def named_in(settings):
    """Build the callbacks that a YAML of rl-zoo names, as rl-zoo does: a class by name, or by name with arguments."""
    for entry in settings["callback"]:
        ((name, options),) = entry.items() if isinstance(entry, dict) else [(entry, {})]
        module, _, member = name.rpartition(".")
        yield getattr(importlib.import_module(module), member)(**options)


def test_the_yaml_of_the_guide_names_a_callback():
    block = re.search(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1]
    (callback,) = named_in(yaml.safe_load(block)["CartPole-v1"])
    build().learn(ROLLOUT, callback)
    assert callback.rule.options["optimize_for"] == "compute"
    assert callback.rule.epochs == 7, "it starts from the model's own epochs"
    (plain,) = named_in({"callback": ["adept.integrations.sb3.AdeptCallback"]})
    assert plain.rule is None


def test_a_report_on_the_logs_shows_compute_and_mean_k(tmp_path):
    for method, chosen in (("preset", None), ("ours", Scripted([(2, 1.0)]))):
        env = DummyVecEnv([lambda: Monitor(Counting())] * ENVS)
        model = build(env=env, tensorboard_log=str(tmp_path / method / "Counting"))
        model.learn(4 * ROLLOUT, AdeptCallback(chosen, verbose=0))
    found = analyze(load_comparison([tmp_path], baseline="preset"), resamples=100)
    # Of four updates three are logged, with the rollout after each: 3 · 7 epochs against 3 · 2.
    assert found.methods["preset"].epochs == pytest.approx(7.0)
    assert found.methods["ours"].epochs == pytest.approx(2.0)
    assert found.methods["ours"].update_compute == pytest.approx(6 / 21)
