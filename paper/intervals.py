"""95 % intervals for few runs: Student's t over tasks, Welch's between methods, and the exact one of a share."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from adept.report.statistics import LEVEL, Estimate, Scores

TAIL = (1 - LEVEL) / 2
POINTS = 100_000


def student(values: npt.ArrayLike) -> Estimate:
    """Return a mean with Student's interval, each value being one independent task; none for a single value."""
    array = np.asarray(values, np.float64)
    mean, count = float(array.mean()), len(array)
    if count < 2:
        return Estimate(mean)
    reach = student_quantile(count - 1) * float(array.std(ddof=1)) / math.sqrt(count)
    return Estimate(mean, mean - reach, mean + reach)


def welch(mine: Scores, theirs: Scores) -> Estimate:
    """Return by how much one mean over tasks exceeds another, with Welch's interval.

    Runs are independent; each task and method has a variance of its own. The degrees of freedom are Satterthwaite's:
    (Σ v)² / Σ v²/(n−1) over all cells, v being the cell's variance of the mean. A cell with one run leaves no interval.
    """
    cells = [np.asarray(task, np.float64) for scores in (mine, theirs) for task in scores]
    means = [float(cell.mean()) for cell in cells]
    value = float(np.mean(means[: len(mine)]) - np.mean(means[len(mine) :]))
    if min(map(len, cells)) < 2:
        return Estimate(value)
    variances = np.array([cell.var(ddof=1) / len(cell) for cell in cells])
    free = np.array([len(cell) - 1 for cell in cells])
    total = float(variances.sum())
    if total == 0:
        return Estimate(value, value, value)
    reach = student_quantile(total**2 / float((variances**2 / free).sum())) * math.sqrt(total) / len(mine)
    return Estimate(value, value - reach, value + reach)


def share(successes: int, trials: int) -> Estimate:
    """Return a share with its exact interval (Clopper and Pearson 1934)."""
    low = _solve(lambda p: at_least(successes, trials, p), TAIL) if successes else 0.0
    high = _solve(lambda p: at_least(successes + 1, trials, p), 1 - TAIL) if successes < trials else 1.0
    return Estimate(successes / trials, low, high)


def at_least(successes: int, trials: int, chance: float) -> float:
    """Return the probability of so many successes or more."""
    return sum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(successes, trials + 1))


def student_quantile(freedom: float) -> float:
    """Return the bound that Student's t stays below in size with the level's probability.

    With t = √ν·tan θ its density is that of cos^(ν-1) θ, whose integral is summed on a grid of midpoints.
    """
    step = math.pi / 2 / POINTS
    mass = np.cumsum(np.cos((np.arange(POINTS) + 0.5) * step) ** (freedom - 1))
    return math.sqrt(freedom) * math.tan(float(np.interp(LEVEL * mass[-1], mass, np.arange(1, POINTS + 1) * step)))


def _solve(rising: Callable[[float], float], level: float) -> float:
    """Return where a rising function of a probability passes a level, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return (low + high) / 2
