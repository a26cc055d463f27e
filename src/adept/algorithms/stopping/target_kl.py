"""The target-KL stop."""

from __future__ import annotations

from adept.algorithms.stopping.base import StoppingRule


class TargetKL(StoppingRule):
    """Stop after an epoch whose mean KL estimate, mean (ρ-1) - ln ρ, passes the limit.

    As in Spinning Up (Achiam, 2018) and Stable-Baselines3, but asked after whole epochs.
    """

    metric = "approx_kl"
