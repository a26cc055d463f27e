"""Schedulers: bandits that choose the number of update epochs, or any other setting, before every update.

A new scheduler is one new file and one line in `SCHEDULERS`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

from adept.names import check_reference, unknown_name
from adept.schedulers.base import Scheduler
from adept.schedulers.fixed import Fixed
from adept.schedulers.round_robin import RoundRobin
from adept.schedulers.standardized import StandardizedThompson, StandardizedUCB
from adept.schedulers.thompson import GaussianThompson
from adept.schedulers.ucb import UCB
from adept.schedulers.validation import Arm, epoch_arms

SCHEDULERS: dict[str, type[Scheduler[Any]]] = {
    "ucb": UCB,
    "thompson": GaussianThompson,
    "round-robin": RoundRobin,
    "fixed": Fixed,
    "standardized-ucb": StandardizedUCB,
    "standardized-thompson": StandardizedThompson,
}
ARMS_ALONE = "standardized-ucb"
"""What a list of arms without a name stands for: returns of any size, so the rule that no unit of reward changes."""

__all__ = [
    "SCHEDULERS",
    "UCB",
    "Fixed",
    "GaussianThompson",
    "RoundRobin",
    "Scheduler",
    "StandardizedThompson",
    "StandardizedUCB",
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
        if option == "scale" and option not in allowed:
            raise ValueError(
                f"scheduler {name!r} has no scale, got {options[option]!r}; rewards are standardised by the schedulers "
                "'standardized-ucb' and 'standardized-thompson', and by no other"
            )
        if option not in allowed:
            raise unknown_name(f"option of scheduler {name!r}:", option, allowed)
    return cls.from_arms(arms, seed=seed, **options)


def scheduler_class(name: str) -> type[Scheduler[Any]]:
    """Return the class of a scheduler by its name in `SCHEDULERS` or by `"package.module:Class"`."""
    if not isinstance(name, str):
        raise ValueError(f"a scheduler's name must be text, got {name!r}; for example 'ucb'")
    if name in SCHEDULERS:
        return SCHEDULERS[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise unknown_name("scheduler", name, SCHEDULERS)
    check_reference("scheduler", name)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"cannot load scheduler {name!r}, {error}; give 'package.module:Class', importable from here"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Scheduler)) or inspect.isabstract(found):
        raise ValueError(
            f"scheduler {name!r} must be a complete subclass of adept.Scheduler, got {found!r}; "
            "derive the class from it and implement `_choose` and `_credit`"
        )
    return found


def scheduler_options(cls: type[Scheduler[Any]]) -> list[str]:
    """Return the names of a scheduler's own knobs: its constructor's named parameters but arms and seed."""
    parameters = list(inspect.signature(cls).parameters.values())
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in parameters[1:] if each.kind in named and each.name != "seed"]
