"""Bring folders of studies, of single runs and of other people's logs into one comparison, or refuse to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from adept.names import unknown_name
from adept.report.comparison import Comparison
from adept.report.importing import EVENTS, import_logs
from adept.report.runs import METHOD_KEYS, Method, Run, loose_runs, run_of_cell
from adept.studies.grid import different_keys
from adept.studies.results import StudyResults, load_results, undeclared_differences


def load_comparison(
    directories: Sequence[Path], *, baseline: str | None = None, allow: Iterable[str] = (), title: str | None = None
) -> Comparison:
    """Read folders into one comparison; refuse what cannot be compared.

    `allow` names further configuration keys in which methods may differ, beyond those that the studies declare.
    """
    if not directories:
        raise ValueError("a report needs one or more folders, of studies or of TensorBoard logs")
    studies: list[StudyResults] = []
    loose: list[tuple[list[Method], list[Run]]] = []
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
            methods.setdefault(name, Method(name, name, None, source))
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


def _of_studies(studies: Sequence[StudyResults]) -> tuple[dict[str, Method], list[Run], dict[tuple[int, str], str]]:
    """Merge studies; a method name that means different things in two of them is prefixed by its study's."""
    methods: dict[str, Method] = {}
    runs: dict[tuple[str, str, int], Run] = {}
    names: dict[tuple[int, str], str] = {}
    for index, results in enumerate(studies):
        for declared in results.study.methods:
            config = results.study.config(declared.name, results.study.tasks[0], results.study.seeds[0])
            source, method = results.study.name, Method(declared.name, declared.label, config, results.study.name)
            if declared.name in methods and _identity(methods[declared.name]) != _identity(method):
                method = Method(f"{source}/{declared.name}", f"{declared.label} ({source})", config, source)
            methods.setdefault(method.name, method)
            names[index, declared.name] = method.name
        budget = results.study.budget
        for cell in results.cells:
            run = run_of_cell(results, cell, names[index, cell.method], budget[cell.task])
            key = (run.method, run.task, run.seed)
            if key not in runs or runs[key].state != "done":
                runs[key] = run
    return methods, list(runs.values()), names


def _identity(method: Method) -> dict[str, Any]:
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
