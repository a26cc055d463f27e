"""Gain and slope of policies on rows that another policy collected, with standard errors. NumPy alone.

Notation: π_d collected the rows, Â are its advantages, normalised over these rows. Every estimate here is a mean of
w·Â over rows, where the weight w says how much more often a candidate takes the action than another policy does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int64]

MIN_DEVIATION = 1e-8
"""Advantages whose standard deviation is at most this share of their size (and this number) carry no signal."""
MIN_ENVIRONMENTS = 8
"""From this many environments on, each environment is one group; below it, blocks of time are."""
TIME_BLOCKS = 16
"""Blocks of time in one rollout where there are fewer environments."""


@dataclass(frozen=True)
class Estimate:
    """A mean over rows and its standard error; both NaN without a signal."""

    value: float
    error: float
    freedom: float = math.inf
    """degrees of freedom of the error: groups of rows minus 1"""

    @property
    def known(self) -> bool:
        """Whether there is a number at all."""
        return math.isfinite(self.value) and math.isfinite(self.error)

    @property
    def z(self) -> float:
        """How many standard errors the value is from 0, as a standard normal deviate; 0 where nothing is known.

        value/error has a t distribution with few groups, whose tails are long: its variance is 1.15 with 16 groups.
        Wallace's formula maps it to the normal deviate of the same tail probability,
        z = (8ν+1)/(8ν+3) · √(ν·ln(1 + t²/ν)) (Wallace 1959), so that z means the same for any number of groups.
        """
        if not self.known or self.error <= 0:
            return 0.0
        t = self.value / self.error
        if math.isinf(self.freedom):
            return t
        squared = min(t * t, 1e300)
        size = math.sqrt(self.freedom * math.log1p(squared / self.freedom))
        return math.copysign(size * (8 * self.freedom + 1) / (8 * self.freedom + 3), t)


UNKNOWN = Estimate(math.nan, math.nan)
"""What rows without a signal say: advantages that are all equal, a number that is not finite, fewer than two groups."""


def normalize(advantages: npt.ArrayLike) -> Floats:
    """Return advantages less their mean, over their standard deviation; all 0 without a signal.

    There is no signal where they are (nearly) equal or one of them is not finite.
    """
    values = np.asarray(advantages, np.float64).ravel()
    if not values.size or not np.isfinite(values).all():
        return np.zeros_like(values)
    largest = np.abs(values).max()
    centred = values - values.mean()
    deviation = centred.std()
    if not deviation > MIN_DEVIATION * max(largest, MIN_DEVIATION):
        return np.zeros_like(values)
    return np.asarray(centred / deviation)


def time_groups(steps: int, environments: int) -> Groups:
    """Return the group of each row of a rollout of (steps, environments), flattened in that order.

    Rows of one environment depend on each other, through the state and through the advantages; environments do not.
    So with at least 8 environments a group is an environment. With fewer, their number would say little about the
    spread, and a group is a block of time of one environment: 16 blocks in all, or the next number that the
    environments divide. Blocks are long next to the memory of the advantages, so that neighbours hardly depend on
    each other.
    """
    environment = np.arange(environments, dtype=np.int64)
    if environments >= MIN_ENVIRONMENTS:
        return np.tile(environment, steps)
    blocks = max(1, min(steps, -(-TIME_BLOCKS // environments)))
    block = np.arange(steps, dtype=np.int64) * blocks // max(steps, 1)
    return (block[:, None] + blocks * environment).ravel()


def gain(
    log_probs: npt.ArrayLike,
    deployed_log_probs: npt.ArrayLike,
    advantages: npt.ArrayLike,
    groups: npt.ArrayLike,
    limit: float = 5.0,
    *,
    over: npt.ArrayLike | None = None,
) -> Estimate:
    """Estimate J(φ) - J(θ_d) to first order, in standard deviations of the advantage: g(φ) = mean[(ρ_φ - 1)·Â].

    ρ_φ = π_φ(a|s)/π_d(a|s), cut at a limit. With `over`, the log-probabilities of a third policy χ, it is the gain of
    φ over χ, g = mean[(ρ_φ - ρ_χ)·Â], with the error of the paired difference: common noise cancels.
    """
    candidate, deployed, other = _columns(log_probs, deployed_log_probs, deployed_log_probs if over is None else over)
    cap = math.log(limit)
    with np.errstate(all="ignore"):
        weights = np.exp(np.minimum(candidate - deployed, cap)) - np.exp(np.minimum(other - deployed, cap))
    return weighted(weights, advantages, groups)


def slope(
    longer: npt.ArrayLike,
    shorter: npt.ArrayLike,
    advantages: npt.ArrayLike,
    groups: npt.ArrayLike,
    epsilon: float = 0.25,
) -> Estimate:
    """Estimate the derivative of J along the last update, at its end: D = mean[(ln π₁₊ε - ln π₁₋ε)/(2ε)·Â].

    π₁±ε has the parameters θ₀ + (1±ε)(θ_d - θ₀). Positive: the update stopped short. Negative: it overshot.
    """
    up, down = _columns(longer, shorter)
    with np.errstate(all="ignore"):
        weights = (up - down) / (2 * epsilon)
    return weighted(weights, advantages, groups)


def critic_slope(
    before: npt.ArrayLike, deployed: npt.ArrayLike, errors: npt.ArrayLike, groups: npt.ArrayLike
) -> Estimate:
    """Estimate how much further the critic's last update should have gone, as a share of it.

    V₀ and V_d are the values before and after the update, R - V_d the errors on rows that the update did not see: the
    advantages, as they are. Along the update the squared error mean[(R - V₀ - α(V_d - V₀))²] is least at
    α = 1 + mean[(R - V_d)·(V_d - V₀)]/mean[(V_d - V₀)²]; the estimate is α - 1. Positive: the critic lags.
    Unlike a policy's slope it keeps the mean of the errors: a critic that is off by a constant lags, too.
    """
    old, new, missing = _columns(before, deployed, errors)
    moved = new - old
    index, count = _grouped(groups, len(moved))
    if count < 2:
        return UNKNOWN
    with np.errstate(all="ignore"):
        products, size = moved * missing, float(np.mean(moved**2))
        value = float(products.mean())
        error = _error(products - value, index, count)
    known = size > 0 and error > 0 and all(map(math.isfinite, (value, error, size)))
    return Estimate(value / size, error / size, count - 1) if known else UNKNOWN


def step_kl(longer: npt.ArrayLike, shorter: npt.ArrayLike, epsilon: float = 0.25) -> float:
    """Estimate the KL of an update to second order, from the slope's passes: ½ mean[((ln π₁₊ε - ln π₁₋ε)/2ε)²]."""
    with np.errstate(all="ignore"):
        return float(0.5 * np.mean((np.subtract(*_columns(longer, shorter)) / (2 * epsilon)) ** 2))


def kl(deployed_log_probs: npt.ArrayLike, log_probs: npt.ArrayLike) -> float:
    """Estimate KL(π_d ‖ π) = mean[ρ - 1 - ln ρ] on rows of π_d, with ρ = π(a|s)/π_d(a|s): unbiased, never negative."""
    with np.errstate(all="ignore"):
        log_ratio = np.subtract(*_columns(log_probs, deployed_log_probs))
        return float(np.mean(np.expm1(log_ratio) - log_ratio))


def weighted(weights: npt.ArrayLike, advantages: npt.ArrayLike, groups: npt.ArrayLike) -> Estimate:
    """Return mean[w·Â] and its standard error from the spread between groups of rows.

    With m = mean[w·Â], r = (w - mean w)·Â - m - ½m(Â² - 1) and the sums R_g of r over G groups of n rows in all, the
    error is √(G/(G-1)·ΣR_g²)/n: that of a mean of group means, right also for groups of unequal size. Centring w and
    the last term of r take into account that the mean and deviation of the advantages were estimated (delta method).
    """
    w, normal = _columns(weights, normalize(advantages))
    index, count = _grouped(groups, len(w))
    if count < 2 or not np.isfinite(w).all() or not normal.any():
        return UNKNOWN
    products = (w - w.mean()) * normal
    value = float(products.mean())
    residuals = products - value - 0.5 * value * (normal**2 - 1)
    error = _error(residuals, index, count)
    return Estimate(value, error, count - 1) if math.isfinite(value) and math.isfinite(error) else UNKNOWN


def _columns(*columns: Any) -> list[Floats]:
    """Return columns as flat arrays of floats; refuse columns of unequal length."""
    flat = [np.asarray(column, np.float64).ravel() for column in columns]
    lengths = [len(column) for column in flat]
    if len(set(lengths)) > 1:
        raise ValueError(f"the columns have {', '.join(map(str, lengths))} rows; give one value per row to each")
    return flat


def _grouped(groups: npt.ArrayLike, rows: int) -> tuple[Groups, int]:
    """Return the number of each row's group and how many groups there are; refuse other than one per row."""
    names, index = np.unique(np.asarray(groups).ravel(), return_inverse=True)
    if len(index) != rows:
        raise ValueError(f"got {len(index)} groups for {rows} rows; give the group of each row")
    return index, len(names)


def _error(residuals: Floats, index: Groups, count: int) -> float:
    """Return the standard error of a mean over rows from the sums of its residuals by group."""
    sums = np.bincount(index, residuals, count)
    return math.sqrt(count / (count - 1) * float(sums @ sums)) / len(residuals)
