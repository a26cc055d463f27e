"""Bring folders of studies, of single runs and of other people's logs into one comparison, or refuse to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from adept import cost
from adept.config import Config
from adept.names import unknown_name
from adept.records import column
from adept.report.comparison import ComparedMethod, Comparison, Run
from adept.report.importing import EVENTS, import_logs
from adept.report.methods import deviations, differing_keys, name_methods
from adept.report.statistics import Array
from adept.runs.records import read_config, read_evaluations, read_iterations, read_starts, read_status
from adept.studies.grid import different_keys
from adept.studies.results import MONITORING, Cell, StudyResults, load_results, undeclared_differences

PROCESSOR = "processor_seconds"
"""The column of processor time; wall time says little where a machine is shared, and is left out."""
NO_PART = ("env", "seed", *MONITORING)
"""Configuration keys that are no part of a method."""
Methods = dict[str, ComparedMethod]


def load_comparison(
    directories: Sequence[Path], *, baseline: str | None = None, title: str | None = None
) -> Comparison:
    """Read folders into one comparison; refuse what cannot be compared."""
    if not directories:
        raise ValueError("a report needs one or more folders, of studies or of TensorBoard logs")
    studies: list[StudyResults] = []
    loose: list[Path] = []
    imported: list[tuple[str, list[Run]]] = []
    for directory in directories:
        _require_folder(directory)
        packed = (directory / "study.toml").exists()
        if not packed and any(directory.rglob("config.json")):
            loose.append(directory)
        elif not packed and any(directory.rglob(EVENTS)):
            imported.append((directory.resolve().name, import_logs(directory)))
        else:
            studies.append(load_results(directory))  # says what is missing
    criterion, threshold = _criterion(studies)
    for results in studies:
        _require_comparable(results)
    methods, runs, names = _of_studies(studies)
    own_methods, own_runs, own_keys = loose_runs(loose)
    methods |= {name: method for name, method in own_methods.items() if name not in methods}
    runs += own_runs
    declared = tuple(dict.fromkeys([*(key for results in studies for key in results.study.differs), *own_keys]))
    methods, declared = _told_apart(methods, runs, declared)
    known = {run.task.rpartition("/")[2]: run.task for run in runs}
    for source, logs in imported:
        ours = {name for name, method in methods.items() if method.source != source}
        for run in logs:
            name = f"{source}/{run.method}" if run.method in ours else run.method
            methods.setdefault(name, ComparedMethod(name, name, None, source))
            runs.append(replace(run, method=name, task=known.get(run.task.rpartition("/")[2], run.task)))
    if baseline is None:
        baseline = names[0, studies[0].study.baseline] if studies else _usual(methods.values())
    if baseline not in methods:
        raise unknown_name("baseline", baseline, methods)
    tasks = tuple(dict.fromkeys(run.task for run in runs))
    titles = [
        *(results.study.title for results in studies),
        *(name for name, _ in imported),
        *(directory.resolve().name for directory in loose),
    ]
    budget, notes = _budgets(tasks, runs, bool(imported))
    return Comparison(title or " and ".join(titles), tuple(methods.values()), tasks, tuple(runs), baseline, budget,
                      declared, notes, criterion, threshold)  # fmt: skip


def _require_folder(directory: Path) -> None:
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise ValueError(
            f"the folder {directory} {what}; give a folder of a study, of runs of `adept train`, or of TensorBoard logs"
        )


def _usual(methods: Iterable[ComparedMethod]) -> str:
    """Return the method that others are compared with: a fixed one, nearest to the preset, with the most epochs."""

    def rank(method: ComparedMethod) -> tuple[bool, int, int]:
        departs = 0 if method.config is None else deviations(method.config)
        return method.fixed_epochs is not None, -departs, method.fixed_epochs or 0

    return max(methods, key=rank).name


def _criterion(studies: Sequence[StudyResults]) -> tuple[str, float | None]:
    """Return what the first study declares; studies that are decided by different measures cannot be one report."""
    declared = {(results.study.criterion, results.study.threshold): results.study.name for results in studies}
    if len(declared) > 1:
        listed = ", ".join(f"{name} by {criterion}" for (criterion, _), name in declared.items())
        raise ValueError(f"these studies are decided by different criteria ({listed}); report on each one by itself")
    return next(iter(declared), ("final-score", None))


def _require_comparable(results: StudyResults) -> None:
    if found := undeclared_differences(results):
        more = f" (and {len(found) - 1} more differences)" if len(found) > 1 else ""
        keys = ", ".join(dict.fromkeys(difference.key for difference in found))
        raise ValueError(
            f"the runs of {results.study.name!r} are not what it declares: {found[0]}{more}; run them again, or make "
            f"methods of them: declare {keys} in differs of study.toml, and set it in [[methods]]"
        )


def _differing(runs: Iterable[Run]) -> list[str]:
    """Return the keys in which runs on one task differ, but for those that are no part of a method."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        if run.config is not None:
            tasks.setdefault(run.task, []).append(run.config.to_dict())
    found = {key for configs in tasks.values() for key in differing_keys(configs)}
    return sorted(found - {*NO_PART})


def _told_apart(methods: Methods, runs: Sequence[Run], declared: tuple[str, ...]) -> tuple[Methods, tuple[str, ...]]:
    """Add to the labels what else differs on one task, between several folders; and to the declared keys."""
    tasks: dict[str, dict[str, dict[str, Any]]] = {}
    for run in runs:
        if run.config is not None:
            tasks.setdefault(run.task, {}).setdefault(run.method, run.config.to_dict())
    keys = [key for key in _differing(runs) if key not in declared]
    if not keys:
        return methods, declared
    labels: dict[str, list[str]] = {}
    for configs in tasks.values():
        for name, values in configs.items():
            labels.setdefault(name, [f"{key}={values[key]}" for key in keys])
    told = {name: replace(method, label=", ".join([method.label, *labels.get(name, ())]))
            for name, method in methods.items()}  # fmt: skip
    return told, (*declared, *keys)


def _of_studies(
    studies: Sequence[StudyResults],
) -> tuple[dict[str, ComparedMethod], list[Run], dict[tuple[int, str], str]]:
    """Merge studies; a method name that means different things in two of them is prefixed by its study's."""
    methods: Methods = {}
    runs: dict[tuple[str, str, int], Run] = {}
    names: dict[tuple[int, str], str] = {}
    for index, results in enumerate(studies):
        for declared in results.study.methods:
            config = results.study.config(declared.name, results.study.tasks[0], results.study.seeds[0])
            source = results.study.name
            method = ComparedMethod(declared.name, declared.label, config, source, declared.axis)
            if any(not _same(declared.name, results, studies[other])
                   for other in range(index) if names.get((other, declared.name)) == declared.name):  # fmt: skip
                method = ComparedMethod(f"{source}/{declared.name}", f"{declared.label} ({source})", config, source)
            methods.setdefault(method.name, method)
            names[index, declared.name] = method.name
        budget = results.study.budget
        for cell in results.cells:
            run = run_of_cell(results, cell, names[index, cell.method], budget[cell.task])
            other = runs.setdefault((run.method, run.task, run.seed), run)
            if other is not run and run.state == "done":
                if other.state == "done":
                    raise _twice(other, run)
                runs[run.method, run.task, run.seed] = run
    return methods, list(runs.values()), names


def _same(name: str, one: StudyResults, other: StudyResults) -> bool:
    """Say whether a method's name means the same in two studies: on the tasks of both, or by what chooses epochs."""

    def values(results: StudyResults, task: str) -> dict[str, Any]:
        return results.study.config(name, task, results.study.seeds[0]).to_dict()

    shared = [task for task in one.study.tasks if task in other.study.tasks]
    if shared:
        return not any(key not in NO_PART for task in shared
                       for key in different_keys(values(one, task), values(other, task)))  # fmt: skip
    first, second = values(one, one.study.tasks[0]), values(other, other.study.tasks[0])
    return all(first[key] == second[key] for key in ("algo", "scheduler", "epochs", "arms", "stopping"))


def _twice(first: Run, second: Run) -> ValueError:
    return ValueError(
        f"seed {second.seed} of {second.method!r} on {second.task} is there twice, in {first.path} and in "
        f"{second.path}: one run is not two; move one of the folders away, or report on each by itself"
    )


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
            "verified. Their compute is given in epochs, where they tell those, and only among themselves."
        )
    return budget, tuple(notes)


def run_of_cell(results: StudyResults, cell: Cell, method: str, budget: float) -> Run:
    """Read the run of a study's cell, up to the study's budget of steps."""
    run = Run(method, cell.task, cell.seed, cell.state, cell.error, results.recorded_config(cell), cell.path)
    if cell.state == "missing":
        return run
    energy = (results.energy(cell) or {}).get("kwh", math.nan)
    run = replace(run, starts=tuple(results.starts(cell)), energy=float(energy))
    columns = results.curve(cell)
    if columns:
        columns = columns.take(columns["step"] <= budget)
    return with_records(run, columns, results.evaluations(cell))


def with_records(run: Run, columns: Mapping[str, Array], evaluations: Sequence[Mapping[str, str]]) -> Run:
    """Fill in a run's curves and totals."""
    if not columns or not len(columns["step"]):
        return run
    total, monitoring = columns["flops"], monitor_flops(run.config, columns)
    spent = total if run.config is not None and cost.pays_for_monitoring(run.config) else total - monitoring
    return replace(
        run,
        steps=columns["step"],
        score=columns["score"],
        flops=spent,
        update_flops=spent - sampling_flops(run.config, columns),
        monitor_flops=monitoring,
        processor=columns.get(PROCESSOR, np.full(len(columns["step"]), math.nan)),
        epochs=columns["epochs"],
        epochs_done=columns["epochs_done"],
        monitored={name: values for name, values in columns.items() if column(name).report},
        test=score_on_test_levels(evaluations, float(columns["step"][-1])),
    )


def sampling_flops(config: Config | None, columns: Mapping[str, Array]) -> Array:
    """Return the cumulative FLOPs of sampling.

    The first iteration has no update to measure, so its FLOPs and epochs tell those of one forward pass.
    """
    if config is None or columns["iteration"][0] != 1:
        return np.full(len(columns["flops"]), math.nan)
    forward = columns["flops"][0] / cost.iteration(config, columns["epochs_done"][0])
    return np.asarray(forward * cost.sampling(config) * columns["iteration"], np.float64)


def monitor_flops(config: Config | None, columns: Mapping[str, Array]) -> Array:
    """Return the cumulative FLOPs of measuring updates; of older records, what sampling and updating leave over."""
    if "monitor_flops" in columns:
        return columns["monitor_flops"]
    if config is None or "slope_z" not in columns:
        return np.zeros(len(columns["flops"]))
    sampling = sampling_flops(config, columns)
    updates = sampling[0] / cost.sampling(config) * cost.epoch(config) * np.cumsum(columns["epochs_done"])
    return np.asarray(np.maximum(columns["flops"] - sampling - updates, 0.0))


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


def loose_runs(directories: Sequence[Path]) -> tuple[Methods, list[Run], list[str]]:
    """Read runs that belong to no study, as `adept train` leaves them; return also the keys in which they differ."""
    found = [(directory, file.parent, read_config(file.parent)) for directory in directories
             for file in sorted(directory.rglob("config.json"))]  # fmt: skip
    labels = name_methods([config for _, _, config in found])
    methods: Methods = {}
    runs: dict[tuple[str, str, int], Run] = {}
    for (directory, path, config), label in zip(found, labels, strict=True):
        methods.setdefault(label, ComparedMethod(label, label, config, directory.resolve().name))
        status = read_status(path)
        error = status.get("error") if status["state"] == "failed" else None
        run = Run(label, config.env, config.seed, status["state"], error, config, path, starts=tuple(read_starts(path)))
        if (other := runs.setdefault((label, config.env, config.seed), run)) is not run:
            raise _twice(other, run)
        runs[label, config.env, config.seed] = with_records(run, read_iterations(path), read_evaluations(path))
    return (
        {name: methods[name] for name in sorted(methods, key=_natural)},
        list(runs.values()),
        _differing(runs.values()),
    )


def _natural(name: str) -> list[tuple[float, str]]:
    """Return what names sort by: numbers in them as numbers."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", name)
    return [(float(part), "") if index % 2 else (-1.0, part) for index, part in enumerate(parts)]
