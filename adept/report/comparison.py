"""What is compared: methods, tasks and runs, from the folders of studies or of other people's TensorBoard logs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.config import Config
from adept.names import unknown_name
from adept.report.importing import ImportedRun, import_logs, is_log_folder
from adept.studies.grid import different_keys
from adept.studies.results import Cell, StudyResults, load_results, undeclared_differences

Array = npt.NDArray[np.float64]

PHASES = {"environment": "environment_seconds", "sampling": "inference_seconds", "update": "update_seconds"}
"""Phases of an iteration, and the column of each one's seconds."""
GRID_POINTS = 200
MOST_DRAWN = 160_000
"""Numbers drawn per quantity: with many runs each curve gets fewer points, so that pages open at once."""


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
        """What chooses the epochs: a scheduler's name, target-kl, or imported."""
        if self.config is None:
            return "imported"
        return "target-kl" if self.config.target_kl is not None else self.config.scheduler

    @property
    def adaptive(self) -> bool:
        """Whether the number of epochs varies during a run."""
        return self.config is not None and (len(self.config.arms) > 1 or self.config.target_kl is not None)

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
    steps: Array = field(default_factory=lambda: np.empty(0))
    score: Array = field(default_factory=lambda: np.empty(0))
    flops: Array = field(default_factory=lambda: np.empty(0))
    seconds: Array = field(default_factory=lambda: np.empty(0))
    epochs: Array = field(default_factory=lambda: np.empty(0))
    epochs_done: Array = field(default_factory=lambda: np.empty(0))
    phases: Mapping[str, float] = field(default_factory=dict)
    """seconds of each phase"""
    test: float = math.nan
    """mean return on test levels at the end"""
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


@dataclass(frozen=True, eq=False)
class Comparison:
    """Everything that a report is made from."""

    title: str
    methods: tuple[Method, ...]
    tasks: tuple[str, ...]
    runs: tuple[Run, ...]
    baseline: str
    budget: Mapping[str, float]
    """steps at which scores are taken, by task"""
    declared: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def _cells(self) -> dict[tuple[str, str], list[Run]]:
        cells: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            cells.setdefault((run.method, run.task), []).append(run)
        return cells

    def method(self, name: str) -> Method:
        """Return a method by name."""
        return next(method for method in self.methods if method.name == name)

    def label(self, name: str) -> str:
        """Return how a method is called."""
        return self.method(name).label

    def planned(self, method: str, task: str) -> list[Run]:
        """Return all cells of a method on a task."""
        return self._cells.get((method, task), [])

    def finished(self, method: str, task: str) -> list[Run]:
        """Return the runs that count: done, and with a score."""
        return [run for run in self.planned(method, task) if run.state == "done" and math.isfinite(self.score(run))]

    def score(self, run: Run) -> float:
        """Return the mean return of the last 100 training episodes at the task's budget."""
        return self._at_budget[run]["score"]

    def total(self, run: Run, column: str) -> float:
        """Return a cumulative column's value at the task's budget."""
        return self._at_budget[run][column]

    @cached_property
    def _at_budget(self) -> dict[Run, dict[str, float]]:
        columns = ("steps", "score", "flops", "seconds")
        nothing = dict.fromkeys(columns, math.nan)
        return {
            run: {column: float(run.at(min(self.budget[run.task], run.steps[-1]), column)) for column in columns}
            if len(run.steps) else nothing
            for run in self.runs
        }  # fmt: skip

    @cached_property
    def common_tasks(self) -> tuple[str, ...]:
        """The tasks that every method is to be run on: what aggregates are over."""
        return tuple(task for task in self.tasks if all(self.planned(method.name, task) for method in self.methods))

    @cached_property
    def short(self) -> dict[str, str]:
        """Tasks without their backend where that leaves them distinct."""
        names = {task: task.rpartition("/")[2] for task in self.tasks}
        return names if len(set(names.values())) == len(names) else {task: task for task in self.tasks}

    @cached_property
    def axis(self) -> dict[str, Array]:
        """The steps at which each task's curves are drawn: as many as fit, no finer than the records."""
        points = max(40, min(GRID_POINTS, MOST_DRAWN // max(1, len(self.runs))))
        axes = {}
        for task in self.tasks:
            rows = [len(run.steps) for run in self.runs if run.task == task and run.state == "done"]
            count = max(2, min([points, *rows]))
            axes[task] = np.linspace(self.budget[task] / count, self.budget[task], count)
        return axes


def load_comparison(
    directories: Sequence[Path], *, baseline: str | None = None, allow: Iterable[str] = (), title: str | None = None
) -> Comparison:
    """Read folders of studies and of TensorBoard logs into one comparison; refuse what cannot be compared.

    `allow` names further configuration keys in which methods may differ, beyond those that the studies declare.
    """
    if not directories:
        raise ValueError("a report needs one or more folders, of studies or of TensorBoard logs")
    studies: list[StudyResults] = []
    imported: list[tuple[str, list[ImportedRun]]] = []
    for directory in directories:
        if not (directory / "study.toml").exists() and is_log_folder(directory):
            imported.append((directory.resolve().name, import_logs(directory)))
        else:
            studies.append(load_results(directory))
    allow = tuple(allow)
    for results in studies:
        _require_comparable(results, allow)
    methods, runs, names = _of_studies(studies)
    declared = tuple(dict.fromkeys([*(key for results in studies for key in results.study.differs), *allow]))
    _require_comparable_across(runs, declared)
    _add_imported(imported, methods, runs)
    if baseline is None:
        baseline = names[0, studies[0].study.baseline] if studies else next(iter(methods))
    if baseline not in methods:
        raise unknown_name("baseline", baseline, methods)
    tasks = tuple(dict.fromkeys(run.task for run in runs))
    titles = [results.study.title for results in studies] + [name for name, _ in imported]
    budget, notes = _budgets(tasks, runs, bool(imported))
    return Comparison(
        title or " and ".join(titles), tuple(methods.values()), tasks, tuple(runs), baseline, budget, declared, notes
    )


def _require_comparable(results: StudyResults, allow: tuple[str, ...]) -> None:
    found = [difference for difference in undeclared_differences(results) if difference.key not in allow]
    if found:
        keys = ", ".join(dict.fromkeys(difference.key for difference in found))
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise ValueError(
            f"the methods of {results.study.name!r} cannot be compared: they differ in undeclared keys: {keys} "
            f"({found[0]}{more}); declare them in differs, or run the cells with equal configurations"
        )


def _require_comparable_across(runs: Iterable[Run], declared: tuple[str, ...]) -> None:
    """Runs of several studies on one task must be equal but for the declared keys."""
    first: dict[str, Run] = {}
    for run in runs:
        if run.config is None:
            continue
        other = first.setdefault(run.task, run)
        assert other.config is not None
        keys = different_keys(dataclasses.asdict(other.config), dataclasses.asdict(run.config))
        if bad := [key for key in keys if key not in (*declared, "seed")]:
            raise ValueError(
                f"{run.method} and {other.method} cannot be compared on {run.task}: they differ in undeclared keys: "
                f"{', '.join(bad)}; allow them by name if the comparison is still what you want"
            )


def _of_studies(studies: Sequence[StudyResults]) -> tuple[dict[str, Method], list[Run], dict[tuple[int, str], str]]:
    """Merge studies; a method name that means different things in two of them is prefixed by its study's."""
    methods: dict[str, Method] = {}
    runs: dict[tuple[str, str, int], Run] = {}
    names: dict[tuple[int, str], str] = {}
    for index, results in enumerate(studies):
        for declared in results.study.methods:
            config = results.study.config(declared.name, results.study.tasks[0], results.study.seeds[0])
            method = Method(declared.name, declared.label, config, results.study.name)
            known = methods.get(method.name)
            if known is not None and _identity(known) != _identity(method):
                name = f"{results.study.name}/{declared.name}"
                method = Method(name, f"{declared.label} ({results.study.name})", config, results.study.name)
            methods.setdefault(method.name, method)
            names[index, declared.name] = method.name
        budget = results.study.budget
        for cell in results.cells:
            run = _run(results, cell, names[index, cell.method], budget[cell.task])
            key = (run.method, run.task, run.seed)
            if key not in runs or runs[key].state != "done":
                runs[key] = run
    return methods, list(runs.values()), names


def _identity(method: Method) -> dict[str, Any]:
    assert method.config is not None
    values = dataclasses.asdict(method.config)
    return {key: value for key, value in values.items() if key in ("algo", "scheduler", "arms", "scheduler_options",
                                                                   "target_kl", "reward_source")}  # fmt: skip


def _run(results: StudyResults, cell: Cell, method: str, budget: float) -> Run:
    run = Run(method, cell.task, cell.seed, cell.state, cell.error, results.recorded_config(cell))
    if cell.state == "missing":
        return run
    columns = results.curve(cell)
    run = dataclasses.replace(run, starts=tuple(results.starts(cell)))
    if not columns or not len(columns["step"]):
        return run
    inside = columns["step"] <= budget
    columns = {name: values[inside] for name, values in columns.items()}
    return dataclasses.replace(
        run,
        steps=columns["step"],
        score=columns["score"],
        flops=columns["flops"],
        seconds=columns["seconds"],
        epochs=columns["epochs"],
        epochs_done=columns["epochs_done"],
        phases={phase: float(np.nansum(columns[column])) for phase, column in PHASES.items() if column in columns},
        test=_test_score(results.evaluations(cell), float(columns["step"][-1])),
    )


def _test_score(rows: Sequence[Mapping[str, str]], step: float) -> float:
    """Return the mean return on test levels of the sampled policy at the end, over all episodes played there."""
    rows = [row for row in rows if row["levels"] == "test" and row["deterministic"].lower() in ("false", "0")]
    rows = [row for row in rows if float(row["step"]) == step]
    episodes = [float(row["episodes"]) for row in rows]
    if not sum(episodes):
        return math.nan
    return float(np.average([float(row["return_mean"]) for row in rows], weights=episodes))


def _add_imported(
    imported: Sequence[tuple[str, list[ImportedRun]]], methods: dict[str, Method], runs: list[Run]
) -> None:
    known = {task.rpartition("/")[2]: task for task in dict.fromkeys(run.task for run in runs)}
    for source, found in imported:
        ours = {name for name, method in methods.items() if method.source != source}
        for entry in found:
            name = f"{source}/{entry.method}" if entry.method in ours else entry.method
            methods.setdefault(name, Method(name, name, None, source))
            task = known.get(entry.task.rpartition("/")[2], entry.task)
            empty = np.full(len(entry.steps), math.nan)
            runs.append(
                Run(name, task, entry.seed, "done", steps=entry.steps, score=entry.score, seconds=entry.seconds,
                    flops=empty, epochs=empty, epochs_done=empty)
            )  # fmt: skip


def _budgets(tasks: Iterable[str], runs: Sequence[Run], imported: bool) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the steps at which scores are taken: all of them, or those of the method with the fewest."""
    budget, notes = {}, []
    for task in tasks:
        here = [run for run in runs if run.task == task and len(run.steps)]
        ends: dict[str, float] = {}
        for run in [run for run in here if run.state == "done"] or here:
            ends[run.method] = max(ends.get(run.method, 0.0), float(run.steps[-1]))
        longest, shortest = max(ends.values(), default=1.0), min(ends.values(), default=1.0)
        budget[task] = longest
        if shortest < 0.98 * longest:
            budget[task] = shortest
            who = min(ends, key=lambda name: ends[name])
            notes.append(
                f"On {task}, {who} ends after {shortest:,.0f} steps and others go on to {longest:,.0f}: every score "
                f"there is taken at {shortest:,.0f} steps."
            )
    if imported:
        notes.append(
            "Imported logs carry no configuration: whether their settings equal those of the other methods is not "
            "verified, and their FLOPs are unknown."
        )
    return budget, tuple(notes)
