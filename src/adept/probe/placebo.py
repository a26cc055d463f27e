"""Placebo: feed a scheduler rewards that its choices cannot have changed, and see what it prefers.

The rewards are those of runs whose number of epochs never changed. A preference that a scheduler forms there comes from
the noise and the trend of training. In random order the rewards have no trend: a preference comes from noise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.probe.records import Array, finished_runs, mean_interval, shares, unchanged
from adept.report.statistics import Estimate, aggregate
from adept.schedulers import make_scheduler
from adept.seeding import stream_seed
from adept.studies.results import StudyResults

MARGIN = 0.10
"""An arm is preferred whose share exceeds an even one by more than this."""
CHEAPEST = 0.90
"""Share of runs whose favourite is the cheapest arm from which on that is called the scheduler's rule."""


@dataclass(frozen=True, eq=False)
class Placebo:
    """The share of choices that each arm gets on a task where no choice has any effect; one row per run."""

    task: str
    arms: tuple[int, ...]
    fed: Array
    """rewards in the order in which they came"""
    shuffled: Array
    """the same rewards in random order"""

    @property
    def most(self) -> Estimate:
        """Share of the arm that a run chose most, whichever it was."""
        return mean_interval(self.fed.max(1))

    @property
    def shuffled_most(self) -> Estimate:
        """The same on rewards in random order."""
        return mean_interval(self.shuffled.max(1))

    @property
    def favourites(self) -> dict[int, int]:
        """How many runs chose each arm most."""
        chosen = self.fed.argmax(1)
        return {arm: int(np.sum(chosen == place)) for place, arm in enumerate(self.arms)}


def feed(name: str, arms: Sequence[int], options: Mapping[str, Any], rewards: npt.ArrayLike, seed: int) -> list[int]:
    """Return what a scheduler chooses where its reward is a given series; a missing reward credits nothing."""
    scheduler = make_scheduler(name, arms, seed=stream_seed(seed, "scheduler"), **options)
    series = np.asarray(rewards, np.float64).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of arms that it leaves untried: that is what a placebo shows
        return [scheduler.step(reward if math.isfinite(reward) else None) for reward in series]


def placebo(
    name: str, arms: Sequence[int], options: Mapping[str, Any], runs: Sequence[npt.ArrayLike], task: str = ""
) -> Placebo:
    """Feed a scheduler each run's rewards, as they came and in random order."""
    arms = tuple(arms)
    fed = [feed(name, arms, options, run, seed) for seed, run in enumerate(runs, 1)]
    mixed = [feed(name, arms, options, np.random.default_rng(seed).permutation(np.asarray(run)), seed)
             for seed, run in enumerate(runs, 1)]  # fmt: skip
    return Placebo(task, arms, shares(fed, arms), shares(mixed, arms))


def placebos(
    results: StudyResults, name: str, arms: Sequence[int], options: Mapping[str, Any], reward: str = "gae_return"
) -> list[Placebo]:
    """Feed a scheduler the rewards of a study's runs whose epochs never changed, task by task."""
    source = unchanged(results)
    found = []
    for task in results.study.tasks:
        runs = [columns[reward] for columns in finished_runs(results, source, task)]
        if runs:
            found.append(placebo(name, arms, options, runs, task))
    if not found:
        raise ValueError(
            f"{results.directory} has no finished run of {source}, whose rewards are the placebo; "
            "run the study further: adept study NAME --out DIR"
        )
    return found


@dataclass(frozen=True)
class Preference:
    """What a scheduler prefers on placebo, over all tasks."""

    verdict: str
    """none, cheapest, arms, or unclear"""
    most: Estimate
    """share of the most-chosen arm, tasks counting equally"""
    even: float
    """that share where arms are chosen evenly"""
    cheapest_runs: int
    runs: int


def preference(found: Sequence[Placebo]) -> Preference:
    """Judge placebos by one rule: the interval of the most-chosen arm's share against an even share plus a margin.

    Above it, arms are preferred; below it, none is. Where nearly every run's favourite is the cheapest arm, the
    scheduler saves compute in doubt, which claims nothing about the arms.
    """
    even = 1 / len(found[0].arms)
    most = aggregate([entry.fed.max(1) for entry in found], resamples=2000)["mean"]
    runs = sum(len(entry.fed) for entry in found)
    cheapest = sum(entry.favourites[min(entry.arms)] for entry in found)
    limit = even + MARGIN
    if not most.has_interval or most.low <= limit <= most.high:
        verdict = "unclear"
    elif most.high < limit:
        verdict = "none"
    else:
        verdict = "cheapest" if cheapest >= CHEAPEST * runs else "arms"
    return Preference(verdict, most, even, cheapest, runs)
