"""Adam-Rel: Adam's step count starts again with every rollout."""

from __future__ import annotations

from typing import ClassVar

from adept.rules.base import Rule


class AdamRel(Rule):
    """Set Adam's step count t to 0 before the first epoch of every update; keep its moments.

    Adam divides its moments m and v by 1 - β₁ᵗ and 1 - β₂ᵗ. With moments of earlier updates a step is therefore
    √(1 - β₂ᵗ)/(1 - β₁ᵗ) times m/√v: 0.32 at t = 1, 0.15 at t = 10, 0.31 at t = 100, 0.80 at t = 1000. Gradients that
    are suddenly larger than those of the last rollout make no oversized steps.

    Source: Ellis et al. 2024, "Adam on Local Time: Addressing Nonstationarity in RL with Relative Adam Timesteps".
    The epochs and the learning rate are the preset's.

    Args:
        epochs: epochs of every update.
        seed: not used.
    """

    resets_steps: ClassVar[bool] = True
