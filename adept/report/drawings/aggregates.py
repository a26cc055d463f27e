"""Figures over all tasks: scores and compute, four aggregates, chances of improvement, profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from adept.report.figures import FRAME, INTERVAL, SMOOTHING, SOFT, WIDTH, Array, Drawing, Pen, legend, new_figure
from adept.report.statistics import METRICS, Estimate, performance_profile
from adept.report.tables import bounds, three

METRIC_NAMES = {"iqm": "IQM", "mean": "Mean", "median": "Median", "optimality_gap": "Optimality gap"}


def dots(
    axes: Axes, pen: Pen, names: Sequence[str], estimates: Sequence[Estimate], line: float | None = None,
    filled: Sequence[bool] | None = None,
) -> None:  # fmt: skip
    """Draw a row per method: the value and its interval; markers are open where they are not `filled`."""
    if line is not None:
        axes.axvline(line, color=FRAME, linewidth=0.9, linestyle=(0, (4, 3)))
    for row, (name, estimate) in enumerate(zip(names, estimates, strict=True)):
        if not math.isfinite(estimate.value):
            continue
        colour = pen.looks[name].light
        if estimate.has_interval:
            pen.mark(name, *axes.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=5,
                                      alpha=0.35, solid_capstyle="butt"))  # fmt: skip
        face = colour if filled is None or filled[row] else "white"
        pen.mark(name, *axes.plot([estimate.value], [row], pen.looks[name].marker, color=colour, markersize=5,
                                  markerfacecolor=face))  # fmt: skip
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [pen.label(name) for name in names])
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)


def point_labels(axes: Axes, pen: Pen, points: dict[str, tuple[float, float]], width: float, height: float) -> None:
    """Write each name where it covers no point and no other name, on axes of a size in inches.

    Those on the Pareto front go first; a name that fits nowhere is left out, for the table has it.
    """
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    places = {name: ((x - left) / (right - left) * width, (y - low) / (high - low) * height)
              for name, (x, y) in points.items()}  # fmt: skip
    taken = [(x - 0.06, y - 0.06, x + 0.06, y + 0.06) for x, y in places.values()]
    for name in sorted(places, key=lambda name: (name not in pen.analysis.pareto, -places[name][1])):
        x, y = places[name]
        wide = 0.065 * len(pen.label(name))
        spots = [(side, y + lift) for lift in (0, 0.16, -0.16, 0.32, -0.32, 0.48, -0.48)
                 for side in (x + 0.13, x - 0.13 - wide)]  # fmt: skip
        free = [(u, v) for u, v in spots if u >= 0 and u + wide <= width and 0 <= v <= height
                and not any(u < box[2] and u + wide > box[0] and v - 0.07 < box[3] and v + 0.07 > box[1]
                            for box in taken)]  # fmt: skip
        if not free:
            continue
        u, v = free[0]
        taken.append((u, v - 0.07, u + wide, v + 0.07))
        right_of, colour = u > x, pen.looks[name].light
        end = (left + (u if right_of else u + wide) / width * (right - left), low + v / height * (high - low))
        lines = axes.plot([points[name][0], end[0]], [points[name][1], end[1]], color=colour, linewidth=0.6, alpha=0.6)
        text = axes.annotate(pen.label(name), end, xytext=(1.5 if right_of else -1.5, 0), textcoords="offset points",
                             ha="left" if right_of else "right", va="center", fontsize=8, color=colour,
                             path_effects=[withStroke(linewidth=2.5, foreground="white")])  # fmt: skip
        pen.mark(name, text, *lines)


def aggregates(pen: Pen) -> list[Drawing]:
    """Draw mean, median, IQM and optimality gap of the criterion, and on test levels where there are scores."""
    analysis, found = pen.analysis, []
    for kind, measure in (("train", analysis.comparison.criterion), ("test", "test")):
        tables = {name: table for name in pen.names if (table := analysis.methods[name].aggregates.get(measure))}
        names = list(tables)
        if not names:
            continue
        figure, [axes] = new_figure(1, 4, WIDTH, 0.9 + 0.25 * len(names), sharey=True)
        for panel, (metric, title) in zip(axes, METRIC_NAMES.items(), strict=True):
            dots(panel, pen, names, [tables[name][metric] for name in names])
            panel.set_title(title)
            panel.locator_params(axis="x", nbins=4)
        where = "Training" if kind == "train" else "Test levels"
        quantity = analysis.quantity if kind == "train" else f"score on test levels, {analysis.unit('test')}"
        figure.supxlabel(f"{quantity} (optimality gap: lower is better)", fontsize=8.5, color=SOFT)
        caption = (
            f"{where}: aggregates over tasks and seeds of the {quantity}; bars are {INTERVAL}. "
            f"{pen.count(analysis.comparison.common_tasks)} "
            + (SMOOTHING if kind == "train" else "Test scores are mean returns of episodes on the full distribution.")
        )
        header = ["method", *(column for metric in METRICS for column in three(metric))]
        rows = [[name, *(value for metric in METRICS for value in bounds(tables[name][metric]))] for name in names]
        title = f"{where}: aggregates with intervals"
        found.append(Drawing(f"aggregates-{kind}", title, caption, figure, header, rows, "glance"))
    return found


def probability(pen: Pen) -> list[Drawing]:
    """Draw the chance that each method beats the baseline."""
    estimates = {name: found for name in pen.names if (found := pen.analysis.methods[name].improvement)}
    if not estimates:
        return []
    figure, [[axes]] = new_figure(1, 1, WIDTH * 0.75, 0.9 + 0.27 * len(estimates))
    dots(axes, pen, list(estimates), list(estimates.values()), 0.5)
    axes.set_xlim(-0.02, 1.02)
    base = pen.analysis.comparison.label(pen.analysis.comparison.baseline)
    axes.set_xlabel(f"probability that a run beats one of {base} on the same task")
    caption = (
        f"Probability of improvement over {base} by {pen.analysis.criterion}: the share of pairs of runs on the same "
        f"task that the method wins, ties counting half, averaged over tasks; bars are {INTERVAL}. "
        f"{pen.count(pen.analysis.comparison.common_tasks)}"
    )
    rows = [[name, *bounds(estimate)] for name, estimate in estimates.items()]
    header = ["method", *three("probability")]
    title = "Probability of improvement"
    return [Drawing("probability-of-improvement", title, caption, figure, header, rows, "glance")]


def score_against_compute(pen: Pen) -> list[Drawing]:
    """Draw score over update FLOPs, with the front of methods that nothing beats at their price."""
    analysis = pen.analysis
    points: dict[str, tuple[float, float]] = {}
    rows: list[list[object]] = []
    figure, [[axes]] = new_figure(1, 1, WIDTH, 4.0)
    for name in analysis.scored:
        result, look = analysis.methods[name], pen.looks[name]
        if result.primary is None or not math.isfinite(result.update_compute):
            continue
        iqm, at = result.primary["iqm"], result.update_compute
        if iqm.has_interval:
            pen.mark(name, *axes.plot([at] * 2, [iqm.low, iqm.high], color=look.light, alpha=0.4, linewidth=2))
        pen.mark(name, *axes.plot([at], [iqm.value], look.marker, color=look.light, markersize=7))
        rows.append([name, at, *bounds(iqm), int(name in analysis.pareto)])
        points[name] = (at, iqm.value)
    if len(points) < 2:
        return []
    front = [points[name] for name in analysis.pareto]
    axes.plot([x for x, _ in front], [y for _, y in front], color=FRAME, linewidth=1, linestyle=(0, (4, 3)), zorder=0,
              drawstyle="steps-post")  # fmt: skip
    axes.set_xlim(0, 1.15 * max(x for x, _ in points.values()))
    axes.set_ylim(axes.get_ylim())
    point_labels(axes, pen, points, 6.8, 3.4)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlabel("update FLOPs, relative to the baseline (mean over tasks)")
    axes.set_ylabel(f"IQM, {analysis.quantity}")
    caption = (
        f"Score against update FLOPs. Points are interquartile means over tasks and seeds of the {analysis.quantity}; "
        f"bars are {INTERVAL}. The dashed line is the Pareto front: nothing scored higher for the same compute. "
        f"Methods that learned nothing are not on it. {pen.count(analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    header = ["method", "update_compute", *three("iqm"), "pareto"]
    return [Drawing("score-against-compute", "Score against update FLOPs", caption, figure, header, rows, "glance")]


def performance_profiles(pen: Pen) -> list[Drawing]:
    """Draw the share of runs above each normalised score."""
    analysis = pen.analysis
    scores = {name: table for name in analysis.scored if (table := analysis.normalized(name))}
    if not scores:
        return []
    every: Array = np.concatenate([task for table in scores.values() for task in table])
    top, bottom = float(every.max()), float(every.min())
    thresholds = np.linspace(bottom - 0.05 * (top - bottom), top, 81)
    figure, [[axes]] = new_figure(1, 1, WIDTH, 3.6)
    rows: list[list[object]] = []
    for name, table in scores.items():
        value, low, high = performance_profile(table, thresholds, resamples=analysis.resamples)
        pen.line(axes, name, thresholds, value, low, high)
        rows += [[name, *map(float, row)] for row in zip(thresholds, value, low, high, strict=True)]
    legend(figure, axes, 3)
    axes.set_xlabel(f"τ: {analysis.quantity}")
    axes.set_ylabel("share of runs above τ")
    axes.set_ylim(-0.02, 1.02)
    caption = (
        f"Performance profile: the share of runs above τ of the {analysis.quantity}, tasks counting equally; bands are "
        f"{INTERVAL}. {pen.count(analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    header = ["method", "threshold", *three("share")]
    return [Drawing("performance-profile", "Performance profile", caption, figure, header, rows, "more")]
