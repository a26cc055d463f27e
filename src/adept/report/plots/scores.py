"""Figures of scores and of what they cost: curves, aggregates and differences with their intervals, FLOPs by phase."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adept.report.axis import points
from adept.report.curves import Curve, mean_curve
from adept.report.figures import FRAME, SOFT, WIDTH, Drawing, Pen, legend, new_figure, panel_figure, step_axis
from adept.report.power import LEVEL, smallest_p
from adept.report.statistics import Array, Estimate, performance_profile
from adept.report.style import PHASES
from adept.report.tables import Block
from adept.report.text import counted

INTERVAL = "95 % stratified bootstrap intervals (seeds resampled within each task)"
SMOOTHING = "Scores are means of the last 100 training episodes; there is no other smoothing."
BAND = "bands are pointwise 95 % bootstrap intervals of the mean over seeds"
METRIC_NAMES = {"iqm": "IQM", "mean": "Mean", "median": "Median", "optimality_gap": "Optimality gap"}
SAME = 1.01
"""Computes within 1 % are equal: there is nothing to draw a score against."""
Points = Mapping[str, tuple[float, Estimate]]
"""By method: its relative compute and its score."""


def score_over_axis(pen: Pen) -> Iterator[Drawing]:
    """Draw every method's score over the values of the study's axis."""
    comparison = pen.analysis.comparison
    found = points(pen.analysis)
    tuned = comparison.method(comparison.baseline).axis
    if not found or tuned is None:
        return
    figure, [[axes]] = new_figure(1, 1, WIDTH * 1.15, 3.8)
    for line, own in found.items():
        look = pen.looks[next(point.method for point in own if point.value == tuned[1])]
        bounds = np.array([[point.score.value, point.score.low, point.score.high] for point in own]).T
        axes.fill_between(range(len(own)), bounds[1], bounds[2], color=look.light, alpha=0.13, linewidth=0)
        axes.plot(range(len(own)), bounds[0], color=look.light, linewidth=2.2, marker=look.marker, label=line)
        axes.set_xticks(range(len(own)), [point.value for point in own])
    one = len(comparison.common_tasks) == 1
    axes.set_ylabel(pen.analysis.criterion if one else f"IQM, {pen.analysis.quantity}")
    legend(figure)
    caption = (
        f"{pen.analysis.criterion.capitalize()} over the values of the study's axis, a curve per method: "
        f"{'mean return over seeds' if one else f'IQM over tasks and seeds, {pen.analysis.unit()}'}; bands are "
        f"{INTERVAL}. {pen.count(comparison.common_tasks)} {SMOOTHING}"
    )
    rows = [{"method": line, "value": point.value, "score": point.score, "p": point.p}
            for line, own in found.items() for point in own]  # fmt: skip
    yield Drawing("score-over-axis", "Score over the study's axis", caption, figure, rows, "axis_figure")


def draw_curves(axes: Axes, pen: Pen, curves: Mapping[str, Curve], **front: object) -> list[Block]:
    """Draw each method's curve over steps, and return them as columns of a table."""
    for name, curve in curves.items():
        pen.line(axes, name, curve.steps, curve.mean, curve.low, curve.high)
    step_axis(axes, None)
    return [{**front, "method": name, "step": curve.steps, "mean": curve.mean, "mean_low": curve.low,
             "mean_high": curve.high, "flops": curve.flops} for name, curve in curves.items()]  # fmt: skip


def aggregate_curves(pen: Pen) -> Iterator[Drawing]:
    """Draw the normalised score over all tasks, by steps and by FLOPs."""
    curves = {name: curve for name in pen.names if (curve := mean_curve(pen.analysis, name))}
    if not curves:
        return
    unit = pen.analysis.unit("final-score")
    figure, [by_steps, by_flops] = panel_figure(2, 2, WIDTH * 1.15, 3.2, f"score, {unit}", sharey=True)
    rows = draw_curves(by_steps, pen, curves)
    for name, curve in curves.items():
        pen.line(by_flops, name, curve.flops, curve.mean, curve.low, curve.high)
    step_axis(by_steps, "environment steps (mean over tasks)")
    step_axis(by_flops, "FLOPs (mean over tasks)")
    by_flops.set_visible(any(np.isfinite(curve.flops).any() for curve in curves.values()))
    legend(figure)
    caption = (
        f"Training score over all tasks, {unit} at the end of training; tasks count equally, {BAND}, stratified by "
        "task. A point is the mean over runs at one step, drawn at the mean of what they had spent by then. "
        f"{pen.count(pen.analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    yield Drawing("aggregate-curves", "Learning curve over all tasks", caption, figure, rows)


def learning_curves(pen: Pen) -> Iterator[Drawing]:
    """Draw every method on every task."""
    comparison, title, rows = pen.analysis.comparison, "Learning curves by task", list[Block]()
    found = {task: {name: curve for name in pen.names if (curve := mean_curve(pen.analysis, name, task))}
             for task in comparison.tasks}  # fmt: skip
    tasks = [task for task, curves in found.items() if curves]
    if not tasks:
        return
    figure, flat = panel_figure(len(tasks), 4, WIDTH * (0.7 if len(tasks) == 1 else 1.0), 2.1, "mean return",
                                "environment steps")  # fmt: skip
    for axes, task in zip(flat, tasks, strict=True):
        rows += draw_curves(axes, pen, found[task], task=task)
        axes.set_title(comparison.short[task])
    legend(figure, 4 if len(pen.names) <= 4 else 3)
    caption = f"{title}: mean return on training levels; {BAND}. {pen.count(tasks)} {SMOOTHING}"
    yield Drawing("learning-curves", title, caption, figure, rows)


def draw_points(pen: Pen, panels: Mapping[str, Points], width: float, height: float, y: str, x: str) -> Figure:
    """Draw score over compute, a panel per task ("": over all of them): a marker and its interval per method."""
    figure, flat = panel_figure(len(panels), 3, width, height, y, x)
    for axes, (task, found) in zip(flat, panels.items(), strict=True):
        for name, (at, score) in found.items():
            look = pen.looks[name]
            if score.has_interval:
                pen.mark(name, *axes.plot([at] * 2, [score.low, score.high], color=look.light, alpha=0.4, linewidth=2))
            pen.mark(name, *axes.plot([at], [score.value], look.marker, color=look.light, markersize=6.5,
                                      label=pen.label(name)))  # fmt: skip
        axes.set_xlim(0, 1.08 * max(at for at, _ in found.values()))
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.locator_params(axis="x", nbins=5)
        axes.set_title(pen.analysis.comparison.short.get(task, ""), loc="left")
    return figure


def worth_drawing(found: Points) -> bool:
    """Say whether computes differ."""
    spent = [at for at, _ in found.values()]
    return len(spent) > 1 and max(spent) > SAME * min(spent)


def score_against_compute(pen: Pen) -> Iterator[Drawing]:
    """Draw score over update FLOPs, with the front of methods that nothing beats at their price."""
    analysis = pen.analysis
    found = {name: (result.update_compute, result.iqm) for name in analysis.scored
             if math.isfinite((result := analysis.methods[name]).update_compute)}  # fmt: skip
    if not worth_drawing(found):
        return
    figure = draw_points(pen, {"": found}, WIDTH, 3.4, f"IQM, {analysis.quantity}",
                         "update FLOPs, relative to the baseline (mean over tasks)")  # fmt: skip
    legend(figure)
    front = [(found[name][0], found[name][1].value) for name in analysis.pareto]
    figure.axes[0].plot(*np.array(front).reshape(-1, 2).T, color=FRAME, linewidth=1, linestyle=(0, (4, 3)), zorder=0,
                        drawstyle="steps-post")  # fmt: skip
    caption = (
        f"Score against update FLOPs. Points are interquartile means over tasks and seeds of the {analysis.quantity}; "
        f"bars are {INTERVAL}. The dashed line is the Pareto front: nothing scored higher for the same compute. "
        f"Methods that learned nothing are not on it. {pen.count(analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    rows = [{"method": name, "update_compute": at, "iqm": iqm, "pareto": name in analysis.pareto}
            for name, (at, iqm) in found.items()]  # fmt: skip
    yield Drawing("score-against-compute", "Score against update FLOPs", caption, figure, rows, "glance")


def score_against_compute_by_task(pen: Pen) -> Iterator[Drawing]:
    """Draw final score over update FLOPs, a panel per task, as the paper's figure of score and overhead does."""
    analysis, comparison, panels, rows = pen.analysis, pen.analysis.comparison, dict[str, Points](), list[Block]()
    for task in comparison.tasks:
        cells = {name: cell for name in pen.names if (cell := analysis.tasks.get((name, task))) and cell.done
                 and math.isfinite(cell.update_flops)}  # fmt: skip
        base = cells[comparison.baseline].update_flops if comparison.baseline in cells else math.nan
        found = {name: (cell.update_flops / base, cell.score) for name, cell in cells.items()}
        if worth_drawing(found):
            panels[task] = found
            rows += [{"task": task, "method": name, "update_compute": at, "update_flops": cells[name].update_flops,
                      "score": score} for name, (at, score) in found.items()]  # fmt: skip
    if not panels:
        return
    names = 0.2 * pen.row(1.0) * -(-len(pen.names) // 3) / -(-len(panels) // 3)  # the legend's share of a line
    figure = draw_points(pen, panels, WIDTH * (0.7 if len(panels) == 1 else 1.15), 2.4 + names, "mean return",
                         "update FLOPs, relative")  # fmt: skip
    legend(figure, 3)
    caption = (
        "Final score against update FLOPs, task by task: a mark is a method's mean over seeds, FLOPs are relative to "
        f"{comparison.label(comparison.baseline)} on the same task; bars are {INTERVAL}. {pen.count(panels)} "
        f"{SMOOTHING}"
    )
    title = "Score against update FLOPs, by task"
    yield Drawing("score-against-compute-by-task", title, caption, figure, rows, "glance")


def dots(
    axes: Axes, pen: Pen, estimates: Mapping[str, Estimate], line: float | None = None, filled: Sequence[str] = ()
) -> None:
    """Draw a row per method: the value and its interval; with a line to compare with, markers may be open."""
    if line is not None:
        axes.axvline(line, color=FRAME, linewidth=0.9, linestyle=(0, (4, 3)))
    for row, (name, estimate) in enumerate(estimates.items()):
        colour = pen.looks[name].light
        if estimate.has_interval:
            pen.mark(name, *axes.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=5,
                                      alpha=0.35, solid_capstyle="butt"))  # fmt: skip
        if estimate:
            pen.mark(name, *axes.plot([estimate.value], [row], pen.looks[name].marker, color=colour, markersize=5,
                                      markerfacecolor=colour if name in filled else "white"))  # fmt: skip
    rows_of_methods(axes, pen, list(estimates))
    axes.spines["left"].set_visible(False)


def rows_of_methods(axes: Axes, pen: Pen, names: Sequence[str]) -> None:
    """Give each method a row, the first one at the top."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [pen.label(name) for name in names])
    axes.grid(axis="y", visible=False)


def differences(pen: Pen) -> Iterator[Drawing]:
    """Draw each method's difference to the baseline, a panel per task."""
    analysis, comparison = pen.analysis, pen.analysis.comparison
    tasks, base = comparison.common_tasks, comparison.label(comparison.baseline)
    found = {task: {name: analysis.tasks[name, task] for name in pen.names} for task in tasks}
    names = [name for name in pen.names if any(found[task][name].difference for task in tasks)]
    if not names:
        return
    unit = "% of the budget" if comparison.criterion == "steps-to-threshold" else "%"
    figure, flat = panel_figure(len(tasks), 4, WIDTH * 1.15, 0.55 + pen.row(0.19) * len(names), "",
                                f"difference, {unit}", sharey=True)  # fmt: skip
    for axes, task in zip(flat, tasks, strict=True):
        dots(axes, pen, {name: found[task][name].difference.times(100) for name in names}, 0.0,
             [name for name in names if found[task][name].p < LEVEL])  # fmt: skip
        axes.set_title(comparison.short[task])
        axes.locator_params(axis="x", nbins=4)
    seeds = analysis.fewest_runs((comparison.baseline, *names))
    none = seeds > 1 and smallest_p(seeds, 1, len(tasks)) >= LEVEL
    few = f", and with {counted(seeds, 'seed')} none can be" if none else ""
    caption = (
        f"Difference to {base} on each task, of the mean {analysis.quantity}; bars are {INTERVAL}. "
        "Filled markers differ from 0 by a permutation test, corrected for the method's tasks (Holm); open ones are "
        f"not shown to{few}. {pen.count(tasks)} {SMOOTHING}"
    )
    rows = [{"task": task, "method": name, "difference": found[task][name].difference, "p": found[task][name].p}
            for task in tasks for name in names]  # fmt: skip
    yield Drawing("per-task-differences", f"Differences to {base} by task", caption, figure, rows, "glance")


def aggregates(pen: Pen) -> Iterator[Drawing]:
    """Draw mean, median, IQM and optimality gap of the criterion, and on test levels where there are scores."""
    analysis = pen.analysis
    test = f"score on test levels, {analysis.unit('test')}"
    for kind, measure, where, quantity, note in (
        ("train", analysis.comparison.criterion, "Training", analysis.quantity, SMOOTHING),
        ("test", "test", "Test levels", test, "Test scores are mean returns of episodes on the full distribution."),
    ):
        tables = {name: table for name in pen.names if (table := analysis.methods[name].aggregates.get(measure))}
        if not tables:
            continue
        figure, [axes] = new_figure(1, 4, WIDTH, 0.9 + pen.row(0.25) * len(tables), sharey=True)
        for panel, (metric, title) in zip(axes, METRIC_NAMES.items(), strict=True):
            dots(panel, pen, {name: table[metric] for name, table in tables.items()}, filled=list(tables))
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
    dots(axes, pen, estimates, 0.5, list(estimates))
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
    legend(figure, 3)
    axes.set_ylim(-0.02, 1.02)
    caption = (
        f"Performance profile: the share of runs above τ of the {analysis.quantity}, tasks counting equally; bands are "
        f"{INTERVAL}. {pen.count(analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    yield Drawing("performance-profile", "Performance profile", caption, figure, rows, "more")


def compute_by_phase(pen: Pen) -> Iterator[Drawing]:
    """Draw the share of FLOPs by phase of an iteration."""
    shares = {name: found for name in pen.names if (found := pen.analysis.methods[name].phases)}
    if not shares:
        return
    figure, [axes] = panel_figure(1, 1, WIDTH * 0.8, 0.35 + pen.row(0.27) * len(shares), "", "share of FLOPs, %")
    starts = np.zeros(len(shares))
    for phase, colour in PHASES.items():
        widths = np.array([100 * found[phase] for found in shares.values()])
        if widths.any():
            axes.barh(range(len(shares)), widths, left=starts, height=0.66, color=colour, label=phase)
        for row in np.flatnonzero(widths > 6).tolist():
            axes.text(starts[row] + widths[row] / 2, row, f"{widths[row]:.0f}", ha="center", va="center", fontsize=7.5,
                      color="#1d2126" if phase == "sampling" else "white")  # fmt: skip
        starts += widths
    axes.set_xlim(0, 100)
    rows_of_methods(axes, pen, list(shares))
    axes.grid(visible=False)
    legend(figure)
    title = "Share of FLOPs by phase"
    caption = (
        f"{title}: forward passes of the network while sampling, the update, and measuring updates; over "
        f"all finished runs. The environments' own computing is not counted. {pen.count()} No smoothing."
    )
    rows = [{"method": name, "phase": phase, "share": share} for name, found in shares.items()
            for phase, share in found.items() if share > 1e-6]  # fmt: skip
    yield Drawing("compute-by-phase", title, caption, figure, rows, "more")


DRAWINGS = (
    score_over_axis, aggregate_curves, score_against_compute, score_against_compute_by_task, differences, aggregates,
    probability, performance_profiles, compute_by_phase, learning_curves,
)  # fmt: skip
