"""Evaluation of an update: keep the parameters before it, and compare them on the rollout that comes after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.hindsight.estimates import UNKNOWN, Estimate, critic_slope, gain, kl, slope, step_kl
from adept.hindsight.weights import Weights

GAINS_EVERY = 5
"""Updates between two whose gains are measured, unless told otherwise."""
LENGTHS = (0.5, 1.5, 2.0)
"""Lengths of the step whose gain is estimated beside that of the one taken."""
EPSILON = 0.25
"""Share of the step by which the policies of the slope are before and beyond its end."""
LogProbs = Callable[[], Any]
"""Returns the log-probabilities of the rollout's actions under the present parameters, one per row."""


@dataclass(frozen=True)
class CriticRows:
    """The rows as the critic sees them, one value per row, in the units of what the critic learns from."""

    values: Callable[[], Any]
    """values of the rows under the parameters that are in place when it is called"""
    deployed: npt.ArrayLike
    """values under the parameters that collected the rows"""
    errors: npt.ArrayLike
    """returns less `deployed`: the advantages, if they are not normalised"""


@dataclass(frozen=True)
class Rows:
    """Rows of a rollout that evaluate the update before it: one value per row, in any order."""

    log_probs: LogProbs
    advantages: npt.ArrayLike
    groups: npt.ArrayLike
    """which rows depend on each other (`adept.hindsight.time_groups`)"""
    deployed: npt.ArrayLike | None = None
    """log-probabilities under the parameters that collected the rows, where the rollout has them: saves a pass"""
    explained_variance: float | None = None
    """of the rollout's returns by the critic (`explained_variance`), where there is one"""
    critic: CriticRows | None = None
    """the same rows for the critic, whose slope is then estimated as well"""

    def divergence(self) -> float:
        """Return the KL of the present policy from the one that collected the rows, which must be known."""
        assert self.deployed is not None
        return kl(as_numpy(self.deployed), as_numpy(self.log_probs()))


@dataclass(frozen=True)
class Feedback:
    """Measurements of the last update. Estimates that are not known are `UNKNOWN`, other numbers None.

    Gains are over θ₀, the parameters before the update, in standard deviations of the advantage; the slope is the same
    per length of the update. A number that is not finite counts as not known, except for an infinite KL.
    """

    slope: Estimate = UNKNOWN
    """derivative of J along the update at its end; positive: it stopped short, negative: it overshot"""
    critic_slope: Estimate = UNKNOWN
    """how much further the critic's part of the update should have gone, as a share of it; positive: the critic lags"""
    update_gain: Estimate = UNKNOWN
    """gain of the deployed parameters θ_d over θ₀"""
    gain_by_epoch: Mapping[int, Estimate] = field(default_factory=dict)
    """gain of the parameters after k epochs over θ₀"""
    gain_by_length: Mapping[float, Estimate] = field(default_factory=dict)
    """gain of θ₀ + α(θ_d - θ₀) over θ₀"""
    kl: float | None = None
    """KL of the last epoch where the loop measures it, else of the update on the next rollout, to second order"""
    clip_fraction: float | None = None
    """of the last epoch"""
    epochs_done: int | None = None
    stopped: bool = False
    """whether a rule of the loop's own, such as a KL target, ended the update early: a longer step would end sooner"""
    explained_variance: float | None = None
    """of the next rollout's returns by the critic; well below 0 where advantages are the critic's own errors"""
    reward: float | None = None
    """mean return of the next rollout, the reward of bandits"""
    lr_decay: float = 1.0
    """factor of the learning rate's schedule for the next update"""

    def __post_init__(self) -> None:
        for name in ("kl", "clip_fraction", "explained_variance"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value) and not (name == "kl" and value > 0):
                object.__setattr__(self, name, None)

    def columns(self) -> dict[str, float]:
        """Return the numbers as columns of a record; NaN where nothing is known."""
        return {
            "slope": self.slope.value,
            "slope_z": self.slope.z if self.slope.known else math.nan,
            "critic_slope": self.critic_slope.value,
            "critic_slope_z": self.critic_slope.z if self.critic_slope.known else math.nan,
            "update_gain": self.update_gain.value,
            "update_gain_error": self.update_gain.error,
            "update_kl": math.nan if self.kl is None else self.kl,
            "reward": math.nan if self.reward is None else self.reward,
            **{f"gain/{epoch}": estimate.value for epoch, estimate in self.gain_by_epoch.items()},
            **{f"gain/x{length:g}": estimate.value for length, estimate in self.gain_by_length.items()},
        }


class Evaluator:
    """Evaluate the last update on the rollout that came after it.

    `begin` before an update copies θ₀, `mark` after an epoch copies θ_k; `evaluate` on the next rollout, collected with
    the parameters present then, compares them. Cost: one forward pass of the policy over the rows for each set of
    parameters (two for the slope; θ₀ and the deployed ones for gains; one per epoch and length), and one of the critic.
    Without weights it evaluates nothing.
    """

    def __init__(self, weights: Weights | None = None, *, lengths: Sequence[float] = LENGTHS) -> None:
        self.weights, self._lengths = weights, lengths
        self.start: Any = None
        self.marked: dict[int, Any] = {}

    def clear(self) -> None:
        """Forget the last update."""
        self.start = None
        self.marked.clear()

    def begin(self) -> None:
        """Copy the parameters as those before an update."""
        self.clear()  # frees the memory before the copy
        if self.weights is not None:
            self.start = self.weights.copy()

    def mark(self, epoch: int) -> None:
        """Copy the parameters as those after `epoch` epochs of the update."""
        if self.weights is not None:
            self.marked[epoch] = self.weights.copy()

    def evaluate(self, rows: Rows, *, gains: bool = True, deployed: int | None = None) -> Feedback | None:
        """Return slopes and KL of the last update, and its gains if asked for; None where `begin` was not called.

        The KL is to second order, from the slope's passes, also where gains are measured: these change no other number.
        The parameters after the epoch `deployed` are the present ones.
        """
        start, weights = self.start, self.weights
        if start is None or weights is None:
            return None
        advantages, groups, critic = as_numpy(rows.advantages), rows.groups, rows.critic
        # In half precision a step is often of one digit: of its multiples only 0, 1 and 2 are certain to be there.
        coarse = getattr(weights, "coarse", False)
        epsilon, lengths = (1.0, (2.0,)) if coarse else (EPSILON, self._lengths)
        at, interpolate = weights.at, weights.interpolate

        def passed(place: AbstractContextManager[None], through: LogProbs = rows.log_probs) -> npt.NDArray[Any]:
            with place:
                return as_numpy(through())

        longer, shorter = passed(interpolate(start, 1 + epsilon)), passed(interpolate(start, 1 - epsilon))
        found: dict[str, Any] = {
            "slope": slope(longer, shorter, advantages, groups, epsilon), "kl": step_kl(longer, shorter, epsilon),
        }  # fmt: skip
        if gains:
            now = passed(weights.current()) if rows.deployed is None else as_numpy(rows.deployed)
            before = passed(at(start))

            def over_start(log_probs: npt.NDArray[Any]) -> Estimate:
                return gain(log_probs, now, advantages, groups, over=before)

            marked = {epoch: copied for epoch, copied in self.marked.items() if epoch != deployed}
            found["update_gain"] = over_start(now)
            found["gain_by_epoch"] = {epoch: over_start(passed(at(copied))) for epoch, copied in marked.items()}
            found["gain_by_length"] = {each: over_start(passed(interpolate(start, each))) for each in lengths}
            if deployed is not None:
                found["gain_by_epoch"][deployed] = found["update_gain"]
        if critic is not None:
            values = passed(at(start), critic.values)
            found["critic_slope"] = critic_slope(values, as_numpy(critic.deployed), as_numpy(critic.errors), groups)
        return Feedback(**found)


def as_numpy(values: Any) -> npt.NDArray[Any]:
    """Return a tensor or anything like an array as a NumPy array of float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()  # not every device has float64
    return np.asarray(values, np.float64)


def explained_variance(values: Any, returns: Any) -> float | None:
    """Return 1 - Var[R - V]/Var[R], how much of the returns the critic explains; None where returns are all equal."""
    predicted, returned = as_numpy(values).ravel(), as_numpy(returns).ravel()
    spread = float(returned.var())
    return 1.0 - float((returned - predicted).var()) / spread if spread > 0 else None
