"""Curves on a common axis, for figures and for the page: scores with intervals, and the epochs that were chosen."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from adept import cost
from adept.report.analysis import Analysis
from adept.report.comparison import Comparison, Run
from adept.report.statistics import Array, curve_interval
from adept.report.style import PHASES, looks


@dataclass(frozen=True, eq=False)
class Curve:
    """A method's mean score over its finished runs, with a pointwise interval, by steps and FLOPs.

    A point is the mean over runs at one step; by FLOPs it stands at the mean of what they had spent by then.
    """

    steps: Array
    mean: Array
    low: Array
    high: Array
    flops: Array
    done: int
    planned: int


@lru_cache(maxsize=1024)
def task_curve(comparison: Comparison, method: str, task: str) -> Curve | None:
    """Return the curve of a method on a task in units of return, or None where no run is finished."""
    return _curve(comparison, method, (task,), lambda task, scores: scores)


@lru_cache(maxsize=128)
def aggregate_curve(analysis: Analysis, method: str) -> Curve | None:
    """Return the curve of a method over all common tasks, normalised, or None where a task has no finished run."""
    tasks = analysis.comparison.common_tasks
    return _curve(analysis.comparison, method, tasks, analysis.scale) if analysis.scale and tasks else None


def _curve(
    comparison: Comparison, method: str, tasks: Sequence[str], scale: Callable[[str, Array], Array]
) -> Curve | None:
    runs = {task: comparison.finished(method, task) for task in tasks}
    if not all(runs.values()):
        return None
    count = min(len(comparison.axis[task]) for task in tasks)
    axes = {task: np.linspace(1 / count, 1, count) * comparison.budget[task] for task in tasks}
    tables = [np.array([scale(task, run.at(axes[task])) for run in runs[task]]) for task in tasks]
    flops = np.mean([np.mean([run.at(axes[task], "flops") for run in runs[task]], axis=0) for task in tasks], axis=0)
    planned = sum(len(comparison.planned(method, task)) for task in tasks)
    return Curve(np.mean(list(axes.values()), axis=0), *curve_interval(tables), flops, sum(map(len, runs.values())),
                 planned)  # fmt: skip


def _chosen(run: Run) -> Array:
    """Return the epochs that were chosen; where a rule only cuts them short, those that were done."""
    return run.epochs if run.config is None or run.config.scheduler != "fixed" else run.epochs_done


@lru_cache(maxsize=256)
def arms_of(comparison: Comparison, name: str) -> tuple[int, ...]:
    """Return the numbers of epochs that a method chose from or came to, largest first."""
    config = comparison.method(name).config
    assert config is not None
    arms = set(config.choices) if len(config.choices) > 1 else set()
    for task in comparison.tasks:
        arms.update(*(_chosen(run).astype(int).tolist() for run in comparison.finished(name, task)))
    return tuple(sorted(arms, reverse=True))


def choice_shares(comparison: Comparison, method: str, tasks: Sequence[str]) -> tuple[Array, Array] | None:
    """Return the progress of training, and by then the cumulative share of each number of epochs (arms × points).

    The shares are averaged over runs, then over tasks.
    """
    progress, arms = np.linspace(0.02, 1.0, 50), arms_of(comparison, method)
    runs = [comparison.finished(method, task) for task in tasks]
    means = [np.mean([_shares(run, arms, progress * comparison.budget[run.task]) for run in entry], axis=0)
             for entry in runs if entry]  # fmt: skip
    return (progress, np.mean(means, axis=0)) if all(runs) else None


def _shares(run: Run, arms: tuple[int, ...], axis: Array) -> Array:
    chosen = _chosen(run)
    counts = np.cumsum([chosen == arm for arm in arms], axis=1) / np.arange(1, len(chosen) + 1)
    index = np.clip(np.searchsorted(run.steps, axis * (1 + 1e-9), side="right") - 1, 0, None)
    return np.asarray(counts[:, index])


def phase_flops(comparison: Comparison, method: str) -> dict[str, float] | None:
    """Return the share of FLOPs by phase; the environment computes none that are counted."""
    shares = []
    for run in [run for task in comparison.tasks for run in comparison.finished(method, task)]:
        if run.config is not None:
            sampling, measuring = float(run.flops[-1] - run.update_flops[-1]), float(run.monitor_flops[-1])
            own = measuring if cost.pays_for_monitoring(run.config) else 0.0
            parts = np.array([sampling, float(run.update_flops[-1]) - own, measuring])
            shares.append(parts / parts.sum())
    found = zip(PHASES, np.mean(shares, axis=0), strict=True) if shares else ()
    return {phase: float(share) for phase, share in found if share > 1e-6} or None


def payload(analysis: Analysis) -> dict[str, Any]:
    """Return what the page's curves draw, thinned and rounded: methods, tasks ("" for all of them) and their lines."""
    comparison, sets = analysis.comparison, {}
    methods = [
        {"name": method.name, "label": method.label, "dash": list(look.dash), "width": look.width,
         "family": "baseline" if method.name == comparison.baseline else method.family}
        for method, look in zip(comparison.methods, looks(comparison).values(), strict=True)
    ]  # fmt: skip
    names = {"": "All tasks", **comparison.short}
    for task in names:
        axis, lines = comparison.axis.get(task, np.empty(0)), []
        for index, method in enumerate(comparison.methods):
            curve = task_curve(comparison, method.name, task) if task else aggregate_curve(analysis, method.name)
            line: dict[str, Any] = {"m": index, "y": []}
            if curve:
                axis = curve.steps
                line |= {"y": numbers(curve.mean), "n": f"{curve.done}/{curve.planned}"}
                bands = {"lo": curve.low, "hi": curve.high, "f": curve.flops}
                line |= {key: numbers(values) for key, values in bands.items() if np.isfinite(values).any()}
            finished = comparison.finished(method.name, task)
            line["seeds"] = [numbers(run.at(axis)) for run in finished]
            line["open"] = [numbers(run.at(axis)) for run in comparison.planned(method.name, task)
                            if run not in finished and len(run.steps)]  # fmt: skip
            lines += [line] if curve or line["open"] else []
        label = "mean return of the last 100 episodes" if task else f"score, {analysis.unit('final-score')}"
        if task or lines:
            sets[task] = {"x": numbers(axis), "label": label, "lines": lines}
    return {"methods": methods, "tasks": [{"id": task, "label": name} for task, name in names.items()], "curves": sets}


def to_json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in, nor be read as a comment or a line break."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def numbers(values: Array) -> list[float | int | None]:
    """Round to four significant digits, without a trailing .0; what is not a number becomes null."""
    rounded = [float(f"{value:.4g}") if math.isfinite(value) else None for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in rounded]
