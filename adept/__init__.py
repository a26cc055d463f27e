"""ADEPT: adaptive data exploitation for deep reinforcement learning.

A bandit chooses the number of update epochs before every update, from the return the last choice led to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adept.schedulers import (
    SCHEDULERS,
    UCB,
    Fixed,
    GaussianThompson,
    RoundRobin,
    Scheduler,
    epoch_arms,
    make_scheduler,
)

__version__ = "0.2.0"

__all__ = [
    "SCHEDULERS",
    "UCB",
    "Fixed",
    "GaussianThompson",
    "RoundRobin",
    "Scheduler",
    "epoch_arms",
    "make_scheduler",
    "train",
]

if TYPE_CHECKING:
    from adept.training import train


def __getattr__(name: str) -> Any:
    """Load the trainer, and PyTorch with it, only when it is asked for."""
    if name != "train":
        raise AttributeError(f"module 'adept' has no attribute {name!r}")
    from adept.extras import require

    require("torch", "train")
    return require("adept.training", "train").train
