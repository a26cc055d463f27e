"""What is compared: methods, tasks and runs, and the steps at which their scores are taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adept import cost
from adept.config import Config
from adept.report.statistics import Array, area_under_curve, steps_to_threshold

REACH = 0.9
"""Share of the way to the baseline's final score at which a run has got there, where a study names no threshold."""


@dataclass(frozen=True)
class ComparedMethod:
    """A method: how it is called, and what defines it."""

    name: str
    label: str
    config: Config | None
    """of its first task and seed; None for imported logs"""
    axis: tuple[str, str] | None = None
    """where its study has an axis: the labels of the method without the value, and of the value"""

    @property
    def family(self) -> str:
        """What chooses the epochs: a scheduler's name, stopping (a rule that ends updates early), or imported."""
        if self.config is None:
            return "imported"
        stops = self.config.scheduler == "fixed" and self.config.stopping
        return "stopping" if stops else self.config.scheduler.removeprefix("standardized-")  # those vary the paper's

    @property
    def adaptive(self) -> bool:
        """Whether something chooses or cuts the epochs, or the learning rate, during a run."""
        return self.config is not None and (self.config.scheduler != "fixed" or bool(self.config.stopping))

    @property
    def fixed_epochs(self) -> int | None:
        """The constant number of epochs, or None for a method that varies it."""
        return None if self.config is None or self.adaptive else self.config.choices[0]


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
    """cumulative FLOPs of sampling and updates, and of measuring those where the method goes by that"""
    update_flops: Array = field(default_factory=lambda: np.empty(0))
    """cumulative FLOPs of updates, and of measuring them where the method goes by that; of imported logs, epochs"""
    monitor_flops: Array = field(default_factory=lambda: np.empty(0))
    """cumulative FLOPs of measuring updates"""
    processor: Array = field(default_factory=lambda: np.empty(0))
    """processor seconds, NaN where they were not recorded"""
    epochs: Array = field(default_factory=lambda: np.empty(0))
    epochs_done: Array = field(default_factory=lambda: np.empty(0))
    monitored: Mapping[str, Array] = field(default_factory=dict)
    """what the next rollout said of each update, by column"""
    test: float = math.nan
    """mean return on test levels at the end"""
    energy: float = math.nan
    """kilowatt-hours, where they were measured"""
    starts: tuple[Mapping[str, Any], ...] = ()

    @property
    def phases(self) -> dict[str, float]:
        """Shares of its FLOPs by phase; nothing for imported logs. The environments' own are not counted."""
        if self.config is None or not len(self.steps):
            return {}
        sampling, measuring = float(self.flops[-1] - self.update_flops[-1]), float(self.monitor_flops[-1])
        update = float(self.update_flops[-1]) - (measuring if cost.pays_for_monitoring(self.config) else 0.0)
        total = sampling + update + measuring
        return {"sampling": sampling / total, "update": update / total, "monitoring": measuring / total}

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


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that a report is made from."""

    title: str
    methods: tuple[ComparedMethod, ...]
    tasks: tuple[str, ...]
    runs: tuple[Run, ...]
    baseline: str
    budget: Mapping[str, float]
    """steps at which scores are taken, by task"""
    declared: tuple[str, ...]
    notes: tuple[str, ...] = ()
    criterion: str = "final-score"
    """the measure that decides, as the study declares it"""
    threshold: float | None = None
    """the score that steps-to-threshold waits for, where the study declares one"""
    left_out: tuple[str, ...] = ()
    """tasks that aggregates leave out, since the baseline offers no scale for them"""

    def method(self, name: str) -> ComparedMethod:
        """Return a method by name."""
        return next(method for method in self.methods if method.name == name)

    def label(self, name: str) -> str:
        """Return how a method is called."""
        return self.method(name).label

    @cached_property
    def _cells(self) -> dict[tuple[str, str], list[Run]]:
        cells: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            cells.setdefault((run.method, run.task), []).append(run)
        return cells

    @cached_property
    def _finished(self) -> dict[tuple[str, str], list[Run]]:
        return {cell: [run for run in runs if run.state == "done" and math.isfinite(self.total(run, "score"))]
                for cell, runs in self._cells.items()}  # fmt: skip

    def planned(self, method: str, task: str) -> list[Run]:
        """Return all cells of a method on a task."""
        return self._cells.get((method, task), [])

    def finished(self, method: str, task: str) -> list[Run]:
        """Return the runs that count: done, and with a score."""
        return self._finished.get((method, task), [])

    def total(self, run: Run, column: str) -> float:
        """Return a column's value at the task's budget; of the score, the mean return of the last 100 episodes."""
        return float(run.at(min(self.budget[run.task], run.steps[-1]), column)) if len(run.steps) else math.nan

    def measure(self, run: Run, name: str) -> float:
        """Return one number of a run, higher is better: a criterion, or `test` for the score on test levels."""
        if name == "mean-score":
            return area_under_curve(run.steps, run.score, self.budget[run.task])
        if name == "steps-to-threshold":
            steps = steps_to_threshold(run.steps, run.score, self.thresholds[run.task])
            return 1 - min(steps / self.budget[run.task], 1.0)
        return run.test if name == "test" else self.total(run, "score")

    def scores(self, method: str, task: str, name: str = "final-score") -> Array:
        """Return a measure of a method's finished runs; nothing where some run lacks it."""
        values = np.array([self.measure(run, name) for run in self.finished(method, task)])
        return values if np.isfinite(values).all() else np.empty(0)

    @cached_property
    def thresholds(self) -> dict[str, float]:
        """The score at which a run has got there, by task: the study's, or 90 % of the way to the baseline's mean."""
        found = {}
        for task in self.tasks:
            scores = self.scores(self.baseline, task)
            mean = float(scores.mean()) if len(scores) else math.nan
            low = 0.0 if mean > 0 else self.start(task)
            found[task] = low + REACH * (mean - low) if self.threshold is None else self.threshold
        return found

    def start(self, task: str) -> float:
        """Return where training starts from on a task: the lowest mean of the baseline's runs in its first quarter.

        Where only success ends an episode early, the first known scores alone are too high.
        """
        runs = self.finished(self.baseline, task)
        if not runs:
            return math.nan
        first = float(np.mean([run.score[np.isfinite(run.score)][0] for run in runs]))
        early = runs[0].steps[runs[0].steps <= self.budget[task] / 4]
        curve = np.mean([run.at(early) for run in runs], 0)  # known where every run's is
        return float(np.nanmin([first, *curve]))

    @cached_property
    def common_tasks(self) -> tuple[str, ...]:
        """The tasks that every method is to be run on: what aggregates are over."""
        return tuple(task for task in self.tasks if task not in self.left_out
                     and all(self.planned(method.name, task) for method in self.methods))  # fmt: skip

    def seeds(self, tasks: Iterable[str]) -> str:
        """Return how many seeds methods have on some tasks, in words; those that are not planned aside."""
        counts = {len(self.planned(method.name, task)) for method in self.methods for task in tasks} - {0}
        text = " to ".join(map(str, sorted({min(counts), max(counts)}))) if counts else "no"
        return f"{text} {'seed' if text == '1' else 'seeds'}"

    @cached_property
    def short(self) -> dict[str, str]:
        """Tasks without their backend where that leaves them distinct."""
        names = {task: task.rpartition("/")[2] for task in self.tasks}
        return names if len(set(names.values())) == len(names) else {task: task for task in self.tasks}
