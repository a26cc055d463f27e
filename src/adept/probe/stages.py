"""States from which every arm was tried: the true return of each, and whether a scheduler finds the best."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adept.probe.records import Array, mean_interval
from adept.report.statistics import Estimate
from adept.runs.safe_io import read_gzip, write_aside
from adept.schedulers import make_scheduler

COLUMNS = ("stage", "step", "repeat", "epochs", "before", "reward", "critic_shift", "truth", "episodes")
SUFFIX = ".csv.gz"


@dataclass(frozen=True, eq=False)
class Stage:
    """The branches from one state of a run: one row per repeat, one column per arm."""

    task: str
    seed: int
    step: int
    before: float
    """the run's score there"""
    arms: tuple[int, ...]
    reward: Array
    critic_shift: Array
    truth: Array

    def against_mean(self, name: str) -> list[Estimate]:
        """Return how each arm differs from the mean of all of them, repeat by repeat."""
        table: Array = getattr(self, name)
        return [mean_interval(column) for column in (table - table.mean(1, keepdims=True)).T]

    def best(self, name: str) -> int:
        """Return the best arm: by its truth, or by the reward, which a bandit sees if it tries each arm so often."""
        table: Array = getattr(self, name)
        return self.arms[int(table.mean(0).argmax())]

    def lead(self, name: str) -> Estimate:
        """Return by how much the best arm leads the worst, where both are picked by the other repeats each time.

        Picked by all of them, the lead would be positive among equal arms too.
        """
        table: Array = getattr(self, name)
        others = table.sum(0) - table
        rows = np.arange(len(table))
        return mean_interval(table[rows, others.argmax(1)] - table[rows, others.argmin(1)])


def write_branches(path: Path, rows: Iterable[Mapping[str, float]]) -> None:
    """Write a table of branches, as `read_stages` reads it."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{value:.7g}" for key, value in row.items()} for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, gzip.compress(text.getvalue().encode(), mtime=0))


def read_stages(path: Path, task: str, seed: int) -> list[Stage]:
    """Read the branches of one run, stage by stage."""
    try:
        text = io.StringIO(read_gzip(path))
        rows = [{name: float(row[name]) for name in COLUMNS} for row in csv.DictReader(text)]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is no table of branches: {error!r}") from error
    found = []
    for stage in dict.fromkeys(row["stage"] for row in rows):
        own = [row for row in rows if row["stage"] == stage]
        arms = tuple(int(arm) for arm in dict.fromkeys(row["epochs"] for row in own))
        tables = (
            np.array([[row[name] for row in own if row["epochs"] == arm] for arm in arms]).T
            for name in ("reward", "critic_shift", "truth")
        )
        found.append(Stage(task, seed, int(own[0]["step"]), own[0]["before"], arms, *tables))
    return found


def load_stages(directory: Path) -> list[Stage]:
    """Read every table of branches in a folder; their names are backend-task-seedN.csv.gz."""
    files = sorted(directory.glob(f"*-seed*{SUFFIX}"))
    if not files:
        raise ValueError(
            f"{directory} holds no tables of branches (backend-task-seedN{SUFFIX}); "
            "make one with: adept probe branches ENV --out DIR"
        )
    found = []
    for file in files:
        name, _, seed = file.name.removesuffix(SUFFIX).rpartition("-seed")
        found += read_stages(file, name.replace("-", "/", 1), int(seed))
    return found


def branches_path(directory: Path, task: str, seed: int) -> Path:
    """Return the file of one run's branches."""
    return directory / f"{task.replace('/', '-')}-seed{seed}{SUFFIX}"


@dataclass(frozen=True)
class Search:
    """How a scheduler does where the state stands still and every arm can be tried as often as it likes."""

    stage: Stage
    best: Estimate
    """share of its choices that went to the arm with the highest true return, over seeds"""
    regret: Estimate
    """true return lost per update against that arm, as a share of the gap between the best and the worst"""


def search(stage: Stage, name: str, options: Mapping[str, Any], *, updates: int = 100, seeds: int = 20) -> Search:
    """Let a scheduler choose among a stage's arms, its rewards drawn from those that each arm brought there."""
    means = stage.truth.mean(0)
    gap = float(means.max() - means.min())
    hits, losses = [], []
    for seed in range(seeds):
        scheduler = make_scheduler(name, stage.arms, seed=seed, **options)
        rng = np.random.default_rng([seed, stage.step])
        reward, chosen = None, []
        for _ in range(updates):
            place = stage.arms.index(scheduler.step(reward))
            chosen.append(place)
            reward = float(rng.choice(stage.reward[:, place]))
        hits.append(float(np.mean(np.array(chosen) == means.argmax())))
        losses.append(float((means.max() - means[chosen]).mean() / gap) if gap > 0 else 0.0)
    return Search(stage, mean_interval(hits), mean_interval(losses))
