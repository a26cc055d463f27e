"""Schedulers: bandits that choose the number of update epochs, or any other setting, before every update.

A new scheduler is one new file and one line in `SCHEDULERS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from adept.names import unknown_name
from adept.schedulers.base import Arm, Scheduler, epoch_arms
from adept.schedulers.fixed import Fixed
from adept.schedulers.round_robin import RoundRobin
from adept.schedulers.thompson import GaussianThompson
from adept.schedulers.ucb import UCB

SCHEDULERS: dict[str, type[Scheduler[Any]]] = {
    "ucb": UCB,
    "thompson": GaussianThompson,
    "round-robin": RoundRobin,
    "fixed": Fixed,
}

__all__ = [
    "SCHEDULERS",
    "UCB",
    "Fixed",
    "GaussianThompson",
    "RoundRobin",
    "Scheduler",
    "epoch_arms",
    "make_scheduler",
    "scheduler_class",
    "scheduler_options",
]


def make_scheduler(name: str, arms: Sequence[Arm], *, seed: int = 0, **options: Any) -> Scheduler[Arm]:
    """Build a scheduler by its name in `SCHEDULERS` or by `"package.module:Class"`."""
    cls = scheduler_class(name)
    allowed = scheduler_options(cls)
    for option in options:
        if option not in allowed:
            raise ValueError(
                f"unknown option {option!r} of scheduler {name!r}, expected one of: {', '.join(allowed) or 'none'}"
            )
    return cls.from_arms(arms, seed=seed, **options)


def scheduler_class(name: str) -> type[Scheduler[Any]]:
    """Return the class of a scheduler by its name in `SCHEDULERS` or by `"package.module:Class"`."""
    if name in SCHEDULERS:
        return SCHEDULERS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise unknown_name("scheduler", name, SCHEDULERS)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"cannot load scheduler {name!r}: {error}; expected 'package.module:Class'") from error
    if not (isinstance(found, type) and issubclass(found, Scheduler)):
        raise ValueError(f"scheduler {name!r} is not a subclass of adept.Scheduler, but {found!r}")
    return found


def scheduler_options(cls: type[Scheduler[Any]]) -> list[str]:
    """Return the names of a scheduler's own knobs: its constructor's parameters but arms and seed."""
    import inspect  # here, so that `import adept` stays as quick as NumPy

    parameters = list(inspect.signature(cls).parameters)
    return [name for name in parameters[1:] if name != "seed"]
