"""Measured updates: gains by epoch and stage of training, slope and scale over training, and advice."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from adept.hindsight.advice import Advice
from adept.hindsight.stages import STAGE_NAMES, Mean
from adept.report.analysis import Analysis
from adept.report.comparison import Comparison, Run
from adept.report.statistics import Array
from adept.report.text import listing
from adept.runs.advice import advice_of

BINS = 30
DIRECTIONS = {"short": "stop short", "over": "overshoot", "right": "are about as long as they should be"}

Point = tuple[int, float, float]
"""Epoch, mean gain, standard error."""


def monitored(comparison: Comparison, method: str, tasks: Sequence[str]) -> list[Run]:
    """Return the finished runs whose updates were measured."""
    runs = [run for task in tasks for run in comparison.finished(method, task)]
    return [run for run in runs if "slope_z" in run.monitored and np.isfinite(run.monitored["slope_z"]).any()]


def gains(comparison: Comparison, method: str, tasks: Sequence[str]) -> dict[str, list[Point]]:
    """Return the mean gain after each epoch, by stage of training, in standard deviations of the advantage.

    Runs count equally; errors are those of means over a run's updates. The gain of the whole update stands at the
    median of the epochs done.
    """
    tables: dict[str, dict[int, list[tuple[float, float]]]] = {name: {} for name in STAGE_NAMES}
    for run in monitored(comparison, method, tasks):
        stages = np.floor(len(STAGE_NAMES) * (run.steps - 1) / comparison.budget[run.task])
        last = int(np.median(run.epochs_done))
        known = {int(name[5:]): values for name, values in run.monitored.items() if name[5:].isdigit()}
        if "update_gain" in run.monitored:
            # A row measures the update before it: only those of the usual number of epochs.
            same = np.concatenate([[False], run.epochs_done[:-1] == last])
            known[last] = np.where(same, run.monitored["update_gain"], math.nan)
        for (stage, name), (epoch, values) in itertools.product(enumerate(STAGE_NAMES), known.items()):
            found = Mean.of(values[stages == stage])
            if found.updates:
                tables[name].setdefault(epoch, []).append((found.value, found.error))
    return {
        name: [(epoch, float(np.mean(table, 0)[0]), math.hypot(*(error for _, error in table)) / len(table))
               for epoch, table in sorted(by_epoch.items())]
        for name, by_epoch in tables.items() if by_epoch
    }  # fmt: skip


def course(
    comparison: Comparison, method: str, tasks: Sequence[str], column: str
) -> tuple[Array, Array, Array, Array] | None:
    """Return progress and a monitored column's mean over runs, with the mean less and plus its standard error.

    Scales are averaged by their logarithm; one that never moves is no course.
    """
    rows, logarithmic = [], column == "lr_scale"
    for run in monitored(comparison, method, tasks):
        values = run.monitored.get(column, np.full(len(run.steps), math.nan))
        values = np.log(values) if logarithmic else values
        place = np.clip((BINS * (run.steps - 1) / comparison.budget[run.task]).astype(int), 0, BINS - 1)
        known = np.isfinite(values)
        total, count = np.bincount(place[known], values[known], BINS), np.bincount(place[known], minlength=BINS)
        rows.append(np.where(count > 0, total / np.maximum(count, 1), math.nan))
    table = np.array(rows)
    if not np.isfinite(table).any() or (logarithmic and not np.nanmax(np.abs(table)) > 1e-9):
        return None
    count = np.isfinite(table).sum(0)
    middle = np.nansum(table, 0) / np.where(count > 0, count, math.nan)
    error = np.sqrt(np.nansum((table - middle) ** 2, 0) / np.where(count > 1, (count - 1) * count, math.nan))
    mean, low, high = (np.exp(line) if logarithmic else line for line in (middle, middle - error, middle + error))
    return (np.arange(BINS) + 0.5) / BINS, mean, low, high


@dataclass(frozen=True)
class TaskAdvice:
    """What the updates of a fixed method say on a task."""

    method: str
    task: str
    runs: int
    agreeing: tuple[tuple[int, Advice], ...]
    """seed and advice of each run of the direction that most of them share"""


@lru_cache(maxsize=8)
def told(analysis: Analysis) -> tuple[TaskAdvice, ...]:
    """Return the advice on each task that the best of the monitored methods of fixed epochs leaves behind."""
    comparison = analysis.comparison
    names = [method.name for method in comparison.methods
             if method.fixed_epochs is not None and monitored(comparison, method.name, comparison.tasks)]  # fmt: skip
    if not names:
        return ()
    name = max(names, key=lambda name: (np.nan_to_num(analysis.iqm(name), nan=-math.inf), name == comparison.baseline))
    found = []
    for task in comparison.tasks:
        said = []
        for run in monitored(comparison, name, (task,)):
            assert run.config is not None  # its epochs are known
            said.append((run.seed, advice_of(run.config, run.monitored)))
        for common, _ in Counter(each.whole.direction for _, each in said).most_common(1):
            agreeing = tuple((seed, each) for seed, each in said if each.whole.direction == common)
            found.append(TaskAdvice(name, task, len(said), agreeing))
    return tuple(found)


def advice(analysis: Analysis) -> list[tuple[str, str]]:
    """Return what a fixed method's updates say, task by task: how many runs agree, and the sentences of one run."""
    comparison, found = analysis.comparison, []
    for each in told(analysis):
        seed, said = each.agreeing[0]
        agree = ""
        if each.runs > 1 and said.whole.direction in DIRECTIONS:
            agree = f"In {len(each.agreeing)} of {each.runs} runs updates {DIRECTIONS[said.whole.direction]}. "
        place = f"{comparison.label(each.method)} on {comparison.short[each.task]}"
        found.append((place, f"{agree}Seed {seed}: {str(said).replace('`', '')}"))
    return found


def directions(analysis: Analysis) -> list[str]:
    """Say where most runs' updates stop short or overshoot, and what to multiply the learning rate by."""
    comparison, tasks = analysis.comparison, dict[tuple[str, str, str], list[str]]()
    for each in told(analysis):
        direction = each.agreeing[0][1].whole.direction
        factors = [factor for _, said in each.agreeing if (factor := said.factor("learning-rate")) != 1]
        if direction in ("short", "over") and 2 * len(factors) > each.runs:
            factor = float(np.median(factors))
            times = f"{factor:.2g}" if factor > 1 else f"1/{1 / factor:.2g}"
            tasks.setdefault((each.method, direction, times), []).append(comparison.short[each.task])
    return [f"Updates of {comparison.label(name)} {DIRECTIONS[way]} on {listing(places)}: multiply the learning rate "
            f"by {times} there." for (name, way, times), places in tasks.items()]  # fmt: skip
