"""Hindsight: what the last update was worth, judged by the rollout that came after it.

Estimates and verdicts need NumPy alone; `judge` and `loop` work on PyTorch modules.
"""

from __future__ import annotations

from adept.hindsight.estimates import Estimate, gain, normalize, slope, time_groups
from adept.hindsight.verdict import Verdict

__all__ = ["Estimate", "Verdict", "gain", "normalize", "slope", "time_groups"]
