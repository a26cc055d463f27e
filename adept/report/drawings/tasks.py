"""Differences to the baseline task by task, and where the FLOPs go."""

from __future__ import annotations

import math

from adept.report.curves import phase_flops
from adept.report.drawings.aggregates import dots
from adept.report.figures import INTERVAL, SMOOTHING, WIDTH, Drawing, Pen, new_figure, panel_figure
from adept.report.statistics import Estimate
from adept.report.style import PHASES
from adept.report.tables import bounds, three

NONE = Estimate(math.nan)


def differences(pen: Pen) -> list[Drawing]:
    """Draw each method's difference to the baseline, a panel per task."""
    analysis, comparison = pen.analysis, pen.analysis.comparison
    tasks = comparison.common_tasks
    names = [name for name in pen.names
             if any((cell := analysis.tasks.get((name, task))) and cell.difference for task in tasks)]  # fmt: skip
    if not names:
        return []
    height = 0.55 + 0.19 * len(names)
    figure, flat, grid = panel_figure(len(tasks), 4, WIDTH * 1.15, height, sharey=True)
    rows: list[list[object]] = []
    for axes, task in zip(flat, tasks, strict=True):
        cells = [analysis.tasks.get((name, task)) for name in names]
        gaps = [cell.difference or NONE if cell else NONE for cell in cells]
        percents = [Estimate(100 * gap.value, 100 * gap.low, 100 * gap.high) for gap in gaps]
        dots(axes, pen, names, percents, 0.0, [bool(cell and cell.p < 0.05) for cell in cells])
        axes.set_title(comparison.short[task])
        axes.locator_params(axis="x", nbins=4)
        rows += [[task, name, *bounds(gap), cell.p if cell else None]
                 for name, gap, cell in zip(names, gaps, cells, strict=True)]  # fmt: skip
    percent = "% of the budget" if comparison.criterion == "steps-to-threshold" else "%"
    for axes in grid[-1]:
        axes.set_xlabel(f"difference, {percent}")
    base = comparison.label(comparison.baseline)
    caption = (
        f"Difference to {base} on each task, of the mean {analysis.quantity}; bars are {INTERVAL}. "
        "Filled markers differ from 0 by a permutation test, corrected for the method's tasks (Holm); open ones are "
        f"not shown to. {pen.count(tasks)} {SMOOTHING}"
    )
    header = ["task", "method", *three("difference"), "p"]
    title = f"Differences to {base} by task"
    return [Drawing("per-task-differences", title, caption, figure, header, rows, "glance")]


def compute_by_phase(pen: Pen) -> list[Drawing]:
    """Draw the share of FLOPs by phase of an iteration."""
    comparison = pen.analysis.comparison
    shares = {name: found for name in pen.names if (found := phase_flops(comparison, name))}
    if not shares:
        return []
    figure, [[axes]] = new_figure(1, 1, WIDTH * 0.8, 0.95 + 0.27 * len(shares))
    rows: list[list[object]] = []
    for row, (name, found) in enumerate(shares.items()):
        start = 0.0
        for phase, share in found.items():
            axes.barh(row, 100 * share, left=100 * start, height=0.66, color=PHASES[phase],
                      label=phase if row == 0 else None)  # fmt: skip
            if share > 0.06:
                axes.text(100 * (start + share / 2), row, f"{100 * share:.0f}", ha="center", va="center", fontsize=7.5,
                          color="#1d2126" if phase == "sampling" else "white")  # fmt: skip
            start += share
            rows.append([name, phase, share])
    axes.set_xlabel("share of FLOPs, %")
    axes.set_xlim(0, 100)
    axes.set_ylim(len(shares) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.set_yticks(range(len(shares)), [pen.label(name) for name in shares])
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4, fontsize=8, handlelength=1.2)
    caption = (
        "Share of FLOPs by phase: forward passes of the network while sampling, the update, and judging updates in "
        "hindsight; over all finished runs. The environments' own computing is not counted. "
        f"{pen.count()} No smoothing."
    )
    title = "Share of FLOPs by phase"
    return [Drawing("compute-by-phase", title, caption, figure, ["method", "phase", "share"], rows, "more")]
