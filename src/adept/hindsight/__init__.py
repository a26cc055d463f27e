"""Hindsight: estimates of how good the last update was, on the rollout that came after it.

Estimates, feedback and advice need NumPy alone; `evaluation` works on PyTorch modules.
"""

from __future__ import annotations

from adept.hindsight.estimates import Estimate, gain, normalize, slope, time_groups
from adept.hindsight.evaluation import Feedback

__all__ = ["Estimate", "Feedback", "gain", "normalize", "slope", "time_groups"]
