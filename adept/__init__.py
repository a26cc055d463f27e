"""ADEPT: adaptive data exploitation for deep reinforcement learning.

A bandit chooses the number of update epochs before every update, from the return the last choice led to.
"""

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

__version__ = "0.1.0"

__all__ = [
    "SCHEDULERS",
    "UCB",
    "Fixed",
    "GaussianThompson",
    "RoundRobin",
    "Scheduler",
    "epoch_arms",
    "make_scheduler",
]
