"""The decision process: how often each number of epochs had been chosen by each point of training."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from adept.report.curves import arms_of, choice_shares
from adept.report.figures import WIDTH, Drawing, Pen, clip, new_figure, panels
from adept.report.runs import Method
from adept.report.style import arm_colours

Array = npt.NDArray[np.float64]


def _adaptive(pen: Pen) -> list[Method]:
    return [method for method in pen.analysis.comparison.methods if method.adaptive]


def _everywhere(pen: Pen) -> tuple[int, ...]:
    return tuple(sorted({arm for method in _adaptive(pen) for arm in arms_of(method)}))


def _stack(axes: Axes, pen: Pen, method: Method, progress: Array, shares: Array) -> None:
    arms = arms_of(method)
    colours = arm_colours(arms, _everywhere(pen))
    axes.stackplot(100 * progress, 100 * shares[::-1], colors=[colours[arm] for arm in arms[::-1]],
                   edgecolor="white", linewidth=0.5)  # fmt: skip
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.grid(visible=False)
    axes.set_xticks([0, 50, 100])
    axes.set_yticks([0, 50, 100])


def _legend(figure: Figure, pen: Pen) -> None:
    everywhere = _everywhere(pen)
    colours = arm_colours(everywhere, everywhere)
    handles = [Patch(color=colours[arm], label=f"K={arm}") for arm in everywhere]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(10, len(handles)), fontsize=8, handlelength=1.2)


def _rows(method: Method, progress: Array, shares: Array, *front: str) -> list[list[object]]:
    return [
        [*front, method.name, float(progress[point]), arm, float(shares[index, point])]
        for index, arm in enumerate(arms_of(method))
        for point in range(len(progress))
    ]


CAPTION = (
    "Cumulative share of the iterations so far in which each number of epochs K was chosen, over training; mean over "
    "seeds{tasks}. For a rule that only stops early, the epochs done. No smoothing."
)


def decisions(pen: Pen) -> list[Drawing]:
    """Draw one panel per adaptive method, over all tasks."""
    comparison = pen.analysis.comparison
    tasks = comparison.common_tasks or comparison.tasks
    found = [(method, *table) for method in _adaptive(pen) if (table := choice_shares(comparison, method, tasks))]
    if not found:
        return []
    lines, columns = panels(len(found))
    figure, grid = new_figure(lines, columns, WIDTH, 0.6 + 1.75 * lines, sharex=True, sharey=True)
    flat = [axes for row in grid for axes in row]
    rows: list[list[object]] = []
    for axes, (method, progress, shares) in zip(flat, found, strict=False):
        _stack(axes, pen, method, progress, shares)
        axes.set_title(clip(method.label, 26), fontsize=8.5)
        rows += _rows(method, progress, shares)
    for axes in flat[len(found) :]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel("share of choices, %")
    figure.supxlabel("training, %", fontsize=8.5, color="#4a4f57")
    _legend(figure, pen)
    caption = f"{CAPTION.format(tasks=' and tasks')} {pen.count(tasks)}"
    header = ["method", "progress", "epochs", "share"]
    return [Drawing("decisions", "Decision process", caption, figure, header, rows)]


def decisions_per_task(pen: Pen) -> list[Drawing]:
    """Draw a grid of adaptive methods by tasks."""
    comparison, methods = pen.analysis.comparison, _adaptive(pen)
    tasks = comparison.tasks
    found = {(method.name, task): table for method in methods for task in tasks
             if (table := choice_shares(comparison, method, (task,)))}  # fmt: skip
    if not found or len(tasks) < 2:
        return []
    # The longer side runs down the page.
    across, down = (tasks, tuple(methods)) if len(tasks) <= len(methods) else (tuple(methods), tasks)
    figure, grid = new_figure(len(down), len(across), 1.0 + 1.75 * len(across), 0.6 + 1.3 * len(down),
                              sharex=True, sharey=True)  # fmt: skip
    rows: list[list[object]] = []
    for line, row in enumerate(grid):
        for column, axes in enumerate(row):
            pair = (down[line], across[column])
            method = next(item for item in pair if isinstance(item, Method))
            task = next(item for item in pair if isinstance(item, str))
            if (method.name, task) in found:
                _stack(axes, pen, method, *found[method.name, task])
                rows += _rows(method, *found[method.name, task], task)
            if line == 0:
                axes.set_title(_title(pen, across[column]), fontsize=8)
            if column == 0:
                axes.set_ylabel(_title(pen, down[line]).replace(" {", "\n{"), fontsize=7.5)
    figure.supxlabel("training, %", fontsize=8.5, color="#4a4f57")
    _legend(figure, pen)
    caption = f"{CAPTION.format(tasks='')} {pen.count(tasks)}"
    header = ["task", "method", "progress", "epochs", "share"]
    return [Drawing("decisions-per-task", "Decision process by task", caption, figure, header, rows)]


def _title(pen: Pen, item: Method | str) -> str:
    return clip(item.label if isinstance(item, Method) else pen.analysis.comparison.short[item], 26)
