"""From runs to findings: normalised aggregates, tests against the baseline, compute, and the Pareto front."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from adept.report.comparison import REACH, Comparison
from adept.report.normalization import MARGIN, Normalization, Scale, make_scale, scale_of_test_levels, without_progress
from adept.report.statistics import (
    NONE,
    RESAMPLES,
    Array,
    Estimate,
    aggregate,
    difference,
    holm,
    iqm,
    permutation_p,
    probability_of_improvement,
    steps_to_threshold,
)

WORDS = {
    "final-score": "final score",
    "mean-score": "mean score over the run",
    "steps-to-threshold": "steps to threshold",
    "test": "score on test levels",
}


@dataclass(frozen=True)
class TaskResult:
    """A method on a task."""

    done: int
    planned: int
    score: Estimate
    """mean final score"""
    area: Estimate
    """mean of the score over the run"""
    test: Estimate
    flops: float
    update_flops: float
    processor: float
    epochs: float
    reached: int
    """runs that reached the threshold"""
    reach_steps: float
    """median over runs of the steps until then; infinite where half or more never did"""
    difference: Estimate = NONE
    """of the normalised criterion's mean to the baseline's"""
    p: float = math.nan
    """that there is no such difference, corrected for the method's tasks"""


@dataclass(frozen=True)
class MethodResult:
    """A method over all tasks; there are no aggregates where a task has no finished run."""

    done: int
    planned: int
    aggregates: Mapping[str, Mapping[str, Estimate]]
    """by measure: the criterion, the final score, the mean score, test"""
    iqm: Estimate
    """of the criterion"""
    improvement: Estimate
    """probability of improvement over the baseline"""
    compute: float
    """FLOPs relative to the baseline, averaged over tasks"""
    update_compute: float
    """FLOPs of updates alone, likewise"""
    processor: float
    epochs: float
    phases: Mapping[str, float]
    """shares of its runs' FLOPs: sampling, update, monitoring; empty for imported logs"""
    energy: float
    """mean kilowatt-hours of a run, where every finished one was measured"""
    difference: Estimate
    """of its IQM to the baseline's"""
    p: float
    """that there is no such difference, corrected for the number of methods (Holm)"""
    p_not_worse: float
    """that its IQM is lower by the margin or more, corrected likewise"""

    @property
    def standing(self) -> str:
        """Against the baseline: better, worse, not worse (within the margin), undecided; empty for the baseline."""
        if not self.difference:
            return ""
        if self.p < 0.05:
            return "better" if self.difference.value > 0 else "worse"
        return "not worse" if self.p_not_worse < 0.05 else "undecided"


@dataclass(frozen=True, eq=False)
class Analysis:
    """All findings of a comparison."""

    comparison: Comparison
    scales: Mapping[str, Scale | None]
    """by measure"""
    warnings: tuple[str, ...]
    resamples: int
    methods: Mapping[str, MethodResult] = dataclasses.field(default_factory=dict)
    tasks: Mapping[tuple[str, str], TaskResult] = dataclasses.field(default_factory=dict)

    @property
    def scale(self) -> Scale | None:
        """The scale of the criterion."""
        return self.scales[self.comparison.criterion]

    @property
    def criterion(self) -> str:
        """The criterion in words."""
        goal = self.comparison.threshold
        if self.comparison.criterion != "steps-to-threshold":
            return WORDS[self.comparison.criterion]
        return f"steps to {REACH:.0%} of the baseline's score" if goal is None else f"steps to a score of {goal:g}"

    @property
    def quantity(self) -> str:
        """What is drawn of the criterion, with its unit; more is better."""
        if self.comparison.criterion == "steps-to-threshold":
            return f"share of the budget left at {self.criterion.removeprefix('steps to ')}"
        return f"{self.criterion}, {self.unit()}"

    def unit(self, measure: str | None = None) -> str:
        """Name what a measure's normalised values are measured in; by default the criterion's."""
        scale = self.scales[measure or self.comparison.criterion]
        return scale.unit(self.comparison.label(self.comparison.baseline)) if scale else "as mean return"

    def iqm(self, name: str) -> float:
        """Return a method's IQM of the criterion; NaN where there is none."""
        return self.methods[name].iqm.value

    @cached_property
    def scored(self) -> tuple[str, ...]:
        """The methods with results on every task."""
        return tuple(name for name, result in self.methods.items() if result.iqm)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The methods that are tested against the baseline."""
        base = self.comparison.baseline
        return tuple(name for name in self.scored if name != base) if base in self.scored else ()

    def on_task(self, task: str) -> dict[str, TaskResult]:
        """Return the results on a task by method."""
        return {name: found for (name, place), found in self.tasks.items() if place == task}

    def standing(self, word: str) -> list[str]:
        """Return the methods of a standing, the best first."""
        return sorted((name for name in self.rivals if self.methods[name].standing == word), key=self.iqm, reverse=True)

    @property
    def winner(self) -> str | None:
        """The method with the highest interquartile mean; whether that means anything, p tells."""
        return max(self.scored, key=self.iqm) if self.scored else None

    @cached_property
    def pareto(self) -> tuple[str, ...]:
        """The methods that no other one beats on score without more update FLOPs, cheapest first.

        One that learned nothing is on no front, however cheap.
        """
        points = sorted((self.methods[name].update_compute, -self.iqm(name), name) for name in self.scored
                        if math.isfinite(self.methods[name].update_compute) and self.learned(name))  # fmt: skip
        front: list[str] = []
        for _, _, name in points:
            front += [name] if not front or self.iqm(name) > self.iqm(front[-1]) else []
        return tuple(front)

    def learned(self, name: str, task: str = "") -> bool:
        """Say whether a method improved on a task; over all, by more than a twentieth of the baseline's way."""
        scale, criterion = self.scale, self.comparison.criterion
        if task and criterion == "steps-to-threshold":
            return self.tasks[name, task].reached > 0
        if task:
            return float(self.comparison.scores(name, task, criterion).mean()) > self.comparison.start(task)
        if scale is None or scale.kind == "none":
            return True
        starts = [0.0 if scale.kind == "budget" else float(scale(task, self.comparison.start(task)))
                  for task in self.comparison.common_tasks]  # fmt: skip
        floor = float(np.mean(starts)) if all(map(math.isfinite, starts)) else 0.0
        return self.iqm(name) > floor + MARGIN * max(1 - floor, 0.0)

    def normalized(self, method: str, measure: str | None = None, task: str = "") -> list[Array] | None:
        """Return a measure's normalised values, an array per common task, or for one task; None where one has none."""
        measure = measure or self.comparison.criterion
        scale = self.scales.get(measure)
        if scale is None:
            return None
        tasks = (task,) if task else self.comparison.common_tasks
        found = {place: self.comparison.scores(method, place, measure) for place in tasks}
        return [scale(place, scores) for place, scores in found.items()] if all(map(len, found.values())) else None

    def fewest_runs(self, names: Iterable[str], task: str = "") -> int:
        """Return the fewest finished runs of some methods on a task; by default on any common one."""
        tasks = (task,) if task else self.comparison.common_tasks
        return min((self.tasks[name, place].done for name in names for place in tasks), default=0)

    def margin(self, rival: str) -> float:
        """Return what counts as no loss against a rival, in the criterion's normalised unit."""
        scores = self.normalized(rival)
        plain = self.scale is not None and self.scale.kind == "none"
        return MARGIN * abs(iqm(scores)) if plain and scores else MARGIN

    def p_value(
        self, method: str, rival: str, task: str = "", *, margin: float = 0.0, two_sided: bool = False
    ) -> float:
        """Return the p-value of a permutation test of two methods' IQMs, of means on one task; NaN without scores."""
        mine, theirs = self.normalized(method, task=task), self.normalized(rival, task=task)
        if mine is None or theirs is None:
            return math.nan
        metric, draws = "mean" if task else "iqm", 5 * self.resamples
        return permutation_p(mine, theirs, metric=metric, margin=margin, two_sided=two_sided, draws=draws)

    def gap(self, method: str, rival: str, task: str = "") -> Estimate:
        """Return how far one method's IQM, or its mean on one task, is above another's; both must have one."""
        mine, theirs = self.normalized(method, task=task), self.normalized(rival, task=task)
        return difference(mine or [], theirs or [], metric="mean" if task else "iqm", resamples=self.resamples)


def analyze(comparison: Comparison, *, normalization: Normalization = "auto", resamples: int = RESAMPLES) -> Analysis:
    """Compute everything that a report states."""
    comparison, warnings = without_progress(comparison, normalization, ("final-score", comparison.criterion))
    scales: dict[str, Scale | None] = {}
    for measure in dict.fromkeys(("final-score", "mean-score", comparison.criterion)):
        scales[measure], own = make_scale(comparison, normalization, measure)
        warnings += own if measure in ("final-score", comparison.criterion) else []
    scales["test"] = scale_of_test_levels(comparison, scales["final-score"])
    if scales[comparison.criterion] is None and comparison.criterion == "mean-score":
        warnings.append("The mean score over the run cannot be normalised.")
    analysis = Analysis(comparison, scales, (), resamples)
    tasks = {(method.name, task): found for method in comparison.methods
             for task, found in _task_results(analysis, method.name).items()}  # fmt: skip
    fewest = min((result.done for result in tasks.values() if result.done), default=0)
    if fewest == 1:
        warnings.append("Some cells have one finished run: there is no interval where that is so.")
    elif 0 < fewest < 5:
        warnings.append(f"Some cells have only {fewest} finished runs: bootstrap intervals of so few are too narrow.")
    analysis = dataclasses.replace(analysis, warnings=tuple(dict.fromkeys(warnings)), tasks=tasks)
    return dataclasses.replace(analysis, methods=_method_results(analysis))


def _mean(values: Iterable[float]) -> float:
    """Return the mean, or NaN where there is nothing or something is not known."""
    found = list(values)
    return float(np.mean(found)) if found else math.nan


def _task_results(analysis: Analysis, method: str) -> dict[str, TaskResult]:
    """Return a method's results, and compare it with the baseline task by task; p is corrected for its tasks."""
    comparison, base = analysis.comparison, analysis.comparison.baseline
    tested = [task for task in comparison.common_tasks if method != base
              and analysis.normalized(method, task=task) and analysis.normalized(base, task=task)]  # fmt: skip
    p_values = dict(zip(tested, holm([analysis.p_value(method, base, task, two_sided=True) for task in tested]),
                        strict=True))  # fmt: skip
    found = {}
    for task in comparison.tasks:
        if not (planned := comparison.planned(method, task)):
            continue
        runs = comparison.finished(method, task)
        steps = sorted(steps_to_threshold(run.steps, run.score, comparison.thresholds[task]) for run in runs)
        measures = (comparison.scores(method, task, name) for name in ("final-score", "mean-score", "test"))
        score, area, test = (aggregate([values])["mean"] if len(values) else NONE for values in measures)
        known = [run.epochs_done[np.isfinite(run.epochs_done)] for run in runs]
        found[task] = TaskResult(
            done=len(runs), planned=len(planned), score=score, area=area, test=test,
            **{column: _mean(comparison.total(run, column) for run in runs)
               for column in ("flops", "update_flops", "processor")},
            epochs=_mean(float(values.mean()) if len(values) else math.nan for values in known),
            reached=sum(map(math.isfinite, steps)),
            reach_steps=steps[len(steps) // 2] if steps else math.nan,
            difference=analysis.gap(method, base, task) if task in tested else NONE,
            p=p_values.get(task, math.nan),
        )  # fmt: skip
    return found


def _method_results(analysis: Analysis) -> dict[str, MethodResult]:
    """Return every method's results over all tasks, its IQM tested against the baseline's.

    The tests are for a difference, and for no loss beyond the margin; each kind is corrected for its number.
    """
    comparison, base = analysis.comparison, analysis.comparison.baseline
    names = [method.name for method in comparison.methods]
    scores = {name: tables for name in names if (tables := analysis.normalized(name))}
    rivals = [name for name in scores if name != base and base in scores]
    different = holm([analysis.p_value(name, base, two_sided=True) for name in rivals])
    not_worse = holm([analysis.p_value(name, base, margin=analysis.margin(base)) for name in rivals])
    tests = dict(zip(rivals, zip(different, not_worse, strict=True), strict=True))
    found = {}
    for name in names:
        aggregates = {measure: aggregate(values, resamples=analysis.resamples) for measure in analysis.scales
                      if (values := analysis.normalized(name, measure))}  # fmt: skip
        cells = {task: cell for (method, task), cell in analysis.tasks.items() if method == name}
        # Epochs, of logs, and FLOPs have no ratio.
        alike = (comparison.method(name).config is None) == (comparison.method(base).config is None)
        pairs = [(cells[task], analysis.tasks[base, task]) for task in comparison.common_tasks if alike]
        runs = [run for task in cells for run in comparison.finished(name, task)]
        phases = [run.phases for run in runs if run.phases]
        p, p_not_worse = tests.get(name, (math.nan, math.nan))
        found[name] = MethodResult(
            done=sum(cell.done for cell in cells.values()), planned=sum(cell.planned for cell in cells.values()),
            aggregates=aggregates,
            iqm=aggregates[comparison.criterion]["iqm"] if name in scores else NONE,
            improvement=probability_of_improvement(scores[name], scores[base], resamples=analysis.resamples)
            if name in tests else NONE,
            compute=_mean(mine.flops / (theirs.flops or math.nan) for mine, theirs in pairs),
            update_compute=_mean(mine.update_flops / (theirs.update_flops or math.nan) for mine, theirs in pairs),
            processor=_mean(cell.processor for cell in cells.values()),
            epochs=_mean(cell.epochs for cell in cells.values()),
            phases={phase: _mean(parts[phase] for parts in phases) for phase in phases[0]} if phases else {},
            energy=_mean(run.energy for run in runs),
            difference=analysis.gap(name, base) if name in tests else NONE, p=p, p_not_worse=p_not_worse,
        )  # fmt: skip
    return found
