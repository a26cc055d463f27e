"""Figures of scores and of what they cost: curves, aggregates and differences with their intervals, FLOPs by phase."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from adept.report.curves import Curve, aggregate_curve, phase_flops, task_curve
from adept.report.figures import FRAME, SOFT, WIDTH, Drawing, Pen, legend, new_figure, panel_figure, step_axis
from adept.report.statistics import Array, Estimate, performance_profile
from adept.report.style import PHASES
from adept.report.tables import Block

INTERVAL = "95 % stratified bootstrap intervals (seeds resampled within each task)"
SMOOTHING = "Scores are means of the last 100 training episodes; there is no other smoothing."
BAND = "bands are pointwise 95 % bootstrap intervals of the mean over seeds"
METRIC_NAMES = {"iqm": "IQM", "mean": "Mean", "median": "Median", "optimality_gap": "Optimality gap"}
SAME = 1.01
"""Computes within 1 % are equal: there is nothing to draw a score against."""
DIRECT = 8
"""With more methods than this a legend reads better than labels at the ends."""


def curve_rows(curve: Curve, **front: object) -> Block:
    """Return a curve as columns of a table."""
    return {**front, "step": curve.steps, "mean": curve.mean, "mean_low": curve.low, "mean_high": curve.high,
            "flops": curve.flops}  # fmt: skip


def aggregate_curves(pen: Pen) -> Iterator[Drawing]:
    """Draw the normalised score over all tasks, by steps and by FLOPs."""
    curves = {name: curve for name in pen.names if (curve := aggregate_curve(pen.analysis, name))}
    if not curves:
        return
    flops = [name for name, curve in curves.items() if np.isfinite(curve.flops).any()]
    unit = pen.analysis.unit("final-score")
    figure, axes = panel_figure(2 if flops else 1, 2, WIDTH * 1.15, 3.2, f"score, {unit}", sharey=True)
    for name, curve in curves.items():
        pen.line(axes[0], name, curve.steps, curve.mean, curve.low, curve.high)
        if name in flops:
            pen.line(axes[1], name, curve.flops, curve.mean, curve.low, curve.high)
    for panel, words in zip(axes, ("environment steps", "FLOPs"), strict=False):
        step_axis(panel, f"{words} (mean over tasks)")
    if len(curves) <= DIRECT:
        pen.direct_labels(axes[-1], {name: float(curve.mean[-1]) for name, curve in curves.items()}, 3.1)
    else:
        legend(figure, axes[0], 4)
    caption = (
        f"Training score over all tasks, {unit} at the end of training; tasks count equally, {BAND}, stratified by "
        "task. A point is the mean over runs at one step, drawn at the mean of what they had spent by then. "
        f"{pen.count(pen.analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    rows = [curve_rows(curve, method=name) for name, curve in curves.items()]
    yield Drawing("aggregate-curves", "Learning curve over all tasks", caption, figure, rows)


def learning_curves(pen: Pen) -> Iterator[Drawing]:
    """Draw every method on every task."""
    comparison, title = pen.analysis.comparison, "Learning curves by task"
    found = {task: {name: curve for name in pen.names if (curve := task_curve(comparison, name, task))}
             for task in comparison.tasks}  # fmt: skip
    tasks = [task for task, curves in found.items() if curves]
    if not tasks:
        return
    figure, flat = panel_figure(len(tasks), 4, WIDTH * (0.7 if len(tasks) == 1 else 1.0), 2.1, "mean return",
                                "environment steps")  # fmt: skip
    for axes, task in zip(flat, tasks, strict=True):
        for name, curve in found[task].items():
            pen.line(axes, name, curve.steps, curve.mean, curve.low, curve.high)
        axes.set_title(comparison.short[task])
        step_axis(axes, None)
    legend(figure, max(flat, key=lambda axes: len(axes.lines)), 4 if len(pen.names) <= 4 else 3)
    caption = f"{title}: mean return on training levels; {BAND}. {pen.count(tasks)} {SMOOTHING}"
    rows = [curve_rows(curve, task=task, method=name) for task in tasks for name, curve in found[task].items()]
    yield Drawing("learning-curves", title, caption, figure, rows)


def score_against_compute(pen: Pen) -> Iterator[Drawing]:
    """Draw score over update FLOPs, with the front of methods that nothing beats at their price."""
    analysis, rows = pen.analysis, []
    points: dict[str, tuple[float, float]] = {}
    figure, [axes] = panel_figure(1, 1, WIDTH, 3.4, f"IQM, {analysis.quantity}",
                                  "update FLOPs, relative to the baseline (mean over tasks)")  # fmt: skip
    for name in analysis.scored:
        result, look = analysis.methods[name], pen.looks[name]
        if result.primary is None or not math.isfinite(result.update_compute):
            continue
        iqm, at = result.primary["iqm"], result.update_compute
        if iqm.has_interval:
            pen.mark(name, *axes.plot([at] * 2, [iqm.low, iqm.high], color=look.light, alpha=0.4, linewidth=2))
        pen.mark(name, *axes.plot([at], [iqm.value], look.marker, color=look.light, markersize=7))
        rows.append({"method": name, "update_compute": at, "iqm": iqm, "pareto": name in analysis.pareto})
        points[name] = (at, iqm.value)
    if len(points) < 2 or spread_of([at for at, _ in points.values()]) < SAME:
        return
    front = np.array([points[name] for name in analysis.pareto]).reshape(-1, 2)
    axes.plot(*front.T, color=FRAME, linewidth=1, linestyle=(0, (4, 3)), zorder=0, drawstyle="steps-post")
    axes.set_xlim(0, 1.15 * max(x for x, _ in points.values()))
    axes.set_ylim(axes.get_ylim())
    point_labels(axes, pen, points, 6.8, 3.4)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    caption = (
        f"Score against update FLOPs. Points are interquartile means over tasks and seeds of the {analysis.quantity}; "
        f"bars are {INTERVAL}. The dashed line is the Pareto front: nothing scored higher for the same compute. "
        f"Methods that learned nothing are not on it. {pen.count(analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    yield Drawing("score-against-compute", "Score against update FLOPs", caption, figure, rows, "glance")


def score_against_compute_by_task(pen: Pen) -> Iterator[Drawing]:
    """Draw final score over update FLOPs, a panel per task, as the paper's figure of score and overhead does."""
    analysis, comparison, rows = pen.analysis, pen.analysis.comparison, []
    found = {task: {name: cell for name in pen.names if (cell := analysis.tasks.get((name, task))) and cell.done
                    and math.isfinite(cell.update_flops)} for task in comparison.tasks}  # fmt: skip
    tasks = [task for task, cells in found.items() if comparison.baseline in cells and spread_of(
        [cell.update_flops for cell in cells.values()]) > SAME]  # fmt: skip
    if not tasks:
        return
    names = 0.2 * pen.row(1.0) * -(-len(pen.names) // 3) / -(-len(tasks) // 3)  # the legend's share of a line
    figure, flat = panel_figure(len(tasks), 3, WIDTH * (0.7 if len(tasks) == 1 else 1.15), 2.4 + names, "mean return",
                                "update FLOPs, relative")  # fmt: skip
    for axes, task in zip(flat, tasks, strict=True):
        base = found[task][comparison.baseline].update_flops
        for name, cell in found[task].items():
            look, at = pen.looks[name], cell.update_flops / base
            if cell.score.has_interval:
                bar = axes.plot([at] * 2, [cell.score.low, cell.score.high], color=look.light, alpha=0.4, linewidth=2)
                pen.mark(name, *bar)
            pen.mark(name, *axes.plot([at], [cell.score.value], look.marker, color=look.light, markersize=6,
                                      linestyle="none", label=pen.label(name)))  # fmt: skip
            rows.append({"task": task, "method": name, "update_compute": at, "update_flops": cell.update_flops,
                         "score": cell.score})  # fmt: skip
        axes.set_title(comparison.short[task])
        axes.set_xlim(0, 1.08 * max(cell.update_flops / base for cell in found[task].values()))
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.locator_params(axis="x", nbins=5)
    legend(figure, max(flat, key=lambda axes: len(axes.lines)), 3)
    caption = (
        "Final score against update FLOPs, task by task: a mark is a method's mean over seeds, FLOPs are relative to "
        f"{comparison.label(comparison.baseline)} on the same task; bars are {INTERVAL}. {pen.count(tasks)} {SMOOTHING}"
    )
    yield Drawing(
        "score-against-compute-by-task", "Score against update FLOPs, by task", caption, figure, rows, "glance"
    )


def spread_of(values: Sequence[float]) -> float:
    """Return the largest of some numbers over the smallest."""
    return max(values) / min(values)


def point_labels(axes: Axes, pen: Pen, points: dict[str, tuple[float, float]], width: float, height: float) -> None:
    """Write each name where it covers no point and no other name, on axes of a size in inches.

    Those on the Pareto front go first; a name that fits nowhere is left out, for the table has it.
    """
    limits = np.array([axes.get_xlim(), axes.get_ylim()])
    corner, inch = limits[:, 0], np.ptp(limits, axis=1) / (width, height)
    places = {name: (np.array(point) - corner) / inch for name, point in points.items()}
    taken = [(x - 0.06, y - 0.06, x + 0.06, y + 0.06) for x, y in places.values()]
    for name in sorted(places, key=lambda name: (name not in pen.analysis.pareto, -places[name][1])):
        x, y = places[name]
        lines = pen.label(name).split("\n")
        wide, half = 0.065 * max(map(len, lines)), 0.07 * len(lines)
        spots = [(side, y + lift) for lift in (0, 0.16, -0.16, 0.32, -0.32, 0.48, -0.48)
                 for side in (x + 0.13, x - 0.13 - wide)]  # fmt: skip
        free = [(u, v) for u, v in spots if u >= 0 and u + wide <= width and 0 <= v <= height
                and not any(u < box[2] and u + wide > box[0] and v - half < box[3] and v + half > box[1]
                            for box in taken)]  # fmt: skip
        if not free:
            continue
        u, v = free[0]
        taken.append((u, v - half, u + wide, v + half))
        right_of, colour = u > x, pen.looks[name].light
        end = corner + np.array((u if right_of else u + wide, v)) * inch
        leader = axes.plot(*np.array([points[name], end]).T, color=colour, linewidth=0.6, alpha=0.6)
        text = axes.annotate(pen.label(name), end, xytext=(1.5 if right_of else -1.5, 0), textcoords="offset points",
                             ha="left" if right_of else "right", va="center", fontsize=8, color=colour,
                             path_effects=[withStroke(linewidth=2.5, foreground="white")])  # fmt: skip
        pen.mark(name, text, *leader)


def dots(
    axes: Axes, pen: Pen, names: Sequence[str], estimates: Sequence[Estimate], line: float | None = None,
    filled: Sequence[bool] | None = None,
) -> None:  # fmt: skip
    """Draw a row per method: the value and its interval; markers are open where they are not `filled`."""
    if line is not None:
        axes.axvline(line, color=FRAME, linewidth=0.9, linestyle=(0, (4, 3)))
    for row, (name, estimate) in enumerate(zip(names, estimates, strict=True)):
        colour = pen.looks[name].light
        if estimate.has_interval:
            pen.mark(name, *axes.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=5,
                                      alpha=0.35, solid_capstyle="butt"))  # fmt: skip
        if estimate:
            face = colour if filled is None or filled[row] else "white"
            pen.mark(name, *axes.plot([estimate.value], [row], pen.looks[name].marker, color=colour, markersize=5,
                                      markerfacecolor=face))  # fmt: skip
    rows_of_methods(axes, pen, names)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)


def rows_of_methods(axes: Axes, pen: Pen, names: Sequence[str]) -> None:
    """Give each method a row, the first one at the top."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [pen.label(name) for name in names])


def differences(pen: Pen) -> Iterator[Drawing]:
    """Draw each method's difference to the baseline, a panel per task."""
    analysis, comparison, rows = pen.analysis, pen.analysis.comparison, []
    tasks = comparison.common_tasks
    names = [name for name in pen.names if any(analysis.tasks[name, task].difference for task in tasks)]
    if not names:
        return
    unit = "% of the budget" if comparison.criterion == "steps-to-threshold" else "%"
    figure, flat = panel_figure(len(tasks), 4, WIDTH * 1.15, 0.55 + pen.row(0.19) * len(names), "",
                                f"difference, {unit}", sharey=True)  # fmt: skip
    for axes, task in zip(flat, tasks, strict=True):
        cells = [analysis.tasks[name, task] for name in names]
        dots(axes, pen, names, [cell.difference.times(100) for cell in cells], 0.0, [cell.p < 0.05 for cell in cells])
        axes.set_title(comparison.short[task])
        axes.locator_params(axis="x", nbins=4)
        rows += [{"task": task, "method": name, "difference": cell.difference, "p": cell.p}
                 for name, cell in zip(names, cells, strict=True)]  # fmt: skip
    base = comparison.label(comparison.baseline)
    caption = (
        f"Difference to {base} on each task, of the mean {analysis.quantity}; bars are {INTERVAL}. "
        "Filled markers differ from 0 by a permutation test, corrected for the method's tasks (Holm); open ones are "
        f"not shown to. {pen.count(tasks)} {SMOOTHING}"
    )
    yield Drawing("per-task-differences", f"Differences to {base} by task", caption, figure, rows, "glance")


def aggregates(pen: Pen) -> Iterator[Drawing]:
    """Draw mean, median, IQM and optimality gap of the criterion, and on test levels where there are scores."""
    analysis = pen.analysis
    test = ("Test levels", f"score on test levels, {analysis.unit('test')}",
            "Test scores are mean returns of episodes on the full distribution.")  # fmt: skip
    for kind, measure, (where, quantity, note) in (
        ("train", analysis.comparison.criterion, ("Training", analysis.quantity, SMOOTHING)),
        ("test", "test", test),
    ):
        tables = {name: table for name in pen.names if (table := analysis.methods[name].aggregates.get(measure))}
        if not tables:
            continue
        figure, [axes] = new_figure(1, 4, WIDTH, 0.9 + pen.row(0.25) * len(tables), sharey=True)
        for panel, (metric, title) in zip(axes, METRIC_NAMES.items(), strict=True):
            dots(panel, pen, list(tables), [table[metric] for table in tables.values()])
            panel.set_title(title)
            panel.locator_params(axis="x", nbins=4)
        figure.supxlabel(f"{quantity} (optimality gap: lower is better)", fontsize=8.5, color=SOFT)
        caption = (
            f"{where}: aggregates over tasks and seeds of the {quantity}; bars are {INTERVAL}. "
            f"{pen.count(analysis.comparison.common_tasks)} {note}"
        )
        rows = [{"method": name, **table} for name, table in tables.items()]
        yield Drawing(f"aggregates-{kind}", f"{where}: aggregates with intervals", caption, figure, rows, "glance")


def probability(pen: Pen) -> Iterator[Drawing]:
    """Draw the chance that each method beats the baseline."""
    comparison = pen.analysis.comparison
    estimates = {name: found for name in pen.names if (found := pen.analysis.methods[name].improvement)}
    if not estimates:
        return
    base, title = comparison.label(comparison.baseline), "Probability of improvement"
    figure, [axes] = panel_figure(1, 1, WIDTH * 0.75, 0.3 + pen.row(0.27) * len(estimates), "",
                                  f"probability that a run beats one of {base} on the same task")  # fmt: skip
    dots(axes, pen, list(estimates), list(estimates.values()), 0.5)
    axes.set_xlim(-0.02, 1.02)
    caption = (
        f"{title} over {base} by {pen.analysis.criterion}: the share of pairs of runs on the same task that the method "
        f"wins, ties counting half, averaged over tasks; bars are {INTERVAL}. {pen.count(comparison.common_tasks)}"
    )
    rows = [{"method": name, "probability": estimate} for name, estimate in estimates.items()]
    yield Drawing("probability-of-improvement", title, caption, figure, rows, "glance")


def performance_profiles(pen: Pen) -> Iterator[Drawing]:
    """Draw the share of runs above each normalised score."""
    analysis, rows = pen.analysis, []
    scores = {name: table for name in analysis.scored if (table := analysis.normalized(name))}
    if not scores:
        return
    every: Array = np.concatenate([task for table in scores.values() for task in table])
    thresholds = np.linspace(every.min() - 0.05 * np.ptp(every), every.max(), 81)
    figure, [axes] = panel_figure(1, 1, WIDTH, 3.0, "share of runs above τ", f"τ: {analysis.quantity}")
    for name, table in scores.items():
        value, low, high = performance_profile(table, thresholds, resamples=analysis.resamples)
        pen.line(axes, name, thresholds, value, low, high)
        rows.append({"method": name, "threshold": thresholds, "share": value, "share_low": low, "share_high": high})
    legend(figure, axes, 3)
    axes.set_ylim(-0.02, 1.02)
    caption = (
        f"Performance profile: the share of runs above τ of the {analysis.quantity}, tasks counting equally; bands are "
        f"{INTERVAL}. {pen.count(analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    yield Drawing("performance-profile", "Performance profile", caption, figure, rows, "more")


def compute_by_phase(pen: Pen) -> Iterator[Drawing]:
    """Draw the share of FLOPs by phase of an iteration."""
    shares = {name: found for name in pen.names if (found := phase_flops(pen.analysis.comparison, name))}
    if not shares:
        return
    figure, [axes] = panel_figure(1, 1, WIDTH * 0.8, 0.35 + pen.row(0.27) * len(shares), "", "share of FLOPs, %")
    for row, found in enumerate(shares.values()):
        start = 0.0
        for phase, share in found.items():
            axes.barh(row, 100 * share, left=start, height=0.66, color=PHASES[phase],
                      label=phase if row == 0 else None)  # fmt: skip
            if share > 0.06:
                axes.text(start + 50 * share, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=7.5,
                          color="#1d2126" if phase == "sampling" else "white")  # fmt: skip
            start += 100 * share
    axes.set_xlim(0, 100)
    rows_of_methods(axes, pen, list(shares))
    axes.grid(visible=False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=4, fontsize=8, handlelength=1.2)
    title = "Share of FLOPs by phase"
    caption = (
        f"{title}: forward passes of the network while sampling, the update, and judging updates in hindsight; over "
        f"all finished runs. The environments' own computing is not counted. {pen.count()} No smoothing."
    )
    rows = [{"method": name, "phase": phase, "share": share} for name, found in shares.items()
            for phase, share in found.items()]  # fmt: skip
    yield Drawing("compute-by-phase", title, caption, figure, rows, "more")


DRAWINGS = (
    aggregate_curves, score_against_compute, score_against_compute_by_task, differences, aggregates,
    probability, performance_profiles, compute_by_phase, learning_curves,
)  # fmt: skip
