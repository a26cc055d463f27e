"""How scores become comparable over tasks: relative to the baseline's mean, or to how far it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from adept.report.comparison import Comparison
from adept.report.statistics import Array
from adept.report.text import listing

Normalization = Literal["auto", "ratio", "progress", "none"]

SMALL_BASELINE = 0.2
"""A baseline that scores less than this share of the best method makes ratios that swamp a mean."""
MARGIN = 0.05
"""What counts as no loss: 5 % of the baseline's score, or of the budget where steps decide."""


@dataclass(frozen=True)
class Scale:
    """Normalised score = (score - offset) / divisor, by task."""

    kind: str
    """ratio, progress, none, or budget (shares of the budget, which need no scale)"""
    offset: Mapping[str, float]
    divisor: Mapping[str, float]

    def __call__(self, task: str, scores: npt.ArrayLike) -> Array:
        """Normalise scores of a task."""
        return (np.asarray(scores, np.float64) - self.offset[task]) / self.divisor[task]

    def unit(self, baseline: str) -> str:
        """Name what normalised scores are measured in."""
        return {
            "ratio": f"relative to {baseline}",
            "progress": f"as a share of {baseline}'s improvement",
            "budget": "share of the budget",
        }.get(self.kind, "as mean return")


def make_scale(
    comparison: Comparison, normalization: Normalization = "auto", measure: str = "final-score"
) -> tuple[Scale | None, list[str]]:
    """Choose how a measure is normalised, and say what a reader must know about it.

    ratio: score / the baseline's mean, as in the paper; it needs means above 0. progress: (score - start) /
    (baseline - start), where start is what the baseline begins with (`Comparison.start`): the share of the baseline's
    improvement. auto takes the ratio where it can.
    """
    tasks, label = comparison.common_tasks, comparison.label(comparison.baseline)
    zero, one = dict.fromkeys(tasks, 0.0), dict.fromkeys(tasks, 1.0)
    if not tasks:
        return None, ["No task was planned for every method, so nothing is aggregated over tasks."]
    if measure == "steps-to-threshold" or normalization == "none":
        return Scale("budget" if measure == "steps-to-threshold" else "none", zero, one), []
    means = _means(comparison, measure)
    if missing := [task for task in tasks if task not in means]:
        return None, [f"{label} has no finished run on {', '.join(missing)}: scores cannot be normalised by it yet."]
    below = [task for task in tasks if not means[task] > 0]
    if below and normalization == "ratio":
        raise ValueError(
            f"scores cannot be divided by {label}, whose mean on {below[0]} is {means[below[0]]:.4g}; "
            "use the normalization progress, or another baseline"
        )
    if not below and normalization != "progress":
        return Scale("ratio", zero, means), _small_baselines(comparison, means, measure)
    start = {task: comparison.start(task) for task in tasks}
    if still := [task for task in tasks if not means[task] > start[task]]:
        text = f"{label} did not improve on {', '.join(still)} (from {start[still[0]]:.4g} to {means[still[0]]:.4g})"
        if len(tasks) == 1:
            return Scale("none", zero, one), [f"{text}: scores are plain returns."]
        return None, [
            f"{text}, so scores cannot be measured against its progress; aggregates are left out. Choose another "
            "baseline."
        ]
    because = f", since its mean on {below[0]} is not above 0" if below else ""
    text = f"Scores are shares of {label}'s improvement over its own start (1: as far as {label} came){because}."
    return Scale("progress", start, {task: means[task] - start[task] for task in tasks}), [text]


def _means(comparison: Comparison, measure: str) -> dict[str, float]:
    """Return the baseline's mean on every common task that it has scores on."""
    scores = {task: comparison.scores(comparison.baseline, task, measure) for task in comparison.common_tasks}
    return {task: float(values.mean()) for task, values in scores.items() if len(values)}


def without_progress(
    comparison: Comparison, normalization: Normalization, measures: Sequence[str]
) -> tuple[Comparison, list[str]]:
    """Leave out of aggregates the tasks on which the baseline did not improve, where its improvement is the unit.

    Where it improved on no task, all of them stay, and there is no scale.
    """
    found: dict[str, str] = {}
    for measure in measures if normalization in ("auto", "progress") else ():
        means = _means(comparison, measure)
        if measure == "steps-to-threshold" or (normalization == "auto" and all(mean > 0 for mean in means.values())):
            continue
        for task, mean in means.items():
            if not mean > (start := comparison.start(task)):
                found.setdefault(task, f"{comparison.short[task]} (from {start:.4g} to {mean:.4g})")
    if not 0 < len(found) < len(comparison.common_tasks):
        return comparison, []
    label = comparison.label(comparison.baseline)
    text = (
        f"{label} did not improve on {listing(list(found.values()))}, so scores there cannot be shares of its "
        "improvement: results over all tasks leave them out. Read their own tabs."
    )
    return replace(comparison, left_out=tuple(found)), [text]


def scale_of_test_levels(comparison: Comparison, scale: Scale | None) -> Scale | None:
    """Return the scale of test levels: the baseline's test scores take the place of its training scores.

    None where the baseline was not evaluated there on every task, or has no score to divide by.
    """
    means = _means(comparison, "test")
    if scale is None or not all(means.get(task, 0.0) > 0 for task in comparison.common_tasks):
        return None
    divisor = {task: mean - scale.offset[task] for task, mean in means.items()}
    return scale if scale.kind == "none" else Scale(scale.kind, scale.offset, divisor)


def _small_baselines(comparison: Comparison, means: Mapping[str, float], measure: str) -> list[str]:
    warnings = []
    for task, mean in means.items():
        others = [comparison.scores(method.name, task, measure) for method in comparison.methods]
        best = max((float(scores.mean()) for scores in others if len(scores)), default=mean)
        if mean < SMALL_BASELINE * best:
            warnings.append(
                f"{comparison.label(comparison.baseline)} scores only {mean:.3g} on {task}, where the best method has "
                f"{best:.3g}: ratios there are large and swamp the mean. Read the IQM and the table by task."
            )
    return warnings
