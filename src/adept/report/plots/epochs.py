"""Figures of epochs: the gain of each, measured in hindsight, which numbers of them were chosen, and ablations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.patches import Patch

from adept.hindsight.stages import STAGE_NAMES
from adept.report.comparison import ComparedMethod
from adept.report.curves import arms_of, choice_shares, mean_curve
from adept.report.figures import SOFT, WIDTH, Drawing, Pen, legend, new_figure, panel_figure
from adept.report.hindsight import BINS, Point, course, gains
from adept.report.plots.scores import BAND, SMOOTHING, draw_curves
from adept.report.style import ARMS, arm_colours, ramp
from adept.report.tables import Block
from adept.report.text import wrapped

KNOBS = {"exploration": "c", "window": "W", "step_size": "η", "arms": "arms"}
"""What ablations are over, and the paper's letter for it."""
WORTH = (
    "Gain of the policy after each epoch over the one before the update, in % of a standard deviation of the "
    "advantage, measured on the next rollout; means over updates by thirds of training, bars are standard errors. The "
    "last point is the whole update. A gain is that of a small change of the present policy; it does not predict where "
    "another number of epochs leads."
)
CHOICES = (
    "Cumulative share, in %, of the iterations so far in which each number of epochs K was chosen, over training; mean "
    "over seeds, and over tasks for all of them. For a rule that only stops early, the epochs done. No smoothing."
)


def epoch_gain(pen: Pen) -> Iterator[Drawing]:
    """Draw the gain by epoch and stage: a panel per method over all tasks, and one per task for the baseline."""
    comparison, title = pen.analysis.comparison, "Gain by epoch"
    tasks = comparison.common_tasks or comparison.tasks
    methods = {name: found for name in pen.names if (found := gains(comparison, name, tasks))}
    if not methods:
        return
    yield _gains(pen, "gain-by-epoch", title, methods, "method", {name: pen.label(name) for name in methods})
    name = comparison.baseline if comparison.baseline in methods else next(iter(methods))
    places = {task: found for task in tasks if (found := gains(comparison, name, (task,)))}
    if len(places) > 1:
        title = f"Gain by epoch of {pen.label(name)}, by task"
        yield _gains(pen, "gain-by-epoch-per-task", title, places, "task", comparison.short)


def _gains(
    pen: Pen, name: str, title: str, panels: dict[str, dict[str, list[Point]]], what: str, labels: dict[str, str]
) -> Drawing:
    figure, flat = panel_figure(len(panels), 4, WIDTH * (0.6 if len(panels) == 1 else 1.0), 1.9,
                                "gain, % of a deviation")  # fmt: skip
    rows: list[Block] = []
    for axes, (key, found) in zip(flat, panels.items(), strict=True):
        axes.axhline(0, color=SOFT, linewidth=0.7)
        known = sorted({epoch for points in found.values() for epoch, _, _ in points})
        for place, (stage, points) in enumerate(found.items()):
            epochs, means, errors = np.array(points).T
            colour = ramp(ARMS[1:], STAGE_NAMES.index(stage) / 2)
            axes.errorbar(epochs + 0.012 * known[-1] * (place - 1), 100 * means, 100 * errors, color=colour, marker="o",
                          markersize=3, linewidth=1.4, elinewidth=1, label=stage)  # fmt: skip
            rows.append({what: key, "stage": stage, "epoch": epochs, "gain": means, "error": errors})
        axes.set_title(wrapped(labels[key], 26), fontsize=8.5)
        axes.set_xticks(known)
    figure.supxlabel("epoch", fontsize=8.5, color=SOFT)
    legend(figure, 3)
    return Drawing(name, title, f"{WORTH} {pen.count()} No smoothing.", figure, rows, "epochs")


def slope_and_lr_scale(pen: Pen) -> Iterator[Drawing]:
    """Draw the slope at the end of updates, and the scale where a controller sets it, over training."""
    comparison, rows = pen.analysis.comparison, list[Block]()
    tasks = comparison.common_tasks or comparison.tasks
    titles = {"slope_z": "Slope z at the update's end", "lr_scale": "Scale (factor of the learning rate)"}
    found = {column: {name: line for name in pen.names if (line := course(comparison, name, tasks, column))}
             for column in titles}  # fmt: skip
    found = {column: lines for column, lines in found.items() if lines}
    if not found:
        return
    figure, flat = panel_figure(len(found), 2, WIDTH * (1.0 if len(found) > 1 else 0.65), 2.6, "", "training, %")
    for axes, (column, lines) in zip(flat, found.items(), strict=True):
        for name, (progress, mean, low, high) in lines.items():
            pen.line(axes, name, 100 * progress, mean, low, high)
            rows.append(
                {"column": column, "method": name, "progress": progress, "mean": mean, "low": low, "high": high}
            )
        if column == "lr_scale":
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter(lambda factor, _: f"{factor:g}")
        axes.axhline(1.0 if column == "lr_scale" else 0.0, color=SOFT, linewidth=0.7)
        axes.set_title(titles[column])
    legend(figure, 3)
    caption = (
        "Slope of the return along the last update, at its end, in standard errors (above 0: the update stopped short; "
        "below: it overshot), and the scale where a controller sets it: the factor of the learning rate (geometric "
        f"mean). Means over runs in {BINS} bins of training; bands are standard errors over runs. {pen.count(tasks)} "
        "No other smoothing."
    )
    title = f"Slope{' and scale' if 'lr_scale' in found else ''} over training"
    yield Drawing("slope-and-lr-scale", title, caption, figure, rows, "epochs")


def decisions(pen: Pen) -> Iterator[Drawing]:
    """Draw a grid of methods whose epochs vary by tasks, and all tasks first; the longer side runs down the page."""
    comparison, rows = pen.analysis.comparison, list[Block]()
    tuned = comparison.method(comparison.baseline).axis
    shown = [method for method in comparison.methods
             if method.adaptive and (tuned is None or method.axis is None or method.axis[1] == tuned[1])]  # fmt: skip
    arms = {method.name: found for method in shown if len(found := arms_of(comparison, method.name)) > 1}
    if not arms:
        return
    common = comparison.common_tasks or comparison.tasks
    places: dict[str, Sequence[str]] = {"All tasks": common} if len(common) > 1 else {}
    places |= {comparison.short[task]: (task,) for task in comparison.tasks}
    down, across = [comparison.label(name) for name in arms], list(places)
    turned = len(across) > len(down)
    if turned:
        down, across = across, down
    figure, grid = new_figure(len(down), len(across), 1.0 + 1.75 * len(across), 0.6 + 1.3 * len(down),
                              sharex=True, sharey=True)  # fmt: skip
    colours = arm_colours(sorted({arm for found in arms.values() for arm in found}))
    for line, (method, numbers) in enumerate(arms.items()):
        for column, (place, tasks) in enumerate(places.items()):
            axes = grid[column][line] if turned else grid[line][column]
            if table := choice_shares(comparison, method, tasks):
                progress, shares = table
                axes.stackplot(100 * progress, 100 * shares[::-1], colors=[colours[arm] for arm in numbers[::-1]],
                               edgecolor="white", linewidth=0.5)  # fmt: skip
                rows += [{"place": place, "method": method, "progress": progress, "epochs": arm, "share": share}
                         for arm, share in zip(numbers, shares, strict=True)]  # fmt: skip
            axes.grid(visible=False)
    grid[0][0].set(xlim=(0, 100), ylim=(0, 100), xticks=(0, 50, 100), yticks=(0, 50, 100))  # shared by all
    for row, name in zip(grid, down, strict=True):
        row[0].set_ylabel(wrapped(name, 20), fontsize=7.5)
    for axes, name in zip(grid[0], across, strict=True):
        axes.set_title(wrapped(name, 24), fontsize=8)
    handles = [Patch(color=colour, label=f"K={arm}") for arm, colour in colours.items()]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(10, len(handles)), fontsize=8, handlelength=1.2)
    figure.supxlabel("training, %", fontsize=8.5, color=SOFT)
    where = "" if tuned is None else f" Of the study's axis only {tuned[1]} is drawn."
    caption = f"{CHOICES}{where} {pen.count(comparison.tasks)}"
    if rows:
        yield Drawing("decisions", "Which number of epochs was chosen", caption, figure, rows, "epochs")


def groups(methods: Sequence[ComparedMethod], knob: str) -> list[tuple[str, list[ComparedMethod]]]:
    """Return the sets of two or more adaptive methods that differ in a knob alone, and the other knobs in words."""
    found: dict[str, tuple[str, list[ComparedMethod]]] = {}
    for method in methods:
        values = {} if method.config is None else method.config.to_dict()
        options = dict(values.get("scheduler_options", {}))
        if len(values.get("arms", ())) < 2 or knob not in ("arms", *options):
            continue
        options.pop(knob, None)
        arms = [] if knob == "arms" else ["{" + ",".join(map(str, values["arms"])) + "}"]
        others = [f"{letter}={options[name]:g}" for name, letter in KNOBS.items() if name in options]
        rest = {**values, "scheduler_options": options, "env": None, "seed": None, **({} if arms else {"arms": None})}
        title = " ".join([values["scheduler"], *arms, *others])
        found.setdefault(json.dumps(rest, sort_keys=True), (title, []))[1].append(method)
    return [entry for entry in found.values() if len(entry[1]) > 1]


def ablations(pen: Pen) -> Iterator[Drawing]:
    """Draw one figure per knob: a panel for each set of methods that differ in it alone, beside the baseline."""
    comparison, unit = pen.analysis.comparison, pen.analysis.unit("final-score")
    known = [method for method in comparison.methods if mean_curve(pen.analysis, method.name)]
    for knob, letter in KNOBS.items():
        sets, rows = groups(known, knob), []
        if not sets:
            continue
        figure, flat = panel_figure(len(sets), 3, WIDTH * (0.75 if len(sets) == 1 else 1.1), 2.6, f"score, {unit}",
                                    "environment steps", sharey=True)  # fmt: skip
        for axes, (title, entries) in zip(flat, sets, strict=True):
            names = (comparison.baseline, *(entry.name for entry in entries))
            curves = {name: curve for name in names if (curve := mean_curve(pen.analysis, name))}
            rows += draw_curves(axes, pen, curves, group=title)
            axes.set_title(title)
            if len(sets) > 1:
                axes.legend(fontsize=7.5, loc="lower right")
        if len(sets) == 1:
            legend(figure, 2)
        caption = (
            f"Ablation over {letter}: training score over all tasks, {unit} at the end, of methods that differ in "
            f"{letter} alone; tasks count equally, {BAND}, stratified by task. {pen.count(comparison.common_tasks)} "
            f"{SMOOTHING}"
        )
        yield Drawing(f"ablation-{knob.replace('_', '-')}", f"Ablation over {letter}", caption, figure, rows, "more")


DRAWINGS = (epoch_gain, slope_and_lr_scale, decisions, ablations)
