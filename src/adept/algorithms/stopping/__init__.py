"""Stopping rules: objects asked after each epoch whether the update ends there.

A new rule is one new file and one line in `STOPPING`. The table needs no PyTorch: the configuration checks names and
numbers with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from adept.algorithms.stopping.base import StoppingRule
from adept.algorithms.stopping.held_out import HeldOut, held_out_rows
from adept.algorithms.stopping.ratio_deviation import RatioDeviation
from adept.algorithms.stopping.target_kl import TargetKL
from adept.names import unknown_name

__all__ = ["STOPPING", "HeldOut", "RatioDeviation", "StoppingRule", "TargetKL", "held_out_rows", "make_rules"]

STOPPING: dict[str, type[StoppingRule]] = {
    "target-kl": TargetKL,
    "ratio-deviation": RatioDeviation,
    "held-out": HeldOut,
}


def make_rules(stopping: Mapping[str, float]) -> list[StoppingRule]:
    """Build rules from their names and numbers."""
    rules = []
    for name, limit in stopping.items():
        if name not in STOPPING:
            raise unknown_name("stopping rule", name, STOPPING)
        try:
            rules.append(STOPPING[name](limit))
        except (TypeError, ValueError) as error:
            raise ValueError(f"stopping rule {name!r}: {error}; for example --stopping target-kl 0.02") from None
    return rules
