"""The table of results/procgen-watch: one run of each method and game, so nothing of who wins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from adept.hindsight.stages import Mean
from adept.report.comparison import Comparison, Run
from adept.report.hindsight import monitored
from adept.report.statistics import Array, area_under_curve
from adept.report.text import markdown, number, percent
from paper.measures import load
from paper.words import table

EPOCHS = 3
"""PPO's epochs on Procgen."""


def monitor_table(comparison: Comparison) -> str:
    """Return a row for each monitored run."""
    rows = []
    for task in comparison.tasks:
        (base,) = comparison.finished(comparison.baseline, task)
        for method in comparison.methods:
            for run in monitored(comparison, method.name, (task,)):
                share = percent(run.update_flops[-1] / base.update_flops[-1])
                time = percent(comparison.total(run, "processor") / comparison.total(base, "processor"))
                rows.append([comparison.short[task], markdown(method.label), *cells(run), share, time])
    added = ("first epoch", "second adds", "third adds", "twice the step adds")
    header = ("game", "method", "monitored updates", "slope z", *added, "critic's slope", "lr_scale at the end",
              "mean score", "mean K", "update FLOPs", "processor time")  # fmt: skip
    return table(header, rows, len(header) - 2)


def cells(run: Run) -> Iterator[str]:
    """Give what a run's updates were worth: gains in per cent of a standard deviation of the advantage."""
    columns = run.monitored
    empty = np.full(len(run.steps), math.nan)
    yield f"{np.isfinite(columns['slope_z']).sum()}"
    yield mean(columns["slope_z"])
    gains = [columns.get(f"gain/{epoch}", empty) for epoch in range(1, EPOCHS + 1)]
    yield mean(gains[0], percent=True)
    for before, after in pairwise(gains):
        yield mean(after - before, percent=True)
    yield mean(columns.get("gain/x2", empty) - columns.get("update_gain", empty), percent=True)
    yield mean(columns.get("critic_slope", empty))
    yield number(float(columns["lr_scale"][-1])) if "lr_scale" in columns else "1"
    yield number(area_under_curve(run.steps, run.score, run.steps[-1]))
    yield number(float(run.epochs_done.mean()))


def mean(values: Array, *, percent: bool = False) -> str:
    """Return the mean over a run's monitored updates with its standard error; – where fewer than two have a value."""
    found, scale, unit = Mean.of(values), *((100, " %") if percent else (1, ""))
    return f"{scale * found.value:+.2f} ± {scale * found.error:.2f}{unit}" if found.updates else "–"


BLOCKS = {"procgen-watch": lambda: monitor_table(load("procgen-watch").comparison)}
