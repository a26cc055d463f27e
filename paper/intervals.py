"""95 % intervals for few runs: Student's t over tasks, Welch's between methods, and the exact one of a share."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from adept.report.statistics import LEVEL, Estimate, Scores

TAIL = (1 - LEVEL) / 2


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
    low = high = successes / trials
    if successes:
        low = _solve(lambda p: incomplete_beta(p, successes, trials - successes + 1), TAIL, 0.0, 1.0)
    if successes < trials:
        high = _solve(lambda p: incomplete_beta(p, successes + 1, trials - successes), 1 - TAIL, 0.0, 1.0)
    return Estimate(successes / trials, low, high)


def student_quantile(freedom: float) -> float:
    """Return the bound that Student's t stays below in size with the level's probability."""
    return _solve(lambda t: 1 - incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5), LEVEL, 0.0, 1e6)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x) - math.log(a)
    )
    # Lentz's algorithm for 1/(1 + d₁/(1 + d₂/(1 + …))), Abramowitz and Stegun 26.5.8.
    tiny = 1e-300
    fraction = c = 1.0
    d = 0.0
    for step in range(1000):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / (1 + term * d or tiny)
        c = 1 + term / c or tiny
        fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * (fraction - 1)


def _solve(rising: Callable[[float], float], level: float, low: float, high: float) -> float:
    """Return where a rising function passes a level, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return (low + high) / 2
