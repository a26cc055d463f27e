"""Curves on a common axis: learning curves with intervals, and how often each number of epochs was chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from adept import cost
from adept.report.analysis import Analysis
from adept.report.comparison import Comparison
from adept.report.runs import Method, Run
from adept.report.statistics import curve_interval

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """A method's mean score over its finished runs, with a pointwise interval, by steps, FLOPs and seconds.

    A point is the mean over runs at one step; on the other two axes it stands at the mean of what they had spent by
    then.
    """

    steps: Array
    mean: Array
    low: Array
    high: Array
    flops: Array
    seconds: Array
    done: int
    planned: int


@lru_cache(maxsize=1024)
def task_curve(comparison: Comparison, method: str, task: str) -> Curve | None:
    """Return the curve of a method on a task in units of return, or None where no run is finished."""
    runs = comparison.finished(method, task)
    if not runs:
        return None
    axis = comparison.axis[task]
    mean, low, high = curve_interval([np.array([run.at(axis) for run in runs])])
    flops, seconds = (np.mean([run.at(axis, column) for run in runs], axis=0) for column in ("flops", "seconds"))
    return Curve(axis, mean, low, high, flops, seconds, len(runs), len(comparison.planned(method, task)))


@lru_cache(maxsize=128)
def aggregate_curve(analysis: Analysis, method: str) -> Curve | None:
    """Return the curve of a method over all common tasks, normalised, or None where a task has no finished run."""
    comparison, scale = analysis.comparison, analysis.scale
    tasks = comparison.common_tasks
    runs = {task: comparison.finished(method, task) for task in tasks}
    if scale is None or not tasks or not all(runs.values()):
        return None
    count = min(len(comparison.axis[task]) for task in tasks)
    share = np.linspace(1 / count, 1, count)
    axes = {task: share * comparison.budget[task] for task in tasks}
    mean, low, high = curve_interval(
        [np.array([scale(task, run.at(axes[task])) for run in runs[task]]) for task in tasks]
    )
    flops, seconds = (
        np.mean([np.mean([run.at(axes[task], column) for run in runs[task]], axis=0) for task in tasks], axis=0)
        for column in ("flops", "seconds")
    )
    steps = np.mean([axes[task] for task in tasks], axis=0)
    planned = sum(len(comparison.planned(method, task)) for task in tasks)
    return Curve(steps, mean, low, high, flops, seconds, sum(map(len, runs.values())), planned)


def arms_of(method: Method) -> tuple[int, ...]:
    """Return the numbers of epochs that a method may end up with, largest first."""
    assert method.config is not None
    arms = method.config.arms
    if method.config.target_kl is not None and len(arms) == 1:
        return tuple(range(arms[0], 0, -1))
    return tuple(sorted(arms, reverse=True))


def choice_shares(comparison: Comparison, method: Method, tasks: tuple[str, ...]) -> tuple[Array, Array] | None:
    """Return the progress of training, and by then the cumulative share of each number of epochs (arms × points).

    The shares are averaged over runs, then over tasks. For a rule that only stops early the epochs done count.
    """
    per_task = []
    for task in tasks:
        runs = comparison.finished(method.name, task)
        if not runs:
            return None
        axis = np.linspace(0.01, 1.0, 100) * comparison.budget[task]
        per_task.append(np.mean([_shares(run, arms_of(method), axis) for run in runs], axis=0))
    return np.linspace(0.01, 1.0, 100), np.mean(per_task, axis=0)


def _shares(run: Run, arms: tuple[int, ...], axis: Array) -> Array:
    assert run.config is not None
    chosen = run.epochs if len(run.config.arms) > 1 else run.epochs_done
    counts = np.cumsum([chosen == arm for arm in arms], axis=1) / np.arange(1, len(chosen) + 1)
    index = np.clip(np.searchsorted(run.steps, axis * (1 + 1e-9), side="right") - 1, 0, None)
    return np.asarray(counts[:, index])


def phase_seconds(comparison: Comparison, method: str) -> dict[str, float] | None:
    """Return the share of wall-clock time by phase over all finished runs; what is in none of them is the rest."""
    runs = [run for task in comparison.tasks for run in comparison.finished(method, task) if run.phases]
    total = sum(float(run.seconds[-1]) for run in runs)
    if not total:
        return None
    shares = {phase: sum(run.phases[phase] for run in runs) / total for phase in runs[0].phases}
    return {**shares, "rest": max(0.0, 1 - sum(shares.values()))}


def phase_flops(comparison: Comparison, method: str) -> dict[str, float] | None:
    """Return the share of FLOPs by phase: the environment computes none that are counted."""
    runs = [run for task in comparison.tasks for run in comparison.finished(method, task) if run.config is not None]
    if not runs:
        return None
    sampling = []
    for run in runs:
        config = run.config
        assert config is not None
        sampling.append(cost.sampling(config) / cost.iteration(config, float(run.epochs_done.mean())))
    share = float(np.mean(sampling))
    return {"sampling": share, "update": 1 - share}


def spread(values: list[float], gap: float) -> list[float]:
    """Move values apart, keeping their order, until neighbours are a gap away: places for labels."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    places = [values[index] for index in order]
    for _ in range(200):
        moved = False
        for index in range(len(places) - 1):
            lack = gap - (places[index + 1] - places[index])
            if lack > 1e-12 * gap:
                places[index] -= lack / 2
                places[index + 1] += lack / 2
                moved = True
        if not moved:
            break
    result = [0.0] * len(values)
    for place, index in zip(places, order, strict=True):
        result[index] = place
    return result


@lru_cache(maxsize=64)
def readable(value: float) -> str:
    """Return a large number with a letter: 245,760 as 246k."""
    for limit, letter in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}" if math.isfinite(value) else "–"
