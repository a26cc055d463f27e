"""What the page's curves draw, as one JSON value: thinned, rounded, and safe inside a script element."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.report.analysis import Analysis
from adept.report.curves import Curve, aggregate_curve, task_curve
from adept.report.style import looks

ALL = ""
"""The key of what is over all tasks."""


def payload(analysis: Analysis) -> dict[str, Any]:
    """Collect the methods, the tasks and the curves of each."""
    comparison, appearance = analysis.comparison, looks(analysis.comparison)
    methods = [
        {"name": method.name, "label": method.label, "dash": list(look.dash), "width": look.width,
         "family": "baseline" if method.name == comparison.baseline else method.family}
        for method, look in zip(comparison.methods, appearance.values(), strict=True)
    ]  # fmt: skip
    tasks = [{"id": ALL, "label": "All tasks"}, *({"id": task, "label": comparison.short[task]}
                                                  for task in comparison.tasks)]  # fmt: skip
    return {"methods": methods, "tasks": tasks, "curves": _curves(analysis)}


def _curves(analysis: Analysis) -> dict[str, Any]:
    comparison = analysis.comparison
    found: dict[str, Any] = {}
    over_all = [(index, curve) for index, method in enumerate(comparison.methods)
                if (curve := aggregate_curve(analysis, method.name))]  # fmt: skip
    if over_all:
        found[ALL] = {"x": numbers(over_all[0][1].steps), "label": f"score, {analysis.unit('final-score')}",
                      "lines": [_line(index, curve) for index, curve in over_all]}  # fmt: skip
    for task in comparison.tasks:
        axis, lines = comparison.axis[task], []
        for index, method in enumerate(comparison.methods):
            curve, finished = task_curve(comparison, method.name, task), comparison.finished(method.name, task)
            line: dict[str, Any] = _line(index, curve) if curve else {"m": index, "y": []}
            line["seeds"] = [numbers(run.at(axis)) for run in finished]
            line["open"] = [numbers(run.at(axis)) for run in comparison.planned(method.name, task)
                            if run not in finished and len(run.steps)]  # fmt: skip
            if curve or line["open"]:
                lines.append(line)
        found[task] = {"x": numbers(axis), "label": "mean return of the last 100 episodes", "lines": lines}
    return found


def _line(index: int, curve: Curve) -> dict[str, Any]:
    line: dict[str, Any] = {"m": index, "y": numbers(curve.mean), "n": f"{curve.done}/{curve.planned}"}
    for key, values in (("lo", curve.low), ("hi", curve.high), ("f", curve.flops)):
        if np.isfinite(values).any():
            line[key] = numbers(values)
    return line


def to_json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in, nor be read as a comment or a line break."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def numbers(values: npt.ArrayLike) -> list[float | int | None]:
    """Round to four significant digits, without a trailing .0; what is not a number becomes null."""
    found: list[float | int | None] = []
    for value in np.asarray(values, np.float64).tolist():
        rounded = float(f"{value:.4g}") if math.isfinite(value) else None
        found.append(int(rounded) if rounded is not None and rounded == int(rounded) else rounded)
    return found
