"""What each epoch was worth in hindsight, by stage of training, and the course of slope and stride."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from adept.report.figures import SOFT, WIDTH, Drawing, Pen, legend, new_figure, panel_figure
from adept.report.style import ARMS, ramp
from adept.report.wording import clip
from adept.report.worth import BINS, STAGES, Point, course, gains

COLOURS = {stage: ramp(ARMS[1:], index / (len(STAGES) - 1)) for index, stage in enumerate(STAGES)}
ABOUT = (
    "Gain of the policy after each epoch over the one before the update, in % of a standard deviation of the "
    "advantage, judged by the next rollout; means over updates by thirds of training, bars are standard errors. The "
    "last point is the whole update. Gains tell what a small change is worth on the present path, not what another "
    "fixed K would lead to."
)


def _panel(axes: Axes, title: str, found: dict[str, list[Point]]) -> None:
    axes.axhline(0, color=SOFT, linewidth=0.7)
    widest = max(epoch for points in found.values() for epoch, _, _ in points)
    for place, (stage, points) in enumerate(found.items()):
        epochs, means, errors = (np.array(column) for column in zip(*points, strict=True))
        apart = epochs + 0.012 * widest * (place - 1)
        axes.errorbar(apart, 100 * means, 100 * errors, color=COLOURS[stage], marker="o", markersize=3, linewidth=1.4,
                      elinewidth=1, label=stage)  # fmt: skip
    axes.set_title(clip(title, 26), fontsize=8.5)
    axes.set_xticks(sorted({epoch for points in found.values() for epoch, _, _ in points}))


def _gains(pen: Pen, name: str, title: str, panels: dict[str, tuple[str, dict[str, list[Point]]]], what: str,
           section: str) -> Drawing:  # fmt: skip
    figure, flat, grid = panel_figure(len(panels), 4, WIDTH * (0.6 if len(panels) == 1 else 1.0), 1.9)
    rows: list[list[object]] = []
    for axes, (key, (label, found)) in zip(flat, panels.items(), strict=True):
        _panel(axes, label, found)
        rows += [[key, stage, *point] for stage, points in found.items() for point in points]
    for row in grid:
        row[0].set_ylabel("gain, % of a deviation")
    figure.supxlabel("epoch", fontsize=8.5, color=SOFT)
    legend(figure, flat[0], 3)
    header = [what, "stage", "epoch", "gain", "error"]
    return Drawing(name, title, f"{ABOUT} {pen.count()} No smoothing.", figure, header, rows, section)


def epoch_worth(pen: Pen) -> list[Drawing]:
    """Draw the gain by epoch and stage: a panel per method over all tasks, and one per task for the baseline."""
    comparison = pen.analysis.comparison
    tasks = comparison.common_tasks or comparison.tasks
    methods = {name: (pen.label(name), found) for name in pen.names if (found := gains(comparison, name, tasks))}
    if not methods:
        return []
    title = "What each epoch was worth"
    drawings = [_gains(pen, "gain-by-epoch", title, methods, "method", "epochs")]
    name = comparison.baseline if comparison.baseline in methods else next(iter(methods))
    places = {task: (comparison.short[task], found) for task in tasks if (found := gains(comparison, name, (task,)))}
    if len(places) > 1:
        title = f"What each epoch of {pen.label(name)} was worth, by task"
        drawings.append(_gains(pen, "gain-by-epoch-per-task", title, places, "task", "epochs"))
    return drawings


def slope_and_stride(pen: Pen) -> list[Drawing]:
    """Draw the slope at the end of updates, and the stride where a controller sets it, over training."""
    comparison = pen.analysis.comparison
    tasks = comparison.common_tasks or comparison.tasks
    found = {column: {name: line for name in pen.names if (line := course(comparison, name, tasks, column))}
             for column in ("slope_z", "stride")}  # fmt: skip
    columns = [column for column, lines in found.items() if lines]
    if not columns:
        return []
    figure, [flat] = new_figure(1, len(columns), WIDTH * (1.0 if len(columns) > 1 else 0.65), 3.2)
    rows: list[list[object]] = []
    for axes, column in zip(flat, columns, strict=True):
        for name, (progress, mean, error) in found[column].items():
            low, value, high = mean - error, mean, mean + error
            if column == "stride":
                low, value, high = np.exp(low), np.exp(value), np.exp(high)
            pen.line(axes, name, 100 * progress, value, low, high)
            rows += [[column, name, *map(float, row)] for row in zip(progress, value, low, high, strict=True)]
        if column == "stride":
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter(lambda factor, _: f"{factor:g}")
        axes.axhline(1.0 if column == "stride" else 0.0, color=SOFT, linewidth=0.7)
        axes.set_title("Stride (factor of the learning rate)" if column == "stride" else "Slope z at the update's end")
        axes.set_xlabel("training, %")
    legend(figure, max(flat, key=lambda axes: len(axes.lines)), 3)
    caption = (
        "Slope of the return along the last update, at its end, in standard errors (above 0: the update stopped short; "
        "below: it overshot), and the stride where a controller sets it: the factor of the learning rate (geometric "
        f"mean). Means over runs in {BINS} bins of training; bands are standard errors over runs. {pen.count(tasks)} "
        "No other smoothing."
    )
    header = ["column", "method", "progress", "mean", "low", "high"]
    return [Drawing("slope-and-stride", "Slope and stride over training", caption, figure, header, rows, "epochs")]
