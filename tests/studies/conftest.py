from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from adept.config import Execution
from adept.runs.records import RunFolder, append_evaluation, read_iterations
from adept.studies.grid import Study, parse_study
from adept.studies.results import StudyResults
from adept.studies.work import Settings

OUTSIDE = Path(__file__).parent / "outside"

TASK = "gymnasium/CartPole-v1"
SETTINGS = Settings(
    execution=Execution(device="cpu"), checkpoint_seconds=0.0, trust=True, command=("adept", "study", "tiny")
)

TEXT = """
name = "tiny"
title = "A tiny study"
tasks = ["gymnasium/CartPole-v1", "gymnasium/Acrobot-v1"]
seeds = 2
baseline = "fixed-2"
differs = ["scheduler", "scheduler_options", "arms"]

[base]
environments = 2
rollout_length = 32
minibatch_size = 32
steps = 512
restart_every = 3

[[methods]]
name = "fixed-2"
label = "PPO (K=2)"
scheduler = "fixed"
arms = [2]

[[methods]]
name = "round-robin"
label = "PPO+ADEPT(R)"
scheduler = "round-robin"
arms = [2, 1]
"""


@pytest.fixture
def study() -> Study:
    return parse_study(TEXT, "the test's study")


@pytest.fixture
def outside(monkeypatch) -> Path:
    """Make the faulty schedulers importable, here and in worker processes."""
    monkeypatch.syspath_prepend(str(OUTSIDE))
    return OUTSIDE


ONE_TASK = TEXT.replace(', "gymnasium/Acrobot-v1"', "")


def with_method(text: str, name: str, scheduler: str) -> str:
    return text + f'\n[[methods]]\nname = "{name}"\nscheduler = "{scheduler}"\narms = [2, 1]\n'


def numbers(results: StudyResults, method: str, task: str, seed: int) -> dict[str, list[float]]:
    """Return the columns of a run's iterations.csv, every digit, without those of the wall clock.

    Not `curve`, which rounds as packing does; NaN becomes None, so that == compares.
    """
    columns = read_iterations(results.cell(method, task, seed).path)
    assert columns, f"no records of {method} on {task}"
    return {
        name: [None if np.isnan(value) else value for value in values.tolist()]  # type: ignore[misc]
        for name, values in columns.items()
        if "seconds" not in name
    }


def write_run(study: Study, directory: Path, method: str, task: str, seed: int, state: str = "done", **changes) -> None:
    config = dataclasses.replace(study.config(method, task, seed), **changes)
    path = directory / "runs" / task.replace("/", "-") / method / f"seed-{seed}"
    folder = RunFolder(path, config)
    rng = np.random.default_rng(seed)
    for iteration in range(1, 9):
        loss, score = rng.normal(size=2).tolist()
        row = {"iteration": iteration, "step": 64 * iteration, "flops": 10**15 + iteration, "policy_loss": loss}
        folder.append(row | {"score": math.nan if iteration == 1 else score, "seconds": iteration / 3})
    append_evaluation(path, {"levels": "test", "return_mean": 1.5})
    folder.add_start({"command": "adept study tiny", "python": "3.11"})
    folder.set_status(state, iteration=8, **({"error": "ValueError: no"} if state == "failed" else {}))
    folder.close()


@pytest.fixture
def directory(study, tmp_path) -> Path:
    (tmp_path / "study.toml").write_text(study.text)
    write_run(study, tmp_path, "fixed-2", TASK, 1)
    write_run(study, tmp_path, "round-robin", TASK, 1)
    write_run(study, tmp_path, "fixed-2", TASK, 2, "failed")
    write_run(study, tmp_path, "round-robin", TASK, 2, "running")  # by nobody: it has died
    return tmp_path
