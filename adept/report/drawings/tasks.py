"""Score and compute task by task, and where the time and the FLOPs go."""

from __future__ import annotations

import math

from adept.report.curves import phase_flops, phase_seconds
from adept.report.drawings.aggregates import dots
from adept.report.figures import INTERVAL, SMOOTHING, WIDTH, Drawing, Pen, new_figure, panels
from adept.report.statistics import Estimate
from adept.report.style import PHASES
from adept.report.tables import bounds, three


def score_and_overhead_per_task(pen: Pen) -> list[Drawing]:
    """Draw a pair of panels per task: final score, and FLOPs relative to the baseline."""
    comparison, results = pen.analysis.comparison, pen.analysis.tasks
    tasks = [task for task in comparison.tasks if any(comparison.finished(name, task) for name in pen.names)]
    if not tasks:
        return []
    names = [name for name in pen.names if any(comparison.finished(name, task) for task in tasks)]
    lines, columns = panels(len(tasks), 2 if len(names) > 6 else 3)
    height = 0.75 + 0.19 * len(names)
    figure, grid = new_figure(
        lines, 2 * columns, WIDTH * 1.15, height * lines, width_ratios=(3, 2) * columns, sharey=True
    )
    rows: list[list[object]] = []
    for index, task in enumerate(tasks):
        left, right = grid[index // columns][2 * (index % columns) : 2 * (index % columns) + 2]
        known = [name for name in names if (name, task) in results and results[name, task].done]
        none = Estimate(math.nan)
        dots(left, pen, names, [results[name, task].score if name in known else none for name in names])
        left.set_title(comparison.short[task])
        left.set_xlabel("mean return")
        left.locator_params(axis="x", nbins=4)
        base = results[comparison.baseline, task].flops if (comparison.baseline, task) in results else math.nan
        ratios = {name: results[name, task].flops / base for name in known}
        heights = [ratios[name] if math.isfinite(ratios.get(name, math.nan)) else 0 for name in names]
        right.barh(range(len(names)), heights, height=0.6, color=[pen.looks[name].light for name in names])
        right.grid(axis="y", visible=False)
        right.set_xlabel("FLOPs, relative")
        right.locator_params(axis="x", nbins=3)
        right.tick_params(left=False, labelleft=False)
        for name, ratio in ratios.items():
            cell = results[name, task]
            rows.append([task, name, cell.done, cell.planned, *bounds(cell.score), cell.flops, ratio])
    for index in range(len(tasks), lines * columns):
        for axes in grid[index // columns][2 * (index % columns) : 2 * (index % columns) + 2]:
            axes.set_visible(False)
    caption = (
        f"Final training score and compute by task; bars of the score are {INTERVAL}. FLOPs are relative to "
        f"{comparison.label(comparison.baseline)} on the same task. {pen.count(tasks)} {SMOOTHING}"
    )
    header = ["task", "method", "runs_done", "runs_planned", *three("score"), "flops", "compute"]
    return [Drawing("score-and-compute-per-task", "Score and compute by task", caption, figure, header, rows)]


def compute_by_phase(pen: Pen) -> list[Drawing]:
    """Draw the share of time and of FLOPs by phase of an iteration."""
    comparison = pen.analysis.comparison
    shares = {name: (phase_seconds(comparison, name), phase_flops(comparison, name)) for name in pen.names}
    names = [name for name, (seconds, flops) in shares.items() if seconds and flops]
    if not names:
        return []
    figure, [axes] = new_figure(1, 2, WIDTH, 0.95 + 0.27 * len(names), sharey=True)
    rows: list[list[object]] = []
    for panel, (index, title) in zip(axes, enumerate(("Wall-clock time", "FLOPs")), strict=True):
        for row, name in enumerate(names):
            start = 0.0
            for phase, share in (shares[name][index] or {}).items():
                panel.barh(row, 100 * share, left=100 * start, height=0.66, color=PHASES[phase],
                           label=phase if row == 0 else None)  # fmt: skip
                if share > 0.09:
                    dark = phase in ("update", "environment")
                    panel.text(100 * (start + share / 2), row, f"{100 * share:.0f}", ha="center", va="center",
                               fontsize=7.5, color="white" if dark else "#1d2126")  # fmt: skip
                start += share
                rows.append([name, ("seconds", "flops")[index], phase, share])
        panel.set_title(title)
        panel.set_xlabel("share, %")
        panel.set_xlim(0, 100)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.grid(visible=False)
        panel.set_yticks(range(len(names)), [pen.label(name) for name in names])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=4, fontsize=8, handlelength=1.2)
    caption = (
        "Share of compute by phase: stepping the environments, forward passes of the network while sampling, the "
        "update, and the rest (advantages, records); over all finished runs. FLOPs are those of the network: the "
        f"environment's are not counted. {pen.count()} No smoothing."
    )
    header = ["method", "quantity", "phase", "share"]
    return [Drawing("compute-by-phase", "Share of compute by phase", caption, figure, header, rows)]
