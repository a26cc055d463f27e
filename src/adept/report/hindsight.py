"""What updates were worth in hindsight: gains by epoch and stage of training, slope and scale over it, and advice."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from adept.hindsight.advice import Advice, advise
from adept.hindsight.stages import Mean
from adept.report.analysis import Analysis
from adept.report.comparison import Comparison, Run
from adept.report.statistics import Array
from adept.report.text import counted, listing
from adept.runs.advice import advice_of

STAGES = ("first third", "middle third", "last third")
BINS = 30
DIRECTIONS = {"short": "stop short", "over": "overshoot", "right": "are about as long as they should be"}

Point = tuple[int, float, float]
"""Epoch, mean gain, standard error."""


def monitored(comparison: Comparison, method: str, tasks: Sequence[str]) -> list[Run]:
    """Return the finished runs whose updates were judged."""
    runs = [run for task in tasks for run in comparison.finished(method, task)]
    return [run for run in runs if "slope_z" in run.monitored and np.isfinite(run.monitored["slope_z"]).any()]


def gains(comparison: Comparison, method: str, tasks: Sequence[str]) -> dict[str, list[Point]]:
    """Return the mean gain after each epoch, by stage of training, in standard deviations of the advantage.

    Runs count equally; errors are those of means over a run's updates. What the whole update was worth stands at the
    median of the epochs done.
    """
    tables: dict[str, dict[int, list[tuple[float, float]]]] = {name: {} for name in STAGES}
    for run in monitored(comparison, method, tasks):
        stages = np.floor(len(STAGES) * (run.steps - 1) / comparison.budget[run.task])
        last = int(np.median(run.epochs_done))
        known = {int(name[5:]): values for name, values in run.monitored.items() if name[5:].isdigit()}
        if "update_gain" in run.monitored:
            # A row judges the update before it: only those of the usual number of epochs.
            same = np.concatenate([[False], run.epochs_done[:-1] == last])
            known[last] = np.where(same, run.monitored["update_gain"], math.nan)
        for (stage, name), (epoch, values) in itertools.product(enumerate(STAGES), known.items()):
            found = Mean.of(values[stages == stage])
            if found.updates:
                tables[name].setdefault(epoch, []).append((found.value, found.error))
    return {
        name: [(epoch, float(np.mean(table, 0)[0]), math.hypot(*(error for _, error in table)) / len(table))
               for epoch, table in sorted(by_epoch.items())]
        for name, by_epoch in tables.items() if by_epoch
    }  # fmt: skip


def course(comparison: Comparison, method: str, tasks: Sequence[str], column: str) -> tuple[Array, Array, Array] | None:
    """Return progress, mean and standard error over runs of a monitored column; the scale by its logarithm."""
    rows = []
    for run in monitored(comparison, method, tasks):
        values = run.monitored.get(column, np.full(len(run.steps), math.nan))
        values = np.log(values) if column == "lr_scale" else values
        place = np.clip((BINS * (run.steps - 1) / comparison.budget[run.task]).astype(int), 0, BINS - 1)
        known = np.isfinite(values)
        total = np.bincount(place[known], values[known], BINS)
        count = np.bincount(place[known], minlength=BINS)
        rows.append(np.where(count > 0, total / np.maximum(count, 1), math.nan))
    table = np.array(rows)
    if not len(table) or not np.isfinite(table).any() or (column == "lr_scale" and not np.nanmax(np.abs(table)) > 1e-9):
        return None
    count = np.isfinite(table).sum(0)
    mean = np.where(count > 0, np.nansum(table, 0) / np.maximum(count, 1), math.nan)
    spread = np.sqrt(np.nansum((table - mean) ** 2, 0) / np.maximum(count - 1, 1) / np.maximum(count, 1))
    return (np.arange(BINS) + 0.5) / BINS, mean, np.where(count > 1, spread, math.nan)


def advice(analysis: Analysis) -> list[tuple[str, str]]:
    """Return what a fixed method's updates say, task by task: how many runs agree, and the sentences of one run."""
    comparison, found = analysis.comparison, []
    for name, task, told in _told(comparison):
        common, number = _common(told)
        run, words = next((run, str(said)) for run, said in told if said.whole.direction == common)
        agree = ""
        if len(told) > 1 and common in DIRECTIONS:
            agree = f"In {number} of {counted(len(told), 'run')} updates {DIRECTIONS[common]}. "
        place = f"{comparison.label(name)} on {comparison.short[task]}"
        found.append((place, f"{agree}Seed {run.seed}: {words.replace('`', '')}"))
    return found


def directions(analysis: Analysis) -> list[str]:
    """Say on which tasks most runs' updates stop short or overshoot, and what to try."""
    comparison, tasks = analysis.comparison, dict[str, list[str]]()
    label = ""
    for name, task, told in _told(comparison):
        common, number = _common(told)
        if 2 * number > len(told):
            tasks.setdefault(common, []).append(comparison.short[task])
        label = comparison.label(name)
    return [f"Updates of {label} {DIRECTIONS[way]} on {listing(tasks[way])}: try a {rate} learning rate there."
            for way, rate in (("short", "larger"), ("over", "smaller")) if way in tasks]  # fmt: skip


def _told(comparison: Comparison) -> Iterator[tuple[str, str, list[tuple[Run, Advice]]]]:
    """Yield method, task and each run's advice: of the baseline, or, where it was not monitored, a fixed method."""
    fixed = [method.name for method in comparison.methods if method.fixed_epochs is not None]
    names = sorted(fixed, key=lambda name: name != comparison.baseline)
    name = next((name for name in names if monitored(comparison, name, comparison.tasks)), None)
    if name is None:
        return
    for task in comparison.tasks:
        if told := [(run, _advice_of(run)) for run in monitored(comparison, name, (task,))]:
            yield name, task, told


def _common(told: Sequence[tuple[Run, Advice]]) -> tuple[str, int]:
    """Return the direction that most runs agree on, and how many do."""
    return Counter(said.whole.direction for _, said in told).most_common(1)[0]


def _advice_of(run: Run) -> Advice:
    own = {"epochs": run.epochs, "epochs_done": run.epochs_done, "flops": run.flops, "score": run.score}
    columns = {**run.monitored, **own}
    return advise(columns) if run.config is None else advice_of(run.config, columns)
