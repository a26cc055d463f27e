"""Bring folders of studies, of single runs and of other people's logs into one comparison, or refuse to."""

from __future__ import annotations

import json
import math
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
from adept.report.statistics import Array
from adept.report.text import settings
from adept.runs.records import read_config, read_evaluations, read_iterations, read_starts, read_status
from adept.studies.grid import different_keys
from adept.studies.results import Cell, StudyResults, load_results, undeclared_differences

PROCESSOR = "processor_seconds"
"""The column of processor time; wall time says little where a machine is shared, and is left out."""
METHOD_KEYS = ("scheduler", "scheduler_options", "epochs", "arms", "stopping")
"""What makes a method of a run outside any study."""
Methods = dict[str, ComparedMethod]


def load_comparison(
    directories: Sequence[Path], *, baseline: str | None = None, allow: Iterable[str] = (), title: str | None = None
) -> Comparison:
    """Read folders into one comparison; refuse what cannot be compared.

    `allow` names further configuration keys in which methods may differ, beyond those that the studies declare.
    """
    if not directories:
        raise ValueError("a report needs one or more folders, of studies or of TensorBoard logs")
    studies: list[StudyResults] = []
    loose: list[tuple[list[ComparedMethod], list[Run]]] = []
    imported: list[tuple[str, list[Run]]] = []
    for directory in directories:
        packed = (directory / "study.toml").exists()
        if not packed and any(directory.rglob("config.json")):
            loose.append(loose_runs(directory))
        elif not packed and any(directory.rglob(EVENTS)):
            imported.append((directory.resolve().name, import_logs(directory)))
        else:
            studies.append(load_results(directory))  # says what is missing
    allow = tuple(allow)
    for results in studies:
        _require_comparable(results, allow)
    methods, runs, names = _of_studies(studies)
    for own_methods, own_runs in loose:
        methods |= {method.name: method for method in own_methods if method.name not in methods}
        runs += own_runs
    keys = [*(key for results in studies for key in results.study.differs), *(METHOD_KEYS if loose else ()), *allow]
    declared = tuple(dict.fromkeys(keys))
    _require_comparable_across(runs, declared)
    known = {run.task.rpartition("/")[2]: run.task for run in runs}
    for source, logs in imported:
        ours = {name for name, method in methods.items() if method.source != source}
        for run in logs:
            name = f"{source}/{run.method}" if run.method in ours else run.method
            methods.setdefault(name, ComparedMethod(name, name, None, source))
            runs.append(replace(run, method=name, task=known.get(run.task.rpartition("/")[2], run.task)))
    if baseline is None and studies:
        baseline = names[0, studies[0].study.baseline]
    elif baseline is None:  # the fixed method with the most epochs, or the first one where none is fixed
        baseline = max(methods.values(), key=lambda method: method.fixed_epochs or 0).name
    if baseline not in methods:
        raise unknown_name("baseline", baseline, methods)
    tasks = tuple(dict.fromkeys(run.task for run in runs))
    titles = [
        *(results.study.title for results in studies),
        *(name for name, _ in imported),
        *(own[0].source for own, _ in loose),
    ]
    budget, notes = _budgets(tasks, runs, bool(imported))
    return Comparison(title or " and ".join(titles), tuple(methods.values()), tasks, tuple(runs), baseline, budget,
                      declared, notes, *_criterion(studies))  # fmt: skip


def _criterion(studies: Sequence[StudyResults]) -> tuple[str, float | None]:
    """Return what the first study declares; studies that are decided by different measures cannot be one report."""
    declared = {(results.study.criterion, results.study.threshold): results.study.name for results in studies}
    if len(declared) > 1:
        listed = ", ".join(f"{name} by {criterion}" for (criterion, _), name in declared.items())
        raise ValueError(f"these studies are decided by different criteria ({listed}); report on each one by itself")
    return next(iter(declared), ("final-score", None))


def _require_comparable(results: StudyResults, allow: tuple[str, ...]) -> None:
    found = [difference for difference in undeclared_differences(results) if difference.key not in allow]
    if found:
        keys = list(dict.fromkeys(difference.key for difference in found))
        more = f" (and {len(found) - 1} more differences)" if len(found) > 1 else ""
        raise ValueError(
            f"the runs of {results.study.name!r} cannot be compared: {found[0]}{more}; run them with equal "
            f"configurations, declare the keys in differs of study.toml, or compare them all the same with --allow "
            f"{' '.join(keys)}"
        )


def _require_comparable_across(runs: Iterable[Run], declared: tuple[str, ...]) -> None:
    """Runs of several studies on one task must be equal but for the declared keys."""
    first: dict[str, Run] = {}
    for run in runs:
        if run.config is None:
            continue
        other = first.setdefault(run.task, run)
        assert other.config is not None
        keys = different_keys(other.config.to_dict(), run.config.to_dict())
        if bad := [key for key in keys if key not in (*declared, "seed")]:
            mine, theirs = (config.to_dict().get(bad[0]) for config in (run.config, other.config))
            raise ValueError(
                f"{run.path} and {other.path} cannot be compared on {run.task}: {bad[0]} is {mine!r} and {theirs!r}; "
                f"report on each one by itself, or compare them all the same with --allow {' '.join(bad)}"
            )


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
            source, method = (
                results.study.name,
                ComparedMethod(declared.name, declared.label, config, results.study.name),
            )
            if declared.name in methods and _identity(methods[declared.name]) != _identity(method):
                method = ComparedMethod(f"{source}/{declared.name}", f"{declared.label} ({source})", config, source)
            methods.setdefault(method.name, method)
            names[index, declared.name] = method.name
        budget = results.study.budget
        for cell in results.cells:
            run = run_of_cell(results, cell, names[index, cell.method], budget[cell.task])
            key = (run.method, run.task, run.seed)
            if key not in runs or runs[key].state != "done":
                runs[key] = run
    return methods, list(runs.values()), names


def _identity(method: ComparedMethod) -> dict[str, Any]:
    assert method.config is not None
    values = method.config.to_dict()
    return {key: values.get(key) for key in ("algo", "reward_source", *METHOD_KEYS)}


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
    return replace(
        run,
        steps=columns["step"],
        score=columns["score"],
        flops=columns["flops"],
        update_flops=update_flops(run.config, columns),
        processor=columns.get(PROCESSOR, np.full(len(columns["step"]), math.nan)),
        epochs=columns["epochs"],
        epochs_done=columns["epochs_done"],
        monitored={name: values for name, values in columns.items() if column(name).report},
        test=score_on_test_levels(evaluations, float(columns["step"][-1])),
    )


def update_flops(config: Config | None, columns: Mapping[str, Array]) -> Array:
    """Return the cumulative FLOPs of all but sampling: the updates, and what monitoring them cost.

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


def loose_runs(directory: Path) -> tuple[list[ComparedMethod], list[Run]]:
    """Read runs that belong to no study (as `adept train` leaves them); what they have in common makes a method."""
    methods: dict[str, ComparedMethod] = {}
    labels: dict[str, str] = {}
    runs = []
    for file in sorted(directory.rglob("config.json")):
        path = file.parent
        config = read_config(path)
        values = config.to_dict()
        identity = json.dumps({key: values.get(key) for key in ("algo", *METHOD_KEYS)}, sort_keys=True)
        label = labels.setdefault(identity, method_label(config))
        methods.setdefault(label, ComparedMethod(label, label, config, directory.resolve().name))
        status = read_status(path)
        starts = read_starts(path)
        error = status.get("error") if status["state"] == "failed" else None
        run = Run(label, config.env, config.seed, status["state"], error, config, path, starts=tuple(starts))
        runs.append(with_records(run, read_iterations(path), read_evaluations(path)))
    return list(methods.values()), runs


def method_label(config: Config) -> str:
    """Call a method by what defines it."""
    arms = ",".join(map(str, config.choices))
    words = [config.algo, f"K={arms}" if config.scheduler == "fixed" else f"{config.scheduler} {{{arms}}}"]
    return " ".join([*words, *settings(config.scheduler_options), *settings(config.stopping)])
