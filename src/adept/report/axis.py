"""Studies with an axis: methods are compared where its value is the same, for example from the same learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    p: float
    """that the two do not differ, corrected for all points (Holm); NaN for the baseline's method itself"""

    @property
    def state(self) -> str:
        """Against the baseline's method: higher, lower or open."""
        if not self.p < LEVEL:
            return "open"
        return "higher" if self.score.value > self.rival else "lower"


def points(analysis: Analysis) -> dict[str, list[Point]]:
    """Return each method's points by its label, in the study's order; none without an axis, or while results lack."""
    comparison = analysis.comparison
    places = {method.axis: method.name for method in comparison.methods if method.axis is not None}
    base = comparison.method(comparison.baseline).axis
    if base is None or not len(places) == len(comparison.methods) == len(analysis.scored):
        return {}
    scores, tasks = {name: analysis.methods[name].iqm for name in analysis.scored}, comparison.common_tasks
    if len(tasks) == 1 and comparison.criterion != "steps-to-threshold":
        cells = {name: analysis.tasks[name, tasks[0]] for name in analysis.scored}
        whole = comparison.criterion == "mean-score"
        scores = {name: cell.area if whole else cell.score for name, cell in cells.items()}
    rivals = {name: places[base[0], value] for (_, value), name in places.items()}
    tested = [name for name, rival in rivals.items() if name != rival]
    p_values = holm([analysis.p_value(name, rivals[name], two_sided=True) for name in tested])
    corrected, found = dict(zip(tested, p_values, strict=True)), dict[str, list[Point]]()
    for (line, value), name in places.items():
        point = Point(name, line, value, scores[name], scores[rivals[name]].value, corrected.get(name, math.nan))
        found.setdefault(line, []).append(point)
    return found


def sentences(analysis: Analysis) -> list[str]:
    """Say each method's range over the axis, at how many values it is above and below the baseline's, then where."""
    by_line = points(analysis)
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
