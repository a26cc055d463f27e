"""The ratio-deviation stop of ESPO."""

from __future__ import annotations

from adept.algorithms.stopping.base import StoppingRule


class RatioDeviation(StoppingRule):
    """Stop after an epoch whose mean |ρ-1| passes the limit; ρ = π(a|s)/π_old(a|s).

    ESPO (Sun et al., 2022, "You May Not Need Ratio Clipping in PPO"), whose limit is 0.25. Deviation: ESPO drops the
    clipping; here the loss is that of the run.
    """

    metric = "ratio_deviation"
