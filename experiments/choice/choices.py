"""What stored decisions say of the bandit's reward, beside what `adept probe` tells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from adept.probe.placebo import Placebo, placebo
from adept.probe.records import Array, finished_runs
from adept.probe.stages import Stage, branches_path, read_stages
from experiments.choice.branches import CELLS, RESULTS
from paper.measures import Evidence

WINDOW = 15
"""Iterations of the centred running mean that is taken for the trend."""
LATE, HELD = 50, 0.9
"""An arm is held that gets such a share of so many last updates."""


@dataclass(frozen=True)
class Tracking:
    """How the GAE return goes with the return of episodes on a task: medians over runs of correlations."""

    task: str
    runs: int
    levels: float
    changes: float
    """of what is left when the trend is taken away"""
    silent: float
    """share of iterations in which no episode ended"""


def tracking(evidence: Evidence) -> list[Tracking]:
    """Correlate the two rewards that every run recorded, over all methods."""
    found = []
    for task in evidence.tasks:
        levels, changes, silent = [], [], []
        for method in evidence.comparison.methods:
            for columns in finished_runs(evidence.results, method.name, task):
                gae, episode = columns["gae_return"], columns["episode_return"]
                known = np.isfinite(episode)
                silent.append(1 - known.mean())
                levels.append(correlation(gae[known], episode[known]))
                changes.append(correlation(detrended(gae[known]), detrended(episode[known])))
        if levels:
            level, change = (float(np.nanmedian(values)) for values in (levels, changes))
            found.append(Tracking(task, len(levels), level, change, float(np.mean(silent))))
    return found


def correlation(x: Array, y: Array) -> float:
    """Return Pearson's correlation; NaN where one of the two does not vary."""
    if len(x) < 3 or not (x.std() > 0 and y.std() > 0):
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def detrended(values: Array) -> Array:
    """Take the centred running mean away; at the ends the window is shorter."""
    if len(values) < WINDOW:
        return values - values.mean() if len(values) else values
    kernel = np.ones(WINDOW)
    trend: Array = np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same")
    return values - trend


def held(evidence: Evidence, method: str) -> dict[int, int]:
    """Return how many runs of a method, over all tasks, end by taking each arm and hardly any other."""
    found = np.concatenate([evidence.shares(method, task, LATE) for task in evidence.tasks])
    return dict(zip(evidence.config(method).arms, (found >= HELD).sum(0).tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Preferences:
    """The share of updates that each arm got in a method's own runs, and that it gets on placebo."""

    method: str
    real: Array
    placebo: Placebo

    @property
    def task(self) -> str:
        """The task of both."""
        return self.placebo.task


@cache
def preferences(evidence: Evidence, method: str) -> list[Preferences]:
    """Feed a method's scheduler the rewards of the baseline's runs, whose K never changed."""
    config = evidence.config(method)
    found = []
    for task in evidence.tasks:
        real = evidence.shares(method, task)
        fixed = finished_runs(evidence.results, evidence.comparison.baseline, task)
        runs = [columns["gae_return"] for columns in fixed]
        if len(real) and runs:
            fed = placebo(config.scheduler, config.arms, config.scheduler_options, runs, task)
            found.append(Preferences(method, real, fed))
    return found


@cache
def stages() -> list[Stage]:
    """Read the branches that were run."""
    paths = {(task, seed): branches_path(RESULTS, task, seed) for task, seed, _ in CELLS}
    return [stage for cell, path in paths.items() if path.exists() for stage in read_stages(path, *cell)]
