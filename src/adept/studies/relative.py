"""Values that a study states relative to the task's preset: "preset", "preset*3", "preset/2".

One setting then means the same on tasks whose presets differ: `arms = ["preset", "preset/2", 1]`,
`learning_rate = "preset*3"`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FORM = re.compile(r"preset(?:([*/])(\d+(?:\.\d+)?))?")
KEYS = ("epochs", "arms", "learning_rate")
"""Keys whose values may be relative."""


def resolve(values: Mapping[str, Any], epochs: int, learning_rate: float) -> dict[str, Any]:
    """Replace values that are relative to a preset with so many epochs and such a learning rate.

    Epochs are rounded to whole numbers ≥ 1; arms that coincide are one arm.
    """
    found = dict(values)
    if isinstance(wanted := values.get("epochs"), str):
        found["epochs"] = max(1, round(_value("epochs", wanted, epochs)))
    if isinstance(arms := values.get("arms"), list | tuple):
        numbers = [max(1, round(_value("arms", arm, epochs))) if isinstance(arm, str) else arm for arm in arms]
        found["arms"] = list(dict.fromkeys(numbers)) if any(isinstance(arm, str) for arm in arms) else numbers
    if isinstance(rate := values.get("learning_rate"), str):
        found["learning_rate"] = _value("learning_rate", rate, learning_rate)
    return found


def _value(key: str, text: str, standard: float) -> float:
    form = FORM.fullmatch(text)
    factor = float(form[2] or 1) if form else 0.0
    if form is None or not factor > 0:
        raise ValueError(
            f"{key} has {text!r}; a value relative to the preset is 'preset', 'preset*3' or 'preset/2', "
            "anything else is a number"
        )
    return standard / factor if form[1] == "/" else standard * factor
