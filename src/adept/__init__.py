"""ADEPT: adaptive data exploitation for deep reinforcement learning.

Schedulers are bandits that choose the number of update epochs from the return that the last choice led to. Hindsight
measures what the last update was worth, and controllers set learning rate and epochs by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adept.controllers import CONTROLLERS, Controller, make_controller
from adept.schedulers import (
    SCHEDULERS,
    UCB,
    Fixed,
    GaussianThompson,
    RoundRobin,
    Scheduler,
    as_scheduler,
    epoch_arms,
    make_scheduler,
)

__version__ = "0.2.0"

__all__ = [
    "CONTROLLERS",
    "SCHEDULERS",
    "UCB",
    "Controller",
    "Fixed",
    "GaussianThompson",
    "Hindsight",
    "RoundRobin",
    "Scheduler",
    "as_scheduler",
    "epoch_arms",
    "make_controller",
    "make_scheduler",
    "train",
]

if TYPE_CHECKING:
    from adept.hindsight.loop import Hindsight
    from adept.training import train


def __getattr__(name: str) -> Any:
    """Load what needs PyTorch only when it is asked for."""
    rooms = {"train": "adept.training", "Hindsight": "adept.hindsight.loop"}
    if name not in rooms:
        raise AttributeError(f"module 'adept' has no attribute {name!r}")
    from adept.extras import require

    require("torch", "train")
    return getattr(require(rooms[name], "train"), name)
