"""Methods and runs as a report sees them: read from records, whatever folder those are in."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adept import cost
from adept.config import Config
from adept.report.wording import settings
from adept.runs.records import read_config, read_evaluations, read_iterations, read_starts, read_status
from adept.studies.results import Cell, StudyResults

Array = npt.NDArray[np.float64]

PROCESSOR = "processor_seconds"
"""The column of processor time; wall time says little where a machine is shared, and is left out."""
WATCHED = ("slope_z", "update_worth", "stride", "gain/", "approx_kl_last_epoch")
"""Columns, or their beginnings, that hindsight leaves in a record."""
METHOD_KEYS = ("scheduler", "scheduler_options", "arms", "target_kl", "stopping")
"""What makes a method of a run outside any study."""


@dataclass(frozen=True)
class Method:
    """A method: how it is called, and what defines it."""

    name: str
    label: str
    config: Config | None
    """of its first task and seed; None for imported logs"""
    source: str

    @property
    def family(self) -> str:
        """What chooses the epochs: a scheduler's name, stopping (a rule that ends updates early), or imported."""
        if self.config is None:
            return "imported"
        stops = self.config.scheduler == "fixed" and self.config.stopping
        return "stopping" if stops else self.config.scheduler

    @property
    def adaptive(self) -> bool:
        """Whether something chooses or cuts the epochs, or the learning rate, during a run."""
        return self.config is not None and (self.config.scheduler != "fixed" or bool(self.config.stopping))

    @property
    def fixed_epochs(self) -> int | None:
        """The constant number of epochs, or None for a method that varies it."""
        return None if self.config is None or self.adaptive else self.config.arms[0]


@dataclass(frozen=True, eq=False)
class Run:
    """One cell: its state, and as far as it went, its curves and totals."""

    method: str
    task: str
    seed: int
    state: str
    """done, running, interrupted, failed or missing"""
    error: str | None = None
    config: Config | None = None
    path: Path | None = None
    """its folder; None where it was imported"""
    steps: Array = field(default_factory=lambda: np.empty(0))
    score: Array = field(default_factory=lambda: np.empty(0))
    flops: Array = field(default_factory=lambda: np.empty(0))
    update_flops: Array = field(default_factory=lambda: np.empty(0))
    """cumulative FLOPs of updates and of watching them; of imported logs, epochs"""
    processor: Array = field(default_factory=lambda: np.empty(0))
    """processor seconds, NaN where they were not recorded"""
    epochs: Array = field(default_factory=lambda: np.empty(0))
    epochs_done: Array = field(default_factory=lambda: np.empty(0))
    watched: Mapping[str, Array] = field(default_factory=dict)
    """what the next rollout said of each update, by column"""
    test: float = math.nan
    """mean return on test levels at the end"""
    energy: float = math.nan
    """kilowatt-hours, where they were measured"""
    starts: tuple[Mapping[str, Any], ...] = ()

    def at(self, steps: npt.ArrayLike, column: str = "score") -> Array:
        """Return a column's last value at or before each step; NaN before the first and after the run's end."""
        values: Array = getattr(self, column)
        points = np.asarray(steps, np.float64)
        if not len(values):
            return np.full(points.shape, math.nan)
        slack = 1e-9 * max(1.0, float(self.steps[-1]))
        index = np.searchsorted(self.steps, points + slack, side="right") - 1
        gap = float(np.diff(self.steps).max()) if len(self.steps) > 1 else 0.0
        outside = (index < 0) | (points > self.steps[-1] + gap + slack)
        return np.where(outside, math.nan, values[np.clip(index, 0, None)])


def run_of_cell(results: StudyResults, cell: Cell, method: str, budget: float) -> Run:
    """Read the run of a study's cell, up to the study's budget of steps."""
    run = Run(method, cell.task, cell.seed, cell.state, cell.error, results.recorded_config(cell), cell.path)
    if cell.state == "missing":
        return run
    energy = (results.energy(cell) or {}).get("kwh", math.nan)
    run = dataclasses.replace(run, starts=tuple(results.starts(cell)), energy=float(energy))
    columns = results.curve(cell)
    if columns:
        columns = columns.take(columns["step"] <= budget)
    return with_records(run, columns, results.evaluations(cell))


def with_records(run: Run, columns: Mapping[str, Array], evaluations: Sequence[Mapping[str, str]]) -> Run:
    """Fill in a run's curves and totals."""
    if not columns or not len(columns["step"]):
        return run
    return dataclasses.replace(
        run,
        steps=columns["step"],
        score=columns["score"],
        flops=columns["flops"],
        update_flops=update_flops(run.config, columns),
        processor=columns.get(PROCESSOR, np.full(len(columns["step"]), math.nan)),
        epochs=columns["epochs"],
        epochs_done=columns["epochs_done"],
        watched={name: values for name, values in columns.items() if name.startswith(WATCHED)},
        test=score_on_test_levels(evaluations, float(columns["step"][-1])),
    )


def update_flops(config: Config | None, columns: Mapping[str, Array]) -> Array:
    """Return the cumulative FLOPs of all but sampling: the updates, and what watching them cost.

    The first iteration has no update to judge, so its FLOPs and epochs tell those of one forward pass.
    """
    total = columns["flops"]
    if config is None or columns["iteration"][0] != 1:
        return np.full(len(total), math.nan)
    forward = total[0] / cost.iteration(config, columns["epochs_done"][0])
    return np.asarray(total - forward * cost.sampling(config) * columns["iteration"], np.float64)


def score_on_test_levels(rows: Sequence[Mapping[str, str]], step: float) -> float:
    """Return the mean return on test levels of the sampled policy at the end, over all episodes played there."""
    needed = ("levels", "deterministic", "step", "episodes", "return_mean")
    rows = [row for row in rows if all(name in row for name in needed)]  # a file of another version may lack some
    rows = [row for row in rows if row["levels"] == "test" and row["deterministic"].lower() in ("false", "0")]
    rows = [row for row in rows if float(row["step"]) == step]
    episodes = [float(row["episodes"]) for row in rows]
    if not sum(episodes):
        return math.nan
    return float(np.average([float(row["return_mean"]) for row in rows], weights=episodes))


def loose_runs(directory: Path) -> tuple[list[Method], list[Run]]:
    """Read runs that belong to no study (as `adept train` leaves them); what they have in common makes a method."""
    methods: dict[str, Method] = {}
    labels: dict[str, str] = {}
    runs = []
    for file in sorted(directory.rglob("config.json")):
        path = file.parent
        config = read_config(path)
        values = config.to_dict()
        identity = json.dumps({key: values.get(key) for key in ("algo", *METHOD_KEYS)}, sort_keys=True)
        label = labels.setdefault(identity, method_label(config))
        methods.setdefault(label, Method(label, label, config, directory.resolve().name))
        status = read_status(path)
        starts = read_starts(path)
        error = status.get("error") if status["state"] == "failed" else None
        run = Run(label, config.env, config.seed, status["state"], error, config, path, starts=tuple(starts))
        runs.append(with_records(run, read_iterations(path), read_evaluations(path)))
    return list(methods.values()), runs


def method_label(config: Config) -> str:
    """Call a method by what defines it."""
    arms = ",".join(map(str, config.arms))
    words = [config.algo, f"K={arms}" if config.scheduler == "fixed" else f"{config.scheduler} {{{arms}}}"]
    return " ".join([*words, *settings(config.scheduler_options), *settings(config.stopping)])
