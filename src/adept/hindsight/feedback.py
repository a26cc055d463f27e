"""Feedback: what the next rollout says of the last update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from adept.hindsight.estimates import UNKNOWN, Estimate


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
    rows: int = 0
    """rows that the estimates are means over"""

    def __post_init__(self) -> None:
        for name in ("kl", "clip_fraction", "explained_variance"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value) and not (name == "kl" and value > 0):
                object.__setattr__(self, name, None)

    def columns(self) -> dict[str, float]:
        """Return the estimates as columns of a record; NaN where nothing is known."""
        return {
            "slope": self.slope.value,
            "slope_z": self.slope.z if self.slope.known else math.nan,
            "critic_slope": self.critic_slope.value,
            "critic_slope_z": self.critic_slope.z if self.critic_slope.known else math.nan,
            "update_gain": self.update_gain.value,
            "update_gain_error": self.update_gain.error,
            "update_kl": math.nan if self.kl is None else self.kl,
            **{f"gain/{epoch}": estimate.value for epoch, estimate in self.gain_by_epoch.items()},
            **{f"gain/x{length:g}": estimate.value for length, estimate in self.gain_by_length.items()},
        }
