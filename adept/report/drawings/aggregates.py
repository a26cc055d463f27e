"""Figures over all tasks: scores and compute, four aggregates, chances of improvement, profiles."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from adept.report.analysis import has_test_scores
from adept.report.figures import INTERVAL, SMOOTHING, WIDTH, Drawing, Pen, legend, new_figure
from adept.report.statistics import Estimate, performance_profile
from adept.report.summary import unit
from adept.report.tables import bounds, three

METRIC_NAMES = {"iqm": "IQM", "mean": "Mean", "median": "Median", "optimality_gap": "Optimality gap"}


def dots(axes: Axes, pen: Pen, names: list[str], estimates: list[Estimate], line: float | None = None) -> None:
    """Draw a row per method: the value and its interval."""
    if line is not None:
        axes.axvline(line, color="#9aa0a6", linewidth=0.9, linestyle=(0, (4, 3)))
    for row, (name, estimate) in enumerate(zip(names, estimates, strict=True)):
        if not math.isfinite(estimate.value):
            continue
        colour = pen.looks[name].light
        if estimate.has_interval:
            axes.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=5, alpha=0.35,
                      solid_capstyle="butt")  # fmt: skip
        axes.plot([estimate.value], [row], pen.looks[name].marker, color=colour, markersize=5)
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
        colour, right_of = pen.looks[name].light, u > x
        end = (left + (u if right_of else u + wide) / width * (right - left), low + v / height * (high - low))
        axes.plot([points[name][0], end[0]], [points[name][1], end[1]], color=colour, linewidth=0.6, alpha=0.6)
        axes.annotate(pen.label(name), end, xytext=(1.5 if right_of else -1.5, 0), textcoords="offset points",
                      ha="left" if right_of else "right", va="center", fontsize=8, color=colour,
                      path_effects=[withStroke(linewidth=2.5, foreground="white")])  # fmt: skip


def scored(pen: Pen) -> list[str]:
    """Return the methods with results on every task."""
    return [name for name in pen.names if pen.analysis.methods[name].train]


def training_and_overhead(pen: Pen) -> list[Drawing]:
    """Draw the aggregated training score beside the compute it took."""
    names = [name for name in scored(pen) if math.isfinite(pen.analysis.methods[name].compute)]
    if len(names) < 2:
        return []
    results = [pen.analysis.methods[name] for name in names]
    means = [result.train["mean"] for result in results if result.train]
    figure, [[left, right]] = new_figure(1, 2, WIDTH, 0.9 + 0.27 * len(names), sharey=True, width_ratios=(3, 2))
    dots(left, pen, names, means, None if pen.analysis.scale and pen.analysis.scale.kind == "none" else 1.0)
    left.set_title("Training score")
    left.set_xlabel(f"mean over tasks, {unit(pen.analysis)}")
    right.barh(range(len(names)), [result.compute for result in results], height=0.62,
               color=[pen.looks[name].light for name in names])  # fmt: skip
    for row, result in enumerate(results):
        right.annotate(f"{100 * result.compute:.0f} %", (result.compute, row), xytext=(4, 0),
                       textcoords="offset points", va="center", fontsize=8)  # fmt: skip
    right.set_xlim(0, 1.18 * max(result.compute for result in results))
    right.tick_params(left=False, labelleft=False)
    right.grid(axis="y", visible=False)
    right.set_title("Compute")
    right.set_xlabel("FLOPs relative to the baseline")
    caption = (
        f"Training score over all tasks, {unit(pen.analysis)}: mean and {INTERVAL}; and FLOPs of sampling and updates "
        f"relative to {pen.analysis.comparison.label(pen.analysis.comparison.baseline)}, averaged over tasks. "
        f"{pen.count(pen.analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    rows = [[name, *bounds(mean), result.compute] for name, mean, result in zip(names, means, results, strict=True)]
    header = ["method", *three("mean"), "compute"]
    return [Drawing("training-and-overhead", "Training score and compute", caption, figure, header, rows)]


def aggregates(pen: Pen) -> list[Drawing]:
    """Draw mean, median, IQM and optimality gap on training levels, and on test levels where there are scores."""
    found = []
    kinds = ["train", *(["test"] if has_test_scores(pen.analysis.comparison) else [])]
    for kind in kinds:
        tables = {name: getattr(pen.analysis.methods[name], kind) for name in pen.names}
        names = [name for name in pen.names if tables[name]]
        if not names:
            continue
        figure, [axes] = new_figure(1, 4, WIDTH, 0.9 + 0.25 * len(names), sharey=True)
        for panel, (metric, title) in zip(axes, METRIC_NAMES.items(), strict=True):
            dots(panel, pen, names, [tables[name][metric] for name in names])
            panel.set_title(title)
            panel.locator_params(axis="x", nbins=4)
        where = "Training" if kind == "train" else "Test levels"
        figure.supxlabel(
            f"score, {unit(pen.analysis)} (optimality gap: lower is better)", fontsize=8.5, color="#4a4f57"
        )
        caption = (
            f"{where}: aggregates over tasks and seeds, {unit(pen.analysis)}; bars are {INTERVAL}. "
            f"{pen.count(pen.analysis.comparison.common_tasks)} "
            + (SMOOTHING if kind == "train" else "Test scores are mean returns of episodes on the full distribution.")
        )
        header = ["method", *(column for metric in METRIC_NAMES for column in three(metric))]
        rows = [[name, *(value for metric in METRIC_NAMES for value in bounds(tables[name][metric]))] for name in names]
        title = f"{where}: aggregates with intervals"
        found.append(Drawing(f"aggregates-{kind}", title, caption, figure, header, rows))
    return found


def probability(pen: Pen) -> list[Drawing]:
    """Draw the chance that each method beats the baseline."""
    names = [name for name in pen.names if pen.analysis.methods[name].improvement]
    if not names:
        return []
    estimates = [found for name in names if (found := pen.analysis.methods[name].improvement)]
    figure, [[axes]] = new_figure(1, 1, WIDTH * 0.75, 0.9 + 0.27 * len(names))
    dots(axes, pen, names, estimates, 0.5)
    axes.set_xlim(-0.02, 1.02)
    base = pen.analysis.comparison.label(pen.analysis.comparison.baseline)
    axes.set_xlabel(f"probability that a run beats one of {base} on the same task")
    caption = (
        f"Probability of improvement over {base}: the share of pairs of runs on the same task that the method wins, "
        f"ties counting half, averaged over tasks; bars are {INTERVAL}. "
        f"{pen.count(pen.analysis.comparison.common_tasks)}"
    )
    rows = [[name, *bounds(estimate)] for name, estimate in zip(names, estimates, strict=True)]
    title = "Probability of improvement"
    return [Drawing("probability-of-improvement", title, caption, figure, ["method", *three("probability")], rows)]


def score_against_compute(pen: Pen) -> list[Drawing]:
    """Draw score over compute, with the front of methods that nothing beats at their price."""
    names = [name for name in scored(pen) if math.isfinite(pen.analysis.methods[name].compute)]
    if len(names) < 2:
        return []
    figure, [[axes]] = new_figure(1, 1, WIDTH, 4.0)
    rows: list[list[object]] = []
    ends = {}
    for name in names:
        result = pen.analysis.methods[name]
        assert result.train is not None
        iqm, look = result.train["iqm"], pen.looks[name]
        if iqm.has_interval:
            axes.plot([result.compute] * 2, [iqm.low, iqm.high], color=look.light, alpha=0.4, linewidth=2)
        axes.plot([result.compute], [iqm.value], look.marker, color=look.light, markersize=7)
        rows.append([name, result.compute, *bounds(iqm), int(name in pen.analysis.pareto)])
        ends[name] = iqm.value
    front = [pen.analysis.methods[name] for name in pen.analysis.pareto]
    x = [result.compute for result in front]
    y = [result.train["iqm"].value for result in front if result.train]
    axes.plot(x, y, color="#9aa0a6", linewidth=1, linestyle=(0, (4, 3)), zorder=0, drawstyle="steps-post")
    right = max(pen.analysis.methods[name].compute for name in names)
    axes.set_xlim(0, 1.15 * right)
    axes.set_ylim(axes.get_ylim())
    points = {name: (pen.analysis.methods[name].compute, value) for name, value in ends.items()}
    point_labels(axes, pen, points, 6.8, 3.4)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlabel("FLOPs relative to the baseline")
    axes.set_ylabel(f"IQM, {unit(pen.analysis)}")
    caption = (
        f"Score against compute. Points are interquartile means over tasks and seeds, {unit(pen.analysis)}; bars are "
        f"{INTERVAL}. The dashed line is the Pareto front: nothing scored higher for the same compute. "
        f"{pen.count(pen.analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    header = ["method", "compute", *three("iqm"), "pareto"]
    return [Drawing("score-against-compute", "Score against compute", caption, figure, header, rows)]


def profile_thresholds(pen_scores: list[list[np.ndarray]]) -> np.ndarray:
    """Return thresholds from just below the lowest score to the highest."""
    top = max(float(task.max()) for scores in pen_scores for task in scores)
    bottom = min(float(task.min()) for scores in pen_scores for task in scores)
    return np.linspace(bottom - 0.05 * (top - bottom), top, 81)


def performance_profiles(pen: Pen) -> list[Drawing]:
    """Draw the share of runs above each normalised score."""
    names = scored(pen)
    scores = {name: table for name in names if (table := pen.analysis.normalized(name))}
    if not scores:
        return []
    thresholds = profile_thresholds(list(scores.values()))
    figure, [[axes]] = new_figure(1, 1, WIDTH, 3.6)
    rows: list[list[object]] = []
    for name, table in scores.items():
        value, low, high = performance_profile(table, thresholds, resamples=pen.analysis.resamples)
        pen.line(axes, name, thresholds, value, low, high)
        rows += [[name, *map(float, row)] for row in zip(thresholds, value, low, high, strict=True)]
    legend(figure, axes, 3)
    axes.set_xlabel(f"score τ, {unit(pen.analysis)}")
    axes.set_ylabel("share of runs above τ")
    axes.set_ylim(-0.02, 1.02)
    caption = (
        f"Performance profile: the share of runs whose score is above τ, tasks counting equally; bands are {INTERVAL}. "
        f"{pen.count(pen.analysis.comparison.common_tasks)} {SMOOTHING}"
    )
    header = ["method", "threshold", *three("share")]
    return [Drawing("performance-profile", "Performance profile", caption, figure, header, rows)]
