from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adept.runs.records import read_iterations
from adept.studies.grid import Study, parse_study
from adept.studies.results import StudyResults

OUTSIDE = Path(__file__).parent / "outside"

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
