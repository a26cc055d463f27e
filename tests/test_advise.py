"""`adept advise`, the end of `adept train` and the panel's line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adept.cli import main, parse
from adept.commands.train import TrainOptions, default_config, knob_docs
from adept.config import Config
from adept.hindsight.advice_text import HOSTS
from adept.runs.panel import Progress
from adept.runs.records import RunFolder, run_path
from tests.hindsight.test_advice import columns

CONFIG = Config("gymnasium/CartPole-v1", scheduler="fixed", epochs=8)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run whose updates stop short."""
    path = run_path(tmp_path, CONFIG)
    folder = RunFolder(path, CONFIG)
    table = columns(z=1.5, lengths=(0.5, 1.9))
    table = {"iteration": np.arange(1.0, 1 + len(table["slope_z"])), **table}
    table["flops"] = 1e9 * np.arange(1, 1 + len(table["slope_z"]))
    for row in zip(*table.values(), strict=True):
        folder.append(dict(zip(table, map(float, row), strict=True)))
    folder.close()
    return path


def test_advice_on_a_run(run: Path, capsys: Any) -> None:
    assert main(["advise", str(run)]) == 0
    assert capsys.readouterr().out.startswith("Updates stop short (mean slope z +1.")
    assert main(["advise", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["whole"]["direction"] == "short"
    assert len(told["stages"]) == 3
    assert told["whole"]["rest"] == {"value": None, "error": None, "updates": 0}


def test_a_folder_that_holds_no_run(tmp_path: Path, capsys: Any) -> None:
    assert main(["advise", str(tmp_path)]) == 2
    assert "not a run's folder" in capsys.readouterr().err


def test_the_panel_says_how_updates_stand() -> None:
    progress = Progress(CONFIG, forward_flops=1, iteration=0)
    table = columns(z=1.5, lengths=(0.5, 1.9), every=1)
    for index, row in enumerate(zip(*table.values(), strict=True)):
        progress.add({"step": float(index), **dict(zip(table, map(float, row), strict=True))})
    assert progress.headline.startswith("stop short (slope z +")


def trained(*words: str) -> Config:
    """Return what `adept train` would run."""
    given = ["--env", CONFIG.env, *words]
    default = default_config(given)
    return parse(TrainOptions, "train", given, TrainOptions(default), docs=knob_docs(default.scheduler)).config


@pytest.mark.parametrize(
    ("option", "value"), [("hindsight", ""), ("hindsight_compute", ""), ("learning_rate", "0.01"), ("epochs", "2"),
                          ("kl_limit", "0.02"), ("scale_rewards", "")]
)  # fmt: skip
def test_the_trainer_has_every_option_that_the_advice_names(option: str, value: str) -> None:
    text: str = getattr(HOSTS["trainer"], option)
    words = text.format(value).split() if "{}" in text else [*text.split(), *value.split()]
    assert trained(*words) != trained()
