"""How the parts of a scheduler's state are written as JSON-safe values, and read again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np


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


def restored_generator(saved: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator that continues from a saved state."""
    rng = np.random.default_rng(0)
    rng.bit_generator.state = {
        "bit_generator": saved["name"],
        "state": {"state": int(saved["state"]), "inc": int(saved["inc"])},
        "has_uint32": saved["has_uint32"],
        "uinteger": saved["uinteger"],
    }
    return rng
