"""Curves on a common axis: learning curves with intervals, and how often each number of epochs was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from adept import cost
from adept.report.analysis import Analysis
from adept.report.comparison import Comparison
from adept.report.runs import Method, Run
from adept.report.statistics import curve_interval
from adept.report.style import PHASES

Array = npt.NDArray[np.float64]


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
    runs = comparison.finished(method, task)
    if not runs:
        return None
    axis = comparison.axis[task]
    mean, low, high = curve_interval([np.array([run.at(axis) for run in runs])])
    flops = np.mean([run.at(axis, "flops") for run in runs], axis=0)
    return Curve(axis, mean, low, high, flops, len(runs), len(comparison.planned(method, task)))


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
    flops = np.mean([np.mean([run.at(axes[task], "flops") for run in runs[task]], axis=0) for task in tasks], axis=0)
    steps = np.mean([axes[task] for task in tasks], axis=0)
    planned = sum(len(comparison.planned(method, task)) for task in tasks)
    return Curve(steps, mean, low, high, flops, sum(map(len, runs.values())), planned)


@lru_cache(maxsize=256)
def arms_of(comparison: Comparison, name: str) -> tuple[int, ...]:
    """Return the numbers of epochs that a method chose from or came to, largest first."""
    config = comparison.method(name).config
    assert config is not None
    arms = set(config.arms) if len(config.arms) > 1 else set()
    for task in comparison.tasks:
        for run in comparison.finished(name, task):
            arms |= set(_chosen(run).astype(int).tolist())
    return tuple(sorted(arms, reverse=True))


def _chosen(run: Run) -> Array:
    """Return the epochs that were chosen; where a rule only cuts them short, those that were done."""
    return run.epochs if run.config is None or run.config.scheduler != "fixed" else run.epochs_done


def choice_shares(comparison: Comparison, method: Method, tasks: tuple[str, ...]) -> tuple[Array, Array] | None:
    """Return the progress of training, and by then the cumulative share of each number of epochs (arms × points).

    The shares are averaged over runs, then over tasks.
    """
    progress = np.linspace(0.02, 1.0, 50)
    per_task = []
    for task in tasks:
        runs = comparison.finished(method.name, task)
        if not runs:
            return None
        axis = progress * comparison.budget[task]
        per_task.append(np.mean([_shares(run, arms_of(comparison, method.name), axis) for run in runs], axis=0))
    return progress, np.mean(per_task, axis=0)


def _shares(run: Run, arms: tuple[int, ...], axis: Array) -> Array:
    chosen = _chosen(run)
    counts = np.cumsum([chosen == arm for arm in arms], axis=1) / np.arange(1, len(chosen) + 1)
    index = np.clip(np.searchsorted(run.steps, axis * (1 + 1e-9), side="right") - 1, 0, None)
    return np.asarray(counts[:, index])


def phase_flops(comparison: Comparison, method: str) -> dict[str, float] | None:
    """Return the share of FLOPs by phase; the environment computes none that are counted."""
    runs = [run for task in comparison.tasks for run in comparison.finished(method, task) if run.config is not None]
    shares = []
    for run in runs:
        assert run.config is not None
        update = cost.epoch(run.config) / cost.sampling(run.config) * float(run.epochs_done.mean())
        share = 1 - float(run.update_flops[-1] / run.flops[-1])
        shares.append([share, share * update, 1 - share - share * update])
    if not shares:
        return None
    mean = np.mean(shares, axis=0)
    return {phase: float(share) for phase, share in zip(PHASES, mean, strict=True) if share > 1e-6}
