"""Bring folders of studies, of single runs and of other people's logs into one comparison, or refuse to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adept import cost
from adept.names import unknown_name
from adept.records import column
from adept.report.comparison import ComparedMethod, Comparison, Run
from adept.report.importing import EVENTS, import_logs
from adept.report.methods import NO_PART, deviations, differing_keys, name_methods
from adept.report.statistics import Array
from adept.runs.records import read_config, read_evaluations, read_iterations, read_starts, read_status
from adept.studies.grid import Study
from adept.studies.results import load_results, undeclared_differences

PROCESSOR = "processor_seconds"
"""The column of processor time; wall time says little where a machine is shared, and is left out."""


@dataclass(frozen=True)
class Source:
    """What one folder holds, or several of runs that belong to no study."""

    name: str
    title: str
    methods: tuple[ComparedMethod, ...]
    runs: tuple[Run, ...]
    declared: tuple[str, ...] = ()
    """configuration keys in which methods may differ"""
    study: Study | None = None


def load_comparison(
    directories: Sequence[Path], *, baseline: str | None = None, title: str | None = None
) -> Comparison:
    """Read folders into one comparison; refuse what cannot be compared."""
    if not directories:
        raise ValueError("a report needs one or more folders, of studies or of TensorBoard logs")
    folders: dict[str, list[Path]] = {"study": [], "runs": [], "logs": []}
    for directory in directories:
        folders[_kind(directory)].append(directory)
    sources = [*map(_read_study, folders["study"]), *_read_runs(folders["runs"]), *map(_read_logs, folders["logs"])]
    studies = [source.study for source in sources if source.study]
    criterion, threshold = _criterion(studies)
    declared = tuple(dict.fromkeys(key for source in sources for key in source.declared))
    more = _further_differences(sources, declared)
    methods, runs = _merged(sources, more)
    if baseline is None and studies:
        baseline = studies[0].baseline
    elif baseline is None:  # fixed epochs, near the preset, and many of them
        usual = {each.name: (each.fixed_epochs is not None, -deviations(each.config), each.fixed_epochs or 0)
                 for each in methods}  # fmt: skip
        baseline = max(usual, key=usual.__getitem__)
    if baseline not in (names := [method.name for method in methods]):
        raise unknown_name("baseline", baseline, names)
    tasks = tuple(dict.fromkeys(run.task for run in runs))
    budget, notes = _budgets(tasks, runs)
    if any(method.config is None for method in methods):
        notes.append(
            "Imported logs carry no configuration: whether their settings equal those of the other methods is not "
            "verified. Their compute is given in epochs, where they tell those, and only among themselves."
        )
    title = title or " and ".join(source.title for source in sources)
    declared = tuple(dict.fromkeys([*declared, *more]))
    return Comparison(title, methods, tasks, runs, baseline, budget, declared, tuple(notes), criterion, threshold)


def _kind(directory: Path) -> str:
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise ValueError(
            f"the folder {directory} {what}; give a folder of a study, of runs of `adept train`, or of TensorBoard logs"
        )
    if (directory / "study.toml").exists():
        return "study"
    if any(directory.rglob("config.json")):
        return "runs"
    return "logs" if any(directory.rglob(EVENTS)) else "study"  # reading it says what is missing


def _read_study(directory: Path) -> Source:
    results = load_results(directory)
    if found := undeclared_differences(results):
        more = f" (and {len(found) - 1} more differences)" if len(found) > 1 else ""
        keys, words = (list(dict.fromkeys(each)) for each in zip(*found, strict=True))
        raise ValueError(
            f"the runs of {results.study.name!r} are not what it declares: {words[0]}{more}; run them again, or make "
            f"methods of them: declare {', '.join(keys)} in differs of study.toml, and set it in [[methods]]"
        )
    study = results.study
    methods = tuple(
        ComparedMethod(each.name, each.label, study.config(each.name, study.tasks[0], study.seeds[0]), each.axis)
        for each in study.methods
    )
    runs = []
    for cell in results.cells:
        run = Run(*cell.key, cell.state, cell.error, results.recorded_config(cell), cell.path)
        if cell.state != "missing":
            energy = float((results.energy(cell) or {}).get("kwh", math.nan))
            run = replace(run, starts=tuple(results.starts(cell)), energy=energy)
            if columns := results.curve(cell):
                columns = columns.take(columns["step"] <= study.budget[cell.task])
            run = with_records(run, columns, results.evaluations(cell))
        runs.append(run)
    return Source(study.name, study.title, methods, tuple(runs), tuple(study.differs), study)


def _read_logs(directory: Path) -> Source:
    name, logs = directory.resolve().name, import_logs(directory)
    methods = dict.fromkeys(run.method for run in logs)
    return Source(name, name, tuple(ComparedMethod(method, method, None) for method in methods), tuple(logs))


def _read_runs(directories: Sequence[Path]) -> list[Source]:
    """Read runs that belong to no study, as `adept train` leaves them: their methods are what differs."""
    paths = [file.parent for directory in directories for file in sorted(directory.rglob("config.json"))]
    if not paths:
        return []
    configs, title = [read_config(path) for path in paths], " and ".join(each.resolve().name for each in directories)
    methods, runs = dict[str, ComparedMethod](), []
    for path, config, name in zip(paths, configs, name_methods(configs), strict=True):
        methods.setdefault(name, ComparedMethod(name, name, config))
        status = read_status(path)
        error = status.get("error") if status["state"] == "failed" else None
        run = Run(name, config.env, config.seed, status["state"], error, config, path, starts=tuple(read_starts(path)))
        runs.append(with_records(run, read_iterations(path), read_evaluations(path)))
    ordered = tuple(methods[name] for name in sorted(methods, key=_natural))
    return [Source(title, title, ordered, tuple(runs), tuple(_differing(runs)))]


def _natural(name: str) -> list[tuple[float, str]]:
    """Return what names sort by: numbers in them as numbers."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", name)
    return [(float(part), "") if index % 2 else (-1.0, part) for index, part in enumerate(parts)]


def _differing(runs: Iterable[Run]) -> list[str]:
    """Return the keys in which runs on one task differ, but for those that are no part of a method."""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        if run.config is not None:
            tasks.setdefault(run.task, []).append(run.config.to_dict())
    return sorted({key for configs in tasks.values() for key in differing_keys(configs)} - {*NO_PART})


def _further_differences(sources: Sequence[Source], declared: Sequence[str]) -> tuple[str, ...]:
    """Return the keys beyond the declared ones in which methods, or two folders' runs of one method, differ."""
    alike: dict[tuple[str, str], list[Run]] = {}
    for source in sources:
        labels = {method.name: method.label for method in source.methods}
        for run in source.runs:
            alike.setdefault((run.method, labels[run.method]), []).append(run)
    keys = [key for key in _differing(run for source in sources for run in source.runs) if key not in declared]
    return tuple(dict.fromkeys([*keys, *(key for runs in alike.values() for key in _differing(runs))]))


def _merged(sources: Sequence[Source], keys: Sequence[str]) -> tuple[tuple[ComparedMethod, ...], tuple[Run, ...]]:
    """Return the methods and runs of all folders; what else they differ in is added to the labels.

    A method with the same name and label, and settings, is the same one; the name of another one is prefixed by its
    source. Logs name tasks without a backend.
    """
    methods, runs = dict[str, ComparedMethod](), dict[tuple[str, str, int], Run]()
    for source in sources:
        names, tasks = dict[str, str](), {run.task.rpartition("/")[2]: run.task for run in runs.values()}
        for method in source.methods:
            values = {} if method.config is None else method.config.to_dict()
            label = ", ".join([method.label, *(f"{key}={values[key]}" for key in keys if key in values)])
            name = method.name
            while (known := methods.get(name)) and (known.label != label or method.config is None):
                name = f"{source.name}/{name}"
            methods.setdefault(name, replace(method, name=name, label=name if method.config is None else label))
            names[method.name] = name
        for run in source.runs:
            short = run.task.rpartition("/")[2]
            task = run.task if run.config is not None or source.study else tasks.get(short, run.task)
            run = replace(run, method=names[run.method], task=task)
            other = runs.setdefault((run.method, task, run.seed), run)
            if other is not run and {other.state, run.state} == {"done"}:
                raise ValueError(
                    f"seed {run.seed} of {run.method!r} on {task} is there twice, in {other.path} and in {run.path}: "
                    "one run is not two; move one of the folders away, or report on each by itself"
                )
            if run.state == "done":
                runs[run.method, task, run.seed] = run
    return tuple(methods.values()), tuple(runs.values())


def _criterion(studies: Sequence[Study]) -> tuple[str, float | None]:
    """Return what the first study declares; studies that are decided by different measures cannot be one report."""
    declared = {(study.criterion, study.threshold): study.name for study in studies}
    if len(declared) > 1:
        listed = ", ".join(f"{name} by {criterion}" for (criterion, _), name in declared.items())
        raise ValueError(f"these studies are decided by different criteria ({listed}); report on each one by itself")
    return next(iter(declared), ("final-score", None))


def _budgets(tasks: Iterable[str], runs: Sequence[Run]) -> tuple[dict[str, float], list[str]]:
    """Return the steps at which scores are taken, all of them or those of the shortest method, and what to know."""
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
            notes.append(
                f"On {task}, {min(ends, key=ends.__getitem__)} ends after {shortest:,.0f} steps and others go on to "
                f"{longest:,.0f}: every score there is taken at {shortest:,.0f} steps."
            )
    return budget, notes


def with_records(run: Run, columns: Mapping[str, Array], evaluations: Sequence[Mapping[str, str]]) -> Run:
    """Fill in a run's curves and totals."""
    if not columns or not len(columns["step"]):
        return run
    total, config = columns["flops"], run.config
    unknown = np.full(len(total), math.nan)
    sampling, monitoring = unknown, columns.get("monitor_flops", np.zeros(len(total)))
    if config is not None and columns["iteration"][0] == 1:
        # The first iteration has no update to measure, so its FLOPs and epochs tell those of one forward pass.
        forward = total[0] / cost.iteration(config, columns["epochs_done"][0])
        sampling = forward * cost.sampling(config) * columns["iteration"]
    if config is not None and "slope_z" in columns and "monitor_flops" not in columns:
        # Older records: monitoring is what sampling and updating leave over.
        updates = sampling[0] / cost.sampling(config) * cost.epoch(config) * np.cumsum(columns["epochs_done"])
        monitoring = np.maximum(total - sampling - updates, 0.0)
    spent = total if config is not None and cost.pays_for_monitoring(config) else total - monitoring
    return replace(
        run,
        steps=columns["step"],
        score=columns["score"],
        flops=spent,
        update_flops=spent - sampling,
        monitor_flops=monitoring,
        processor=columns.get(PROCESSOR, unknown),
        epochs=columns["epochs"],
        epochs_done=columns["epochs_done"],
        monitored={name: values for name, values in columns.items() if column(name).report},
        test=_score_on_test_levels(evaluations, float(columns["step"][-1])),
    )


def _score_on_test_levels(rows: Sequence[Mapping[str, str]], step: float) -> float:
    """Return the mean return on test levels of the sampled policy at the end, over all episodes played there."""
    needed = ("levels", "deterministic", "step", "episodes", "return_mean")
    rows = [row for row in rows if all(name in row for name in needed)  # a file of another version may lack some
            and row["levels"] == "test" and row["deterministic"].lower() in ("false", "0")
            and float(row["step"]) == step]  # fmt: skip
    episodes = [float(row["episodes"]) for row in rows]
    if not sum(episodes):
        return math.nan
    return float(np.average([float(row["return_mean"]) for row in rows], weights=episodes))
