"""ADEPT: adaptive data exploitation for deep reinforcement learning.

Schedulers are bandits that choose the number of update epochs from the return that the last choice led to. Hindsight
measures how good the last update was, and rules set learning rate and epochs by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adept.rules import RULES, Feedback, Rule, Settings, make_rule
from adept.schedulers import (
    SCHEDULERS,
    UCB,
    Fixed,
    GaussianThompson,
    RoundRobin,
    Scheduler,
    StandardizedThompson,
    StandardizedUCB,
    epoch_arms,
    make_scheduler,
)

__version__ = "1.0.0"

__all__ = [
    "RULES",
    "SCHEDULERS",
    "UCB",
    "Feedback",
    "Fixed",
    "GaussianThompson",
    "Hindsight",
    "RoundRobin",
    "Rule",
    "Scheduler",
    "Settings",
    "StandardizedThompson",
    "StandardizedUCB",
    "epoch_arms",
    "make_rule",
    "make_scheduler",
    "train",
]

if TYPE_CHECKING:
    from adept.loop import Hindsight
    from adept.training import train


def __getattr__(name: str) -> Any:
    """Load what needs PyTorch only when it is asked for."""
    rooms = {"train": "adept.training", "Hindsight": "adept.loop"}
    if name not in rooms:
        raise AttributeError(f"module 'adept' has no attribute {name!r}")
    from adept.extras import require

    require("torch", "train")
    return getattr(require(rooms[name], "train"), name)
