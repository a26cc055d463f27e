"""Checks of user input: each returns the value in the form that is kept, or raises an error with the allowed values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

Arm = TypeVar("Arm", bound=Hashable)

LARGEST_NUMBER = 1e100
"""Rewards and coefficients beyond this are refused: their squares and sums would no longer be finite."""


def epoch_arms(arms: Sequence[int]) -> tuple[int, ...]:
    """Check that arms are numbers of update epochs: distinct whole numbers ≥ 1."""
    return tuple(whole_number("a number of epochs", arm, at_least=1, example=3) for arm in distinct_arms(arms))


def distinct_arms(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Check that arms are one or more distinct hashable values, in an order."""
    try:
        # A set has no order, and the order decides ties; a text is a list of letters by accident.
        listed = () if isinstance(arms, str | bytes | set | frozenset | Mapping) else tuple(arms)
        distinct = len(set(listed)) == len(listed) > 0
    except TypeError:
        distinct = False
    if not distinct:
        raise ValueError(
            f"arms must be a list of one or more distinct hashable values, got {arms!r}; for example [3, 2, 1]"
        )
    return listed


def finite_reward(reward: Any) -> float:
    """Check that a reward is a finite number; anything that `float` takes will do, text aside."""
    try:
        value = math.nan if isinstance(reward, str | bytes | bytearray) else float(reward)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: torch, of more than one element
        value = math.nan
    if not abs(value) <= LARGEST_NUMBER:
        raise ValueError(
            f"a reward must be a finite number of at most {LARGEST_NUMBER:g} in size, got {reward!r}; "
            "pass None to `step` where there is nothing to credit"
        )
    return value


def whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None, example: int) -> int:
    """Check that a value is a whole number within bounds."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < at_least or (at_most is not None and value > at_most):
        bounds = f"≥ {at_least}" + ("" if at_most is None else f" and ≤ {at_most}")
        raise ValueError(f"{name} must be a whole number {bounds}, got {value!r}; for example {example}")
    return int(value)


def real_number(
    name: str,
    value: Any,
    *,
    above: float = -math.inf,
    at_least: float = -LARGEST_NUMBER,
    at_most: float = LARGEST_NUMBER,
    example: float,
) -> float:
    """Check that a value is a number within bounds; by default any that leaves the arithmetic finite."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (real and above < value and at_least <= value <= at_most):
        low = f"> {above:g}" if above >= at_least else f"≥ {at_least:g}"
        raise ValueError(f"{name} must be a number {low} and ≤ {at_most:g}, got {value!r}; for example {example:g}")
    return float(value)
