"""Curves on a common axis, for figures and for the page: scores with intervals, and the epochs that were chosen."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from adept.report.analysis import Analysis
from adept.report.comparison import Comparison, Run
from adept.report.statistics import Array, curve_interval
from adept.report.style import looks

GRID_POINTS = 200
MOST_DRAWN = 160_000
"""Numbers drawn per quantity: with many runs each curve gets fewer points, so that pages open at once."""


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


def drawn_steps(comparison: Comparison, tasks: Sequence[str]) -> dict[str, Array]:
    """Return the steps at which the curves of some tasks are drawn: as many as fit, no finer than the records."""
    rows = [len(run.steps) for run in comparison.runs if run.task in tasks and run.state == "done"]
    most = max(40, min(GRID_POINTS, MOST_DRAWN // max(1, len(comparison.runs))))
    count = max(2, min([most, *rows]))
    return {task: np.linspace(1 / count, 1, count) * comparison.budget[task] for task in tasks}


@lru_cache(maxsize=1024)
def mean_curve(analysis: Analysis, method: str, task: str = "") -> Curve | None:
    """Return a method's curve on a task in units of return, or the normalised one over all common tasks.

    None where a task has no finished run, or scores have no scale.
    """
    comparison, scale = analysis.comparison, analysis.scales["final-score"]
    tasks = (task,) if task else comparison.common_tasks
    runs = [comparison.finished(method, place) for place in tasks]
    if not runs or not all(runs) or not (task or scale):
        return None
    steps = drawn_steps(comparison, tasks)
    tables, flops = [], []
    for place, entry in zip(tasks, runs, strict=True):
        scores = np.array([run.at(steps[place]) for run in entry])
        tables.append(scores if task or scale is None else scale(place, scores))
        flops.append(np.mean([run.at(steps[place], "flops") for run in entry], axis=0))
    planned = sum(len(comparison.planned(method, place)) for place in tasks)
    mean_steps = np.mean(list(steps.values()), axis=0)
    return Curve(mean_steps, *curve_interval(tables), np.mean(flops, axis=0), sum(map(len, runs)), planned)


def _chosen(run: Run) -> Array:
    """Return the epochs that were chosen; where a rule only cuts them short, those that were done."""
    return run.epochs if run.config is None or run.config.scheduler != "fixed" else run.epochs_done


@lru_cache(maxsize=256)
def arms_of(comparison: Comparison, name: str) -> tuple[int, ...]:
    """Return the numbers of epochs that a method chose from or came to, largest first."""
    config = comparison.method(name).config
    arms = set(config.choices) if config and len(config.choices) > 1 else set()
    for task in comparison.tasks:
        arms.update(*(_chosen(run).astype(int).tolist() for run in comparison.finished(name, task)))
    return tuple(sorted(arms, reverse=True))


def choice_shares(comparison: Comparison, method: str, tasks: Sequence[str]) -> tuple[Array, Array] | None:
    """Return the progress of training, and by then the cumulative share of each number of epochs (arms × points).

    The shares are averaged over runs, then over tasks.
    """
    progress, arms, means = np.linspace(0.02, 1.0, 50), arms_of(comparison, method), []
    for task in tasks:
        steps, shares = progress * comparison.budget[task] * (1 + 1e-9), []
        for run in comparison.finished(method, task):
            chosen = _chosen(run)
            counts = np.cumsum([chosen == arm for arm in arms], axis=1) / np.arange(1, len(chosen) + 1)
            shares.append(counts[:, np.clip(np.searchsorted(run.steps, steps, side="right") - 1, 0, None)])
        if not shares:
            return None
        means.append(np.mean(shares, axis=0))
    return progress, np.mean(means, axis=0)


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
        axis, lines = drawn_steps(comparison, (task,))[task] if task else np.empty(0), []
        for index, method in enumerate(comparison.methods):
            curve = mean_curve(analysis, method.name, task)
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
