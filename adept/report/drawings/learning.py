"""Learning curves over all tasks, and by task."""

from __future__ import annotations

import numpy as np

from adept.report.curves import Curve, aggregate_curve, task_curve
from adept.report.figures import (
    SMOOTHING,
    WIDTH,
    Drawing,
    Pen,
    direct_labels,
    legend,
    new_figure,
    panel_figure,
    step_axis,
)

BAND = "bands are pointwise 95 % bootstrap intervals of the mean over seeds"
POINT = "A point is the mean over runs at one step, drawn at the mean of what they had spent by then."
DIRECT = 8
"""With more methods than this a legend reads better than labels at the ends."""
ROW = ["step", "mean", "mean_low", "mean_high", "flops"]


def rows_of(curve: Curve, *front: object) -> list[list[object]]:
    """Return a curve as rows of a table."""
    columns = (curve.steps, curve.mean, curve.low, curve.high, curve.flops)
    return [[*front, *map(float, row)] for row in zip(*columns, strict=True)]


def aggregate_curves(pen: Pen) -> list[Drawing]:
    """Draw the normalised score over all tasks, by steps and by FLOPs."""
    curves = {name: curve for name in pen.names if (curve := aggregate_curve(pen.analysis, name))}
    if not curves:
        return []
    flops = [name for name, curve in curves.items() if np.isfinite(curve.flops).any()]
    figure, [axes] = new_figure(1, 2 if flops else 1, WIDTH * 1.15, 3.8, sharey=True)
    rows: list[list[object]] = []
    for name, curve in curves.items():
        pen.line(axes[0], name, curve.steps, curve.mean, curve.low, curve.high)
        if name in flops:
            pen.line(axes[1], name, curve.flops, curve.mean, curve.low, curve.high)
        rows += rows_of(curve, name)
    step_axis(axes[0], "environment steps (mean over tasks)")
    if flops:
        step_axis(axes[1], "FLOPs (mean over tasks)")
    axes[0].set_ylabel(f"score, {pen.analysis.unit('final-score')}")
    if len(curves) <= DIRECT:
        direct_labels(axes[-1], {name: float(curve.mean[-1]) for name, curve in curves.items()}, pen, 3.1)
    else:
        legend(figure, axes[0], 4)
    caption = (
        f"Training score over all tasks, {pen.analysis.unit('final-score')} at the end of training; tasks count "
        f"equally, {BAND}, stratified by task. {POINT} {pen.count(pen.analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    return [Drawing("aggregate-curves", "Learning curve over all tasks", caption, figure, ["method", *ROW], rows)]


def learning_curves(pen: Pen) -> list[Drawing]:
    """Draw every method on every task."""
    comparison, methods, title = pen.analysis.comparison, pen.names, "Learning curves by task"
    curves = {
        (method, task): curve
        for task in comparison.tasks
        for method in methods
        if (curve := task_curve(comparison, method, task))
    }
    if not curves:
        return []
    tasks = [task for task in comparison.tasks if any(key[1] == task for key in curves)]
    figure, flat, grid = panel_figure(len(tasks), 4, WIDTH * (0.7 if len(tasks) == 1 else 1.0), 2.1)
    rows: list[list[object]] = []
    for axes, task in zip(flat, tasks, strict=True):
        for method in methods:
            if curve := curves.get((method, task)):
                pen.line(axes, method, curve.steps, curve.mean, curve.low, curve.high)
                rows += rows_of(curve, task, method)
        axes.set_title(comparison.short[task])
        step_axis(axes, "environment steps" if axes in grid[-1] else "")
    for row in grid:
        row[0].set_ylabel("mean return")
    fullest = max(range(len(tasks)), key=lambda index: len(flat[index].lines))
    legend(figure, flat[fullest], 4 if len(methods) <= 4 else 3)
    caption = f"{title}: mean return on training levels; {BAND}. {pen.count(tasks)} {SMOOTHING}"
    return [Drawing("learning-curves", title, caption, figure, ["task", "method", *ROW], rows)]
