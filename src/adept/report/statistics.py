"""Aggregates and tests over tasks and seeds: stratified bootstrap (Agarwal et al. 2021), permutations, NumPy, seeded.

Scores come as one array of runs per task, and tasks may have different numbers of runs: a resample draws as many
runs as there are, with replacement, within each task. Intervals are percentiles of the resampled values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
LEVEL = 0.95
PERMUTATIONS = 10_000

Array = npt.NDArray[np.float64]
Scores = Sequence[npt.ArrayLike]
"""One array of runs' scores per task."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; the bounds are NaN where a task has a single run, which says nothing of spread.

    It is false where there is no value either.
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def has_interval(self) -> bool:
        """Whether there were runs enough for an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def __bool__(self) -> bool:
        return math.isfinite(self.value)

    def times(self, factor: float) -> Estimate:
        """Return the estimate in another unit."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high)


NONE = Estimate(math.nan)
"""What there is no value for."""


class Strata:
    """Scores laid out in one row, task after task, and the bootstrap's draws from it."""

    def __init__(self, scores: Scores) -> None:
        tasks = [np.asarray(task, np.float64).ravel() for task in scores]
        if not tasks or not all(len(task) for task in tasks):
            raise ValueError("scores must have one or more tasks with one or more runs each; leave empty tasks out")
        self.values = np.concatenate(tasks)
        if not np.isfinite(self.values).all():
            raise ValueError("scores must be finite; leave runs without a score out, and say how many there are")
        self.counts = np.array([len(task) for task in tasks])
        self.starts = np.cumsum(self.counts) - self.counts
        self.of_run = np.repeat(self.counts, self.counts)
        """how many runs there are on each run's task"""
        self.single = bool((self.counts < 2).any())

    def resample(self, resamples: int, seed: int = 0) -> Array:
        """Draw runs with replacement within each task: one row per resample."""
        return self.values[self._draw(resamples, seed)]

    def weights(self, resamples: int, seed: int = 0) -> Array:
        """Return how often each run is drawn in each resample, for statistics that are sums over runs."""
        index = self._draw(resamples, seed) + np.arange(resamples)[:, None] * len(self.values)
        counted = np.bincount(index.ravel(), minlength=resamples * len(self.values))
        return counted.reshape(resamples, -1).astype(np.float64)

    def _draw(self, resamples: int, seed: int) -> npt.NDArray[np.int64]:
        draws = np.random.default_rng(seed).random((resamples, len(self.values)))
        return np.asarray((draws * self.of_run).astype(np.int64) + np.repeat(self.starts, self.counts))

    def task_means(self, rows: Array) -> Array:
        """Average rows of scores within each task."""
        return np.asarray(np.add.reduceat(rows, self.starts, axis=-1) / self.counts)


def _middle_mean(_: Strata, rows: Array) -> Array:
    """Average the middle half of all runs; as in SciPy's trim_mean, a quarter is rounded down to whole runs."""
    cut = rows.shape[-1] // 4
    return np.asarray(np.sort(rows, -1)[..., cut : rows.shape[-1] - cut].mean(-1))


METRICS: dict[str, Callable[[Strata, Array], Array]] = {
    "iqm": _middle_mean,
    "mean": lambda strata, rows: strata.task_means(rows).mean(-1),
    "median": lambda strata, rows: np.median(strata.task_means(rows), -1),
    # How far runs fall short of 1 on average, what is above 1 counting as 1.
    "optimality_gap": lambda strata, rows: 1.0 - strata.task_means(np.minimum(rows, 1.0)).mean(-1),
}


def iqm(scores: Scores) -> float:
    """Return the interquartile mean over all runs of all tasks."""
    strata = Strata(scores)
    return float(_middle_mean(strata, strata.values))


def aggregate(scores: Scores, *, resamples: int = RESAMPLES) -> dict[str, Estimate]:
    """Return IQM, mean, median and optimality gap over tasks and runs, each with its interval."""
    strata = Strata(scores)
    rows = strata.resample(resamples)
    return {name: _estimate(metric(strata, strata.values), metric(strata, rows), strata)
            for name, metric in METRICS.items()}  # fmt: skip


def probability_of_improvement(scores: Scores, others: Scores, *, resamples: int = RESAMPLES) -> Estimate:
    """Return the chance that a run of one method beats a run of another on the same task, averaged over tasks.

    P = mean over tasks of mean over pairs of [x > y] + ½[x = y], the Mann-Whitney statistic over its number of pairs.
    """
    mine, theirs = Strata(scores), Strata(others)
    if len(mine.counts) != len(theirs.counts):
        raise ValueError(f"both methods need scores on the same tasks, got {len(mine.counts)} and {len(theirs.counts)}")
    x, y = mine.values[:, None], theirs.values[None, :]
    wins = (x > y) + 0.5 * (x == y)
    places = [np.repeat(np.arange(len(strata.counts)), strata.counts) for strata in (mine, theirs)]
    pairs = np.multiply.outer(mine.of_run, theirs.of_run)
    table = np.where(np.equal.outer(*places), wins / pairs, 0.0) / len(mine.counts)
    drawn = ((mine.weights(resamples) @ table) * theirs.weights(resamples, seed=1)).sum(1)
    chance = _estimate(table.sum(), drawn, mine, theirs)
    return Estimate(*(round(value, 12) for value in (chance.value, chance.low, chance.high)))  # certainty reads 1


def difference(
    scores: Scores, others: Scores, *, metric: str = "iqm", paired: bool = False, resamples: int = RESAMPLES
) -> Estimate:
    """Return how far one method's aggregate is above another's, with the interval of resampling both.

    `paired` draws the same places of both: runs stand in the order of their seeds, and what two runs of one seed have
    in common (the network's start, the first rollouts) cancels.
    """
    mine, theirs, measure = Strata(scores), Strata(others), METRICS[metric]
    if paired and not np.array_equal(mine.counts, theirs.counts):
        raise ValueError(f"paired scores need as many runs of both, got {mine.counts} and {theirs.counts} by task")
    rest = theirs.resample(resamples, seed=0 if paired else 1)
    drawn = measure(mine, mine.resample(resamples)) - measure(theirs, rest)
    return _estimate(measure(mine, mine.values) - measure(theirs, theirs.values), drawn, mine, theirs)


def _estimate(value: npt.ArrayLike, drawn: Array, *strata: Strata) -> Estimate:
    """Return a value with the interval of its resamples; without one where a task has a single run."""
    bounds = () if any(entry.single for entry in strata) else map(float, _bounds(drawn))
    return Estimate(float(np.asarray(value)), *bounds)


def permutation_p(
    scores: Scores, others: Scores, *, metric: str = "iqm", margin: float = 0.0, two_sided: bool = False,
    draws: int = PERMUTATIONS,
) -> float:  # fmt: skip
    """Return the p-value of "one method's aggregate is above the other's less a margin".

    Runs are exchanged between the methods within each task; p is the share of arrangements, the observed one among
    them, whose difference is at least as large. With a margin, by which scores are raised first, this tests
    non-inferiority.
    """
    mine, theirs = Strata([np.asarray(task, np.float64) + margin for task in scores]), Strata(others)
    random, firsts, rests = np.random.default_rng(0), [], []
    for start, count, other, size in zip(mine.starts, mine.counts, theirs.starts, theirs.counts, strict=True):
        pool = np.concatenate([mine.values[start : start + count], theirs.values[other : other + size]])
        rows = pool[np.argsort(random.random((draws, len(pool))), axis=1)]
        rows = np.concatenate([pool[None], rows])  # the first row is what was observed
        firsts.append(rows[:, :count])
        rests.append(rows[:, count:])
    measure = METRICS[metric]
    statistic = measure(mine, np.concatenate(firsts, axis=1)) - measure(theirs, np.concatenate(rests, axis=1))
    if two_sided:
        statistic = np.abs(statistic)
    slack = 1e-9 * max(1.0, float(np.abs(mine.values).max()))  # equal sums may differ in their last digit
    return float((statistic >= statistic[0] - slack).mean())


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979): reject those that are below the level."""
    order = np.argsort(p_values, kind="stable")
    stepped = np.maximum.accumulate([(len(order) - rank) * p_values[index] for rank, index in enumerate(order)])
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in corrected]


def performance_profile(scores: Scores, thresholds: Array, *, resamples: int = RESAMPLES) -> tuple[Array, Array, Array]:
    """Return the share of runs that score above each threshold, tasks counting equally, and its band."""
    above = [np.asarray(task, np.float64)[:, None] > thresholds[None, :] for task in scores]
    return curve_interval(above, resamples=resamples)


def curve_interval(curves: Sequence[npt.ArrayLike], *, resamples: int = 500) -> tuple[Array, Array, Array]:
    """Return mean and pointwise interval of the mean of curves that are stratified by task.

    Each element holds one task's runs as rows over a common axis; tasks count equally. A point counts only where
    every run has a value, so that no point is an average of fewer.
    """
    tables = [np.asarray(task, np.float64) for task in curves]
    strata = Strata([np.zeros(len(task)) for task in tables])
    rows = np.concatenate(tables) / (strata.of_run * len(tables))[:, None]
    mean: Array = rows.sum(0)
    low, high = np.full_like(mean, math.nan), np.full_like(mean, math.nan)
    known = np.isfinite(mean)
    if known.any() and not strata.single:
        low[known], high[known] = _bounds(strata.weights(resamples) @ rows[:, known])
    return mean, low, high


def area_under_curve(x: Array, y: Array, budget: float) -> float:
    """Return the average height of a curve from its first known point to a budget, by the trapezoid rule.

    The curve is cut (interpolated) at the budget; one that ends before it keeps its last value. Dividing by the
    width makes it a score: a method that is at 1 throughout has area 1.
    """
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not len(x) or budget <= 0:
        return math.nan
    if budget <= x[0]:
        return float(y[0])
    inside = x < budget
    at = np.concatenate([x[inside], [budget]])
    height = np.concatenate([y[inside], [np.interp(budget, x, y)]])
    return float(np.trapezoid(height, at) / (at[-1] - at[0]))


def steps_to_threshold(steps: Array, score: Array, threshold: float) -> float:
    """Return the first step at which the score is at or above a threshold; infinity if it never is."""
    reached = np.flatnonzero(score >= threshold)
    return float(steps[reached[0]]) if len(reached) else math.inf


def _bounds(rows: Array) -> tuple[Array, Array]:
    columns = np.ascontiguousarray(rows.T)  # twice as fast along the last axis
    low, high = np.percentile(columns, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=-1)
    return low, high
