"""From runs to findings: normalised aggregates, compute, the Pareto front, and whether a scheduler earns its keep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from adept.cost import ratio
from adept.report.comparison import Comparison
from adept.report.runs import Method, Run
from adept.report.statistics import (
    LEVEL,
    RESAMPLES,
    Estimate,
    aggregate,
    area_under_curve,
    probability_of_improvement,
    steps_to_threshold,
)

Array = npt.NDArray[np.float64]
Normalization = Literal["auto", "ratio", "progress", "none"]

REACH = 0.9
"""Share of the baseline's final score at which a run has got there."""
SMALL_BASELINE = 0.2
"""A baseline that scores less than this share of the best method makes ratios that swamp a mean."""


@dataclass(frozen=True)
class Scale:
    """How scores become comparable over tasks: (score - offset) / divisor, by task."""

    kind: str
    offset: Mapping[str, float]
    divisor: Mapping[str, float]

    def __call__(self, task: str, scores: npt.ArrayLike) -> Array:
        """Normalise scores of a task."""
        return (np.asarray(scores, np.float64) - self.offset[task]) / self.divisor[task]


@dataclass(frozen=True)
class TaskResult:
    """A method on a task."""

    done: int
    planned: int
    score: Estimate
    test: Estimate
    flops: float
    seconds: float
    epochs: float
    reached: int
    """runs that reached 90 % of the baseline's final score"""
    reach_steps: float
    """median over runs of the steps until then; infinite where half or more never did"""


@dataclass(frozen=True)
class MethodResult:
    """A method over all tasks; aggregates are None where a task has no finished run."""

    done: int
    planned: int
    train: Mapping[str, Estimate] | None
    test: Mapping[str, Estimate] | None
    improvement: Estimate | None
    """probability of improvement over the baseline"""
    area_steps: Estimate | None
    area_flops: Estimate | None
    """area under the curve up to the FLOPs of the thriftiest method, relative to the baseline's"""
    compute: float
    """FLOPs relative to the baseline, averaged over tasks"""
    seconds: float
    epochs: float
    energy: float = math.nan
    """mean kilowatt-hours of a run, where every finished one was measured"""


@dataclass(frozen=True)
class Verdict:
    """Whether an adaptive method beats the fixed ones at the ends of its arms."""

    method: str
    against_one: Estimate | None
    """probability that it scores higher than fixed K=1; None where there is no such method"""
    compute_of_largest: float
    """its FLOPs relative to always using its largest arm"""
    earned: bool | None
    """None: cannot be said"""


@dataclass(frozen=True, eq=False)
class Analysis:
    """All findings of a comparison."""

    comparison: Comparison
    scale: Scale | None
    warnings: tuple[str, ...]
    methods: Mapping[str, MethodResult]
    tasks: Mapping[tuple[str, str], TaskResult]
    verdicts: tuple[Verdict, ...]
    resamples: int

    @property
    def winner(self) -> str | None:
        """The method with the highest interquartile mean."""
        scored = {name: result.train["iqm"].value for name, result in self.methods.items() if result.train}
        return max(scored, key=lambda name: scored[name]) if scored else None

    @property
    def pareto(self) -> tuple[str, ...]:
        """The methods that no other one beats on score without spending more compute, cheapest first."""
        points = sorted(
            (result.compute, -result.train["iqm"].value, name)
            for name, result in self.methods.items()
            if result.train and math.isfinite(result.compute)
        )
        front, best = [], math.inf
        for _, cost, name in points:
            if cost < best:
                front.append(name)
                best = cost
        return tuple(front)

    def normalized(self, method: str, kind: str = "train") -> list[Array] | None:
        """Return a method's normalised scores, one array per task, or None where a task has none."""
        assert self.scale is not None
        found = []
        for task in self.comparison.common_tasks:
            scores = final_scores(self.comparison, method, task, kind)
            if not len(scores):
                return None
            found.append(test_scale(self.comparison, self.scale, task)(task, scores) if kind == "test"
                         else self.scale(task, scores))  # fmt: skip
        return found


def analyze(comparison: Comparison, *, normalization: Normalization = "auto", resamples: int = RESAMPLES) -> Analysis:
    """Compute everything that a report states."""
    scale, warnings = make_scale(comparison, normalization)
    warnings += _few_seeds(comparison)
    analysis = Analysis(comparison, scale, tuple(warnings), {}, {}, (), resamples)
    tasks = {
        (method.name, task): _task_result(comparison, scale, method.name, task)
        for method in comparison.methods
        for task in comparison.tasks
        if comparison.planned(method.name, task)
    }
    methods = {method.name: _method_result(analysis, tasks, method.name) for method in comparison.methods}
    verdicts = tuple(_verdict(comparison, method, resamples) for method in comparison.methods if method.adaptive)
    return Analysis(comparison, scale, tuple(warnings), methods, tasks, verdicts, resamples)


def final_scores(comparison: Comparison, method: str, task: str, kind: str = "train") -> Array:
    """Return the scores of the finished runs, by seed."""
    runs = comparison.finished(method, task)
    values = np.array([comparison.score(run) if kind == "train" else run.test for run in runs])
    return values if kind == "train" else values[np.isfinite(values)] if np.isfinite(values).all() else np.empty(0)


def make_scale(comparison: Comparison, normalization: Normalization) -> tuple[Scale | None, list[str]]:
    """Choose how scores are normalised, and say what a reader must know about it.

    ratio: score / the baseline's mean, as in the paper; it needs means above 0. progress: (score - start) /
    (baseline - start), where start is the baseline's first known score: the share of the baseline's improvement. auto
    takes the ratio where it can.
    """
    tasks, label = comparison.common_tasks, comparison.label(comparison.baseline)
    if not tasks:
        return None, ["No task was planned for every method, so nothing is aggregated over tasks."]
    zero = dict.fromkeys(tasks, 0.0)
    if normalization == "none":
        return Scale("none", zero, dict.fromkeys(tasks, 1.0)), []
    missing = [task for task in tasks if not comparison.finished(comparison.baseline, task)]
    if missing:
        return None, [f"{label} has no finished run on {', '.join(missing)}: scores cannot be normalised by it yet."]
    means = {task: float(final_scores(comparison, comparison.baseline, task).mean()) for task in tasks}
    below = [task for task in tasks if not means[task] > 0]
    if normalization == "ratio" or (normalization == "auto" and not below):
        if below:
            raise ValueError(
                f"scores cannot be divided by {label}, whose mean on {below[0]} is {means[below[0]]:.4g}; "
                "use the normalization progress, or another baseline"
            )
        return Scale("ratio", zero, means), _small_baselines(comparison, means)
    start = {task: float(np.mean([_first(run) for run in comparison.finished(comparison.baseline, task)]))
             for task in tasks}  # fmt: skip
    still = [task for task in tasks if not means[task] > start[task]]
    if still and len(tasks) == 1:
        return Scale("none", zero, {tasks[0]: 1.0}), [
            f"{label} did not improve on {tasks[0]} (from {start[tasks[0]]:.4g} to {means[tasks[0]]:.4g}): "
            "scores are plain returns."
        ]
    if still:
        return None, [
            f"{label} did not improve on {', '.join(still)} (from {start[still[0]]:.4g} to {means[still[0]]:.4g}), so "
            "scores cannot be measured against its progress; aggregates are left out. Choose another baseline."
        ]
    because = f" since its mean on {below[0]} is not above 0" if below else ""
    text = f"Scores are shares of {label}'s improvement over its own start (1 = as far as {label} came){because}."
    return Scale("progress", start, {task: means[task] - start[task] for task in tasks}), [text]


def test_scale(comparison: Comparison, scale: Scale, task: str) -> Scale:
    """Return the scale for test levels: the baseline's own test scores take the place of its training scores."""
    if scale.kind == "none":
        return scale
    mean = float(final_scores(comparison, comparison.baseline, task, "test").mean())
    return Scale(scale.kind, scale.offset, {task: mean - scale.offset[task]})


test_scale.__test__ = False  # type: ignore[attr-defined]  # pytest takes the name for a test


def has_test_scores(comparison: Comparison) -> bool:
    """Say whether the baseline was evaluated on test levels on every task, with scores to divide by."""
    tables = [final_scores(comparison, comparison.baseline, task, "test") for task in comparison.common_tasks]
    return bool(tables) and all(len(table) and table.mean() > 0 for table in tables)


def _first(run: Run) -> float:
    known = run.score[np.isfinite(run.score)]
    return float(known[0]) if len(known) else math.nan


def _small_baselines(comparison: Comparison, means: Mapping[str, float]) -> list[str]:
    warnings = []
    for task, mean in means.items():
        others = [final_scores(comparison, method.name, task) for method in comparison.methods]
        best = max((float(scores.mean()) for scores in others if len(scores)), default=mean)
        if mean < SMALL_BASELINE * best:
            warnings.append(
                f"{comparison.label(comparison.baseline)} scores only {mean:.3g} on {task}, where the best method has "
                f"{best:.3g}: ratios there are large and swamp the mean. Read the IQM and the table by task."
            )
    return warnings


def _few_seeds(comparison: Comparison) -> list[str]:
    counts = [len(comparison.finished(method.name, task)) for method in comparison.methods
              for task in comparison.tasks if comparison.planned(method.name, task)]  # fmt: skip
    fewest = min((count for count in counts if count), default=0)
    if fewest == 1:
        return ["Some cells have one finished run: there is no interval where that is so."]
    if 0 < fewest < 5:
        return [f"Some cells have only {fewest} finished runs: bootstrap intervals of so few are too narrow."]
    return []


def _task_result(comparison: Comparison, scale: Scale | None, method: str, task: str) -> TaskResult:
    runs = comparison.finished(method, task)
    reach = math.nan
    reached = 0
    if scale is not None and task in scale.divisor and scale.kind != "none":
        threshold = scale.offset[task] + REACH * scale.divisor[task]
        steps = [steps_to_threshold(run.steps, run.score, threshold) for run in runs]
        reached = sum(math.isfinite(value) for value in steps)
        reach = sorted(steps)[len(steps) // 2] if steps else math.nan
    return TaskResult(
        len(runs),
        len(comparison.planned(method, task)),
        _estimate(final_scores(comparison, method, task)),
        _estimate(final_scores(comparison, method, task, "test")),
        mean_total(comparison, runs, "flops"),
        mean_total(comparison, runs, "seconds"),
        float(np.mean([run.epochs_done.mean() for run in runs])) if runs else math.nan,
        reached,
        reach,
    )


def mean_total(comparison: Comparison, runs: Sequence[Run], column: str) -> float:
    """Return a cumulative column at the budget, averaged over runs."""
    return float(np.mean([comparison.total(run, column) for run in runs])) if runs else math.nan


def _estimate(scores: Array) -> Estimate:
    return aggregate([scores])["mean"] if len(scores) else Estimate(math.nan)


def _method_result(analysis: Analysis, tasks: Mapping[tuple[str, str], TaskResult], name: str) -> MethodResult:
    comparison, baseline = analysis.comparison, analysis.comparison.baseline
    cells = {task: tasks[name, task] for task in comparison.tasks if (name, task) in tasks}
    train = test = improvement = area_steps = area_flops = None
    if analysis.scale is not None:
        scores, rivals = analysis.normalized(name), analysis.normalized(baseline)
        train = aggregate(scores, resamples=analysis.resamples) if scores else None
        if scores and rivals and name != baseline:
            improvement = probability_of_improvement(scores, rivals, resamples=analysis.resamples)
        if has_test_scores(comparison) and (tested := analysis.normalized(name, "test")):
            test = aggregate(tested, resamples=analysis.resamples)
        if train is not None:
            area_steps, area_flops = (_area(analysis, name, column) for column in ("steps", "flops"))
    ratios = [cells[task].flops / tasks[baseline, task].flops for task in comparison.common_tasks]
    energies = [run.energy for task in cells for run in comparison.finished(name, task)]
    return MethodResult(
        sum(cell.done for cell in cells.values()),
        sum(cell.planned for cell in cells.values()),
        train, test, improvement, area_steps, area_flops,
        float(np.mean(ratios)) if ratios else math.nan,
        float(np.mean([cell.seconds for cell in cells.values()])) if cells else math.nan,
        float(np.mean([cell.epochs for cell in cells.values()])) if cells else math.nan,
        float(np.mean(energies)) if energies else math.nan,
    )  # fmt: skip


def _area(analysis: Analysis, method: str, column: str) -> Estimate | None:
    """Return the mean over tasks of the area under the normalised curve, up to what every method has spent."""
    comparison, scale = analysis.comparison, analysis.scale
    assert scale is not None
    tables = []
    for task in comparison.common_tasks:
        spent = [mean_total(comparison, comparison.finished(entry.name, task), column) for entry in comparison.methods]
        known = [value for value in spent if math.isfinite(value)]
        runs = comparison.finished(method, task)
        areas = [area_under_curve(getattr(run, column), scale(task, run.score), min(known, default=0)) for run in runs]
        tables.append([area for area in areas if math.isfinite(area)])
    return aggregate(tables, resamples=analysis.resamples)["mean"] if all(tables) else None


def _verdict(comparison: Comparison, method: Method, resamples: int) -> Verdict:
    assert method.config is not None
    runs = [run for task in comparison.tasks for run in comparison.finished(method.name, task)]
    largest = float(np.mean([_share_of_largest(run) for run in runs])) if runs else math.nan
    rivals = [other.name for other in comparison.methods
              if other.fixed_epochs == 1 and other.config and other.config.algo == method.config.algo]  # fmt: skip
    tasks = [task for task in comparison.tasks
             if rivals and comparison.finished(method.name, task) and comparison.finished(rivals[0], task)]  # fmt: skip
    if not runs or not tasks:
        return Verdict(method.name, None, largest, None)
    chance = probability_of_improvement(
        [final_scores(comparison, method.name, task) for task in tasks],
        [final_scores(comparison, rivals[0], task) for task in tasks],
        resamples=resamples, level=LEVEL,
    )  # fmt: skip
    earned = (chance.low > 0.5 and largest < 1) if chance.has_interval else None
    return Verdict(method.name, chance, largest, earned)


def _share_of_largest(run: Run) -> float:
    """Return a run's FLOPs relative to always taking its largest arm."""
    config = run.config
    assert config is not None
    return ratio(config, float(np.mean(run.epochs_done)))
