"""A scheduler's saved state: how its parts are written as JSON-safe values, and checked when they come back.

Every check raises a `ValueError` that says what is wrong; `Scheduler.load_state_dict` adds what to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from adept.schedulers.validation import LARGEST_NUMBER, real_number, whole_number

LARGEST_COUNT = 2**53
"""Up to here a float, and so every JSON reader, holds each whole number."""


def mapping(name: str, saved: Any, keys: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that a part of a state is a mapping with exactly these keys."""
    if not isinstance(saved, Mapping):
        raise ValueError(f"{name} must be a mapping, got {saved!r}")
    if saved.keys() != keys.keys():
        raise ValueError(f"{name} must have the keys {', '.join(keys)}, got {', '.join(map(str, saved)) or 'none'}")
    return saved


def counts(saved: Any, length: int, *, at_least: int = 0) -> list[int]:
    """Check a saved list of counters, one per arm."""
    return [
        whole_number("a counter", value, at_least=at_least, at_most=LARGEST_COUNT, example=at_least)
        for value in listed(saved, length)
    ]


def numbers(
    saved: Any, length: int, *, at_least: float = -LARGEST_NUMBER, at_most: float = LARGEST_NUMBER
) -> list[float]:
    """Check a saved list of numbers, one per arm; by default any that a reward may be."""
    return [
        real_number("a number", value, at_least=at_least, at_most=at_most, example=at_most)
        for value in listed(saved, length)
    ]


def listed(saved: Any, length: int) -> list[Any]:
    """Check a saved list of so many values, whatever they are."""
    if not isinstance(saved, list) or len(saved) != length:
        raise ValueError(f"expected a list of {length} values, got {saved!r}")
    return saved


def label(arm: object) -> str:
    """Name an arm the same way in every process, so that a state can be checked against its scheduler."""
    if isinstance(arm, np.generic):
        arm = arm.item()
    if isinstance(arm, frozenset):  # its own repr follows the hash seed of the process
        return f"frozenset({{{', '.join(sorted(map(label, arm)))}}})"
    if type(arm) is tuple:
        return f"({', '.join(map(label, arm))})"
    name = getattr(arm, "__qualname__", None)  # functions and classes
    if name is not None:
        return f"{getattr(arm, '__module__', '')}.{name}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(arm))


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the generator's state with its 128-bit integers as text, which every JSON reader keeps whole."""
    state = rng.bit_generator.state
    return {
        "name": state["bit_generator"],
        "state": str(state["state"]["state"]),
        "inc": str(state["state"]["inc"]),
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def restored_generator(saved: Any) -> np.random.Generator:
    """Return a generator that continues from a saved state."""
    rng = np.random.default_rng(0)
    saved = mapping("the generator", saved, generator_state(rng))
    if saved["name"] != "PCG64":
        raise ValueError(f"the generator must be 'PCG64', got {saved['name']!r}")
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": _wide("state", saved["state"]), "inc": _wide("inc", saved["inc"])},
        "has_uint32": whole_number("the generator's has_uint32", saved["has_uint32"], at_least=0, at_most=1, example=0),
        "uinteger": whole_number(
            "the generator's uinteger", saved["uinteger"], at_least=0, at_most=2**32 - 1, example=0
        ),
    }
    return rng


def _wide(name: str, saved: Any) -> int:
    """Read an unsigned 128-bit integer, which is saved as text."""
    if not (isinstance(saved, str) and saved.isascii() and saved.isdecimal() and len(saved) <= 39):
        raise ValueError(f"the generator's {name} must be text of up to 39 digits, got {saved!r}")
    return whole_number(f"the generator's {name}", int(saved), at_least=0, at_most=2**128 - 1, example=1)
