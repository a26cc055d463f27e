"""Schedulers: bandits that choose the number of update epochs, or any other setting, before every update.

A new scheduler is one new file and one line in `SCHEDULERS`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from adept.names import check_reference, unknown_name
from adept.schedulers.base import Scheduler
from adept.schedulers.fixed import Fixed
from adept.schedulers.round_robin import RoundRobin
from adept.schedulers.thompson import GaussianThompson
from adept.schedulers.ucb import UCB
from adept.schedulers.validation import Arm, epoch_arms

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
    "as_scheduler",
    "epoch_arms",
    "make_scheduler",
    "paper_scheduler",
    "scheduler_class",
    "scheduler_options",
]


def make_scheduler(name: str, arms: Sequence[Arm], *, seed: int = 0, **options: Any) -> Scheduler[Arm]:
    """Build a scheduler by its name in `SCHEDULERS` or by `"package.module:Class"`."""
    cls = scheduler_class(name)
    allowed = scheduler_options(cls)
    for option in options:
        if option not in allowed:
            raise unknown_name(f"option of scheduler {name!r}:", option, allowed)
    return cls.from_arms(arms, seed=seed, **options)


def paper_scheduler(name: str, arms: Sequence[Arm], *, seed: int = 0, **options: Any) -> Scheduler[Arm]:
    """Build a scheduler as `make_scheduler` does, except that a rule with a scale is the paper's unless told.

    For configurations and records: one that does not name a `scale` means `scale=None`.
    """
    if "scale" in scheduler_options(scheduler_class(name)):
        options = {"scale": None, **options}
    return make_scheduler(name, arms, seed=seed, **options)


def as_scheduler(given: Any, *, arms: Sequence[Any] | None = None, seed: int = 0) -> Scheduler[Any]:
    """Return the scheduler that a value stands for, so that a file or a command line can name one.

    Args:
        given: a scheduler, which is returned as it is; a name, `"ucb"`, for these `arms`; a list of arms,
            `[10, 5, 1]`, for UCB on them; or a mapping of `name`, `arms`, `seed` and the rule's own knobs,
            `{"name": "ucb", "arms": [10, 5, 1], "window": 20}`, where only what differs need be given.
        arms: for a value that names none.
        seed: for a value that names none.
    """
    if isinstance(given, Scheduler):
        return given
    if isinstance(given, str):
        given = {"name": given}
    elif isinstance(given, Sequence) and not isinstance(given, bytes):
        given = {"arms": given}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ValueError(
            f"a scheduler is a Scheduler, a name, a list of arms or a mapping of name, arms and knobs, got {given!r}; "
            "for example {'name': 'ucb', 'arms': [10, 5, 1]}"
        )
    values = {"name": "ucb", "seed": seed, **({} if arms is None else {"arms": arms}), **given}
    if "arms" not in values:
        raise ValueError(
            f"scheduler {given!r} names no arms, one or more are needed; for example "
            f"{{'name': {values['name']!r}, 'arms': [10, 5, 1]}}"
        )
    return make_scheduler(values.pop("name"), values.pop("arms"), seed=values.pop("seed"), **values)


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
