"""What the next rollout says of the last update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from adept.controllers.base import Evidence
from adept.hindsight.estimates import NOTHING, Estimate

LENGTHS = (0.5, 1.5, 2.0)
"""Lengths of the step that are judged beside the one taken."""


@dataclass(frozen=True)
class Verdict:
    """What the last update was worth. Gains are over θ₀, the parameters before it, so that all of them compare.

    Units: standard deviations of the advantage (gains), the same per length of the update (slope).
    """

    slope: Estimate = NOTHING
    """derivative of J along the update at its end; positive: it stopped short, negative: it overshot"""
    update_gain: Estimate = NOTHING
    """gain of the deployed parameters over θ₀"""
    by_epoch: Mapping[int, Estimate] = field(default_factory=dict)
    """gain of the parameters after k epochs over θ₀"""
    by_length: Mapping[float, Estimate] = field(default_factory=dict)
    """gain of θ₀ + α(θ_d - θ₀) over θ₀"""
    rows: int = 0
    """rows that were judged"""
    kl: float = math.nan
    """KL(π_d ‖ π₀) on these rows; to second order where only the slope was measured"""
    critic: Estimate = NOTHING
    """how much further the critic's part of the update should have gone, as a share of it; positive: the critic lags"""

    @property
    def moved(self) -> bool:
        """Whether the update changed the policy at all on these rows; one that did not says nothing."""
        return self.kl != 0

    def columns(self) -> dict[str, float]:
        """Return the verdict as columns of a record; NaN where nothing is known."""
        return {
            "slope": self.slope.value,
            "slope_z": self.slope.z if self.slope.known else math.nan,
            "critic_slope": self.critic.value,
            "critic_slope_z": self.critic.z if self.critic.known else math.nan,
            "update_gain": self.update_gain.value,
            **{f"gain/{epoch}": estimate.value for epoch, estimate in self.by_epoch.items()},
            **{f"gain/x{length:g}": estimate.value for length, estimate in self.by_length.items()},
        }

    def evidence(
        self,
        *,
        kl: float | None = None,
        clip_fraction: float | None = None,
        epochs_done: int | None = None,
        stopped: bool = False,
    ) -> Evidence:
        """Return what a controller takes; without a KL of the update itself, the one seen from this rollout."""
        seen = None if math.isnan(self.kl) else self.kl
        return Evidence(
            slope_z=self.slope.z if self.slope.known else None,
            critic_slope=self.critic.value if self.critic.known else None,
            critic_slope_z=self.critic.z if self.critic.known else None,
            gain=self.update_gain.value if self.update_gain.known else None,
            gain_error=self.update_gain.error if self.update_gain.known else None,
            kl=seen if kl is None else kl,
            clip_fraction=clip_fraction,
            epochs_done=epochs_done,
            stopped=stopped,
            gains={epoch: (each.value, each.error) for epoch, each in self.by_epoch.items() if each.known},
        )
