"""What the page's charts draw, as one JSON value: thinned, rounded, and safe inside a script element."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.report.analysis import Analysis, has_test_scores
from adept.report.comparison import Comparison
from adept.report.curves import Curve, aggregate_curve, arms_of, choice_shares, task_curve
from adept.report.drawings.aggregates import profile_thresholds
from adept.report.statistics import METRICS, Estimate, performance_profile
from adept.report.style import arm_colours, looks
from adept.report.summary import unit

ALL = ""
"""The key of what is over all tasks."""


def payload(analysis: Analysis) -> dict[str, Any]:
    """Collect everything that the page's charts and tabs show."""
    comparison = analysis.comparison
    adaptive = [method for method in comparison.methods if method.adaptive]
    everywhere = tuple(sorted({arm for method in adaptive for arm in arms_of(method)}))
    appearance = looks(comparison)
    return {
        "methods": [
            {"label": method.label, "dash": list(appearance[method.name].dash), "width": appearance[method.name].width}
            for method in comparison.methods
        ],
        "baseline": _index(comparison)[comparison.baseline],
        "tasks": [{"id": ALL, "label": "All tasks"}]
        + [{"id": task, "label": comparison.short[task]} for task in comparison.tasks],
        "unit": unit(analysis),
        "curves": _curves(analysis),
        "choices": _choices(analysis),
        "arms": {str(arm): colour for arm, colour in arm_colours(everywhere, everywhere).items()} if everywhere else {},
        "cells": _cells(analysis),
        "aggregates": _aggregates(analysis),
        "scatter": _scatter(analysis),
        "profile": _profile(analysis),
    }


def to_json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in, nor be read as a comment or a line break."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def numbers(values: npt.ArrayLike) -> list[float | int | None]:
    """Round to four significant digits; what is not a number becomes null."""
    return [short(value) for value in np.asarray(values, np.float64).tolist()]


def short(value: float) -> float | int | None:
    """Round one number to four significant digits, without a trailing .0."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded == int(rounded) else rounded


def triple(estimate: Estimate | None) -> list[float | int | None] | None:
    """Return value, low and high."""
    return None if estimate is None else numbers([estimate.value, estimate.low, estimate.high])


def _index(comparison: Comparison) -> dict[str, int]:
    return {method.name: index for index, method in enumerate(comparison.methods)}


def _line(index: int, curve: Curve) -> dict[str, Any]:
    line: dict[str, Any] = {"m": index, "y": numbers(curve.mean), "n": f"{curve.done}/{curve.planned}"}
    for key, values in (("lo", curve.low), ("hi", curve.high), ("f", curve.flops), ("s", curve.seconds)):
        if np.isfinite(values).any():
            line[key] = numbers(values)
    return line


def _curves(analysis: Analysis) -> dict[str, Any]:
    comparison, index = analysis.comparison, _index(analysis.comparison)
    found: dict[str, Any] = {}
    over_all = {name: curve for name in index if (curve := aggregate_curve(analysis, name))}
    if over_all:
        found[ALL] = {"x": numbers(next(iter(over_all.values())).steps), "label": f"score, {unit(analysis)}",
                      "lines": [_line(index[name], curve) for name, curve in over_all.items()]}  # fmt: skip
    for task in comparison.tasks:
        axis = comparison.axis[task]
        lines = []
        for name in index:
            curve = task_curve(comparison, name, task)
            finished = {run.seed for run in comparison.finished(name, task)}
            line: dict[str, Any] = _line(index[name], curve) if curve else {"m": index[name], "y": []}
            line["seeds"] = [numbers(run.at(axis)) for run in comparison.finished(name, task)]
            line["open"] = [numbers(run.at(axis)) for run in comparison.planned(name, task)
                            if run.seed not in finished and len(run.steps)]  # fmt: skip
            if curve or line["open"]:
                lines.append(line)
        found[task] = {"x": numbers(axis), "label": "mean return of the last 100 episodes", "lines": lines}
    return found


def _choices(analysis: Analysis) -> dict[str, Any]:
    comparison, index = analysis.comparison, _index(analysis.comparison)

    def over(tasks: tuple[str, ...]) -> list[dict[str, Any]]:
        tables = []
        for method in comparison.methods:
            if method.adaptive and tasks and (found := choice_shares(comparison, method, tasks)):
                shares = [[round(100 * value) for value in row] for row in found[1][:, ::2].tolist()]
                tables.append({"m": index[method.name], "arms": list(arms_of(method)), "shares": shares})
        return tables

    return {ALL: over(comparison.common_tasks), **{task: over((task,)) for task in comparison.tasks}}


def _cells(analysis: Analysis) -> dict[str, Any]:
    comparison = analysis.comparison
    found: dict[str, Any] = {}
    for task in comparison.tasks:
        base = analysis.tasks.get((comparison.baseline, task))
        rows = []
        for name, place in _index(comparison).items():
            if (cell := analysis.tasks.get((name, task))) is None:
                continue
            rows.append(
                {"m": place, "n": f"{cell.done}/{cell.planned}", "score": triple(cell.score), "test": triple(cell.test),
                 "compute": short(cell.flops / base.flops) if base else None, "seconds": short(cell.seconds),
                 "epochs": short(cell.epochs), "reached": f"{cell.reached}/{cell.done}",
                 "reach": short(cell.reach_steps)}
            )  # fmt: skip
        found[task] = rows
    return found


def _per_method(analysis: Analysis, kind: str, metric: str) -> list[Any]:
    results: Iterable[Any] = (analysis.methods[method.name] for method in analysis.comparison.methods)
    return [triple(table[metric]) if (table := getattr(result, kind)) else None for result in results]


def _aggregates(analysis: Analysis) -> dict[str, Any]:
    kinds = ["train", *(["test"] if has_test_scores(analysis.comparison) else [])]
    found: dict[str, Any] = {
        kind: {metric: _per_method(analysis, kind, metric) for metric in METRICS} for kind in kinds
    }
    found["improvement"] = [triple(analysis.methods[method.name].improvement) for method in analysis.comparison.methods]
    return found


def _scatter(analysis: Analysis) -> list[dict[str, Any]]:
    points = []
    for name, place in _index(analysis.comparison).items():
        result = analysis.methods[name]
        if result.train and math.isfinite(result.compute):
            front = analysis.pareto.index(name) if name in analysis.pareto else None
            points.append({"m": place, "x": short(result.compute), "y": triple(result.train["iqm"]), "front": front})
    return points


def _profile(analysis: Analysis) -> dict[str, Any] | None:
    index = _index(analysis.comparison)
    scores = {name: table for name in index if analysis.scale and (table := analysis.normalized(name))}
    if not scores:
        return None
    thresholds = profile_thresholds(list(scores.values()))
    lines = []
    for name, table in scores.items():
        value, low, high = performance_profile(table, thresholds, resamples=analysis.resamples)
        line: dict[str, Any] = {"m": index[name], "y": numbers(value)}
        if np.isfinite(low).any():
            line |= {"lo": numbers(low), "hi": numbers(high)}
        lines.append(line)
    return {"x": numbers(thresholds), "lines": lines}
