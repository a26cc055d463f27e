"""The figure of a study with an axis: one curve per method over its values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adept.report.axis import lines, points
from adept.report.figures import WIDTH, Drawing, Pen, legend, new_figure
from adept.report.plots.scores import INTERVAL, SMOOTHING


def score_over_axis(pen: Pen) -> Iterator[Drawing]:
    """Draw every method's score over the values of the study's axis."""
    comparison = pen.analysis.comparison
    found = points(pen.analysis)
    if not found:
        return
    tuned = comparison.method(comparison.baseline).axis
    figure, [[axes]] = new_figure(1, 1, WIDTH * 1.15, 3.8)
    names = {}
    for line, own in lines(found).items():
        names[line] = next(point.method for point in own if tuned is not None and point.value == tuned[1])
        bounds = np.array([[point.score.value, point.score.low, point.score.high] for point in own]).T
        look = pen.looks[names[line]]
        axes.fill_between(range(len(own)), bounds[1], bounds[2], color=look.light, alpha=0.13, linewidth=0)
        axes.plot(range(len(own)), bounds[0], color=look.light, linewidth=2.2, marker=look.marker, label=line)
        axes.set_xticks(range(len(own)), [point.value for point in own])
    one = len(comparison.common_tasks) == 1
    axes.set_ylabel(pen.analysis.criterion if one else f"IQM, {pen.analysis.quantity}")
    legend(figure, axes)
    caption = (
        f"{pen.analysis.criterion.capitalize()} over the values of the study's axis, a curve per method: "
        f"{'mean return over seeds' if one else f'IQM over tasks and seeds, {pen.analysis.unit()}'}; bands are "
        f"{INTERVAL}. {pen.count(comparison.common_tasks)} {SMOOTHING}"
    )
    rows = [{"method": point.line, "value": point.value, "score": point.score, "p": point.p} for point in found]
    yield Drawing("score-over-axis", "Score over the study's axis", caption, figure, rows, "axis_figure")


DRAWINGS = (score_over_axis,)
