"""The decision process: how often each number of epochs had been chosen by each point of training."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from adept.report.curves import arms_of, choice_shares
from adept.report.figures import SOFT, WIDTH, Array, Drawing, Pen, new_figure, panel_figure
from adept.report.runs import Method
from adept.report.style import arm_colours
from adept.report.wording import clip


def _adaptive(pen: Pen) -> list[Method]:
    return [method for method in pen.analysis.comparison.methods if method.adaptive]


def _everywhere(pen: Pen) -> tuple[int, ...]:
    return tuple(sorted({arm for method in _adaptive(pen) for arm in arms_of(pen.analysis.comparison, method.name)}))


def _stack(axes: Axes, pen: Pen, method: Method, progress: Array, shares: Array) -> None:
    arms = arms_of(pen.analysis.comparison, method.name)
    colours = arm_colours(arms, _everywhere(pen))
    axes.stackplot(100 * progress, 100 * shares[::-1], colors=[colours[arm] for arm in arms[::-1]],
                   edgecolor="white", linewidth=0.5)  # fmt: skip
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.grid(visible=False)
    axes.set_xticks([0, 50, 100])
    axes.set_yticks([0, 50, 100])


def _finish(figure: Figure, pen: Pen) -> None:
    everywhere = _everywhere(pen)
    handles = [Patch(color=colour, label=f"K={arm}") for arm, colour in arm_colours(everywhere, everywhere).items()]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(10, len(handles)), fontsize=8, handlelength=1.2)
    figure.supxlabel("training, %", fontsize=8.5, color=SOFT)


def _rows(pen: Pen, method: Method, progress: Array, shares: Array, *front: str) -> list[list[object]]:
    return [
        [*front, method.name, float(progress[point]), arm, float(shares[index, point])]
        for index, arm in enumerate(arms_of(pen.analysis.comparison, method.name))
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
    figure, flat, grid = panel_figure(len(found), 4, WIDTH, 1.75, sharex=True, sharey=True)
    rows: list[list[object]] = []
    for axes, (method, progress, shares) in zip(flat, found, strict=True):
        _stack(axes, pen, method, progress, shares)
        axes.set_title(clip(method.label, 26), fontsize=8.5)
        rows += _rows(pen, method, progress, shares)
    for row in grid:
        row[0].set_ylabel("share of choices, %")
    _finish(figure, pen)
    caption = f"{CAPTION.format(tasks=' and tasks')} {pen.count(tasks)}"
    header = ["method", "progress", "epochs", "share"]
    return [Drawing("decisions", "Which number of epochs was chosen", caption, figure, header, rows, "epochs")]


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
                rows += _rows(pen, method, *found[method.name, task], task)
            if line == 0:
                axes.set_title(_title(pen, across[column]), fontsize=8)
            if column == 0:
                axes.set_ylabel(_title(pen, down[line]).replace(" {", "\n{"), fontsize=7.5)
    _finish(figure, pen)
    caption = f"{CAPTION.format(tasks='')} {pen.count(tasks)}"
    header = ["task", "method", "progress", "epochs", "share"]
    title = "Which number of epochs was chosen, by task"
    return [Drawing("decisions-per-task", title, caption, figure, header, rows, "more")]


def _title(pen: Pen, item: Method | str) -> str:
    return clip(item.label if isinstance(item, Method) else pen.analysis.comparison.short[item], 26)
