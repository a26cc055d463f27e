"""Studies with an axis: methods are compared where its value is the same, for example from the same learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from adept.report.analysis import Analysis
from adept.report.power import LEVEL
from adept.report.statistics import Estimate, holm
from adept.report.text import counted, listing, number

WORDS = {"higher": "above", "lower": "below", "open": "not shown to differ"}


@dataclass(frozen=True)
class Point:
    """A method at one value of the axis, beside the baseline's method at the same value."""

    method: str
    line: str
    """label of the method without the value"""
    value: str
    """label of the value"""
    score: Estimate
    """by the criterion: of a single task the mean return, of several the IQM of normalised scores"""
    rival: float
    """that of the baseline's method"""
    p: float = math.nan
    """that the two do not differ, corrected for all points (Holm); NaN for the baseline's method itself"""

    @property
    def state(self) -> str:
        """Against the baseline's method: higher, lower or open."""
        if not self.p < LEVEL:
            return "open"
        return "higher" if self.score.value > self.rival else "lower"


def points(analysis: Analysis) -> list[Point]:
    """Return every method at every value, in the study's order; nothing without an axis, or while results lack."""
    comparison = analysis.comparison
    places = {method.axis: method.name for method in comparison.methods if method.axis is not None}
    base = comparison.method(comparison.baseline).axis
    if base is None or not len(places) == len(comparison.methods) == len(analysis.scored):
        return []
    found, p_values = [], []
    for (line, value), name in places.items():
        rival = places[base[0], value]
        found.append(Point(name, line, value, _score(analysis, name), _score(analysis, rival).value))
        if name != rival:
            p_values.append(analysis.p_value(name, rival, two_sided=True))
    corrected = iter(holm(p_values))
    return [replace(point, p=next(corrected)) if point.line != base[0] else point for point in found]


def _score(analysis: Analysis, name: str) -> Estimate:
    tasks, criterion = analysis.comparison.common_tasks, analysis.comparison.criterion
    if len(tasks) > 1 or criterion == "steps-to-threshold":
        return analysis.methods[name].iqm
    return analysis.tasks[name, tasks[0]].area if criterion == "mean-score" else analysis.tasks[name, tasks[0]].score


def lines(found: Sequence[Point]) -> dict[str, list[Point]]:
    """Return the points of each method by its label."""
    by_line: dict[str, list[Point]] = {}
    for point in found:
        by_line.setdefault(point.line, []).append(point)
    return by_line


def sentences(analysis: Analysis) -> list[str]:
    """Say each method's range over the axis, at how many values it is above and below the baseline's, then where."""
    by_line = lines(points(analysis))
    base = next((line for line, own in by_line.items() if math.isnan(own[0].p)), "")
    counts, details = [], []
    for line, own in by_line.items():
        if line == base:
            continue
        states = [point.state for point in own]
        above, below = states.count("higher"), states.count("lower")
        counts.append(f"{line} is above {base} at {above} of {counted(len(own), 'value')} and below at {below}")
        parts = []
        for state, words in WORDS.items():
            here = [f"{point.value} ({number(point.score.value)} against {number(point.rival)})"
                    for point in own if point.state == state]  # fmt: skip
            parts += [f"{words} at {listing(here)}"] if here else []
        details.append(f"{line} against {base}, {analysis.criterion}: {'; '.join(parts)}.")
    if not counts:
        return []
    ends = {line: [pick(point.score.value for point in own) for pick in (min, max)] for line, own in by_line.items()}
    ranges = listing([f"{line} from {number(low)} to {number(high)}" for line, (low, high) in ends.items()])
    values = counted(len(by_line[base]), "value")
    return [f"Over {values}, {analysis.criterion}: {ranges}.", f"{'; '.join(counts)}.", *details]
