"""The findings in plain words: who won, by how much, at what compute, whether it is significant, what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from adept.report.analysis import Analysis, Verdict
from adept.report.statistics import LEVEL, Estimate, probability_of_improvement


@dataclass(frozen=True)
class Worth:
    """What an adaptive method is worth: earned, not earned or unknown, and why."""

    label: str
    state: str
    reason: str

    @property
    def sentence(self) -> str:
        """The whole of it."""
        claim = {"earned": " earns its keep: it ", "not earned": " has not earned its keep: it "}.get(self.state, " ")
        return f"{self.label}{claim}{self.reason}."


@dataclass(frozen=True)
class Summary:
    """Sentences, the most important one first."""

    headline: str
    significance: str
    compute: str
    keep: tuple[Worth, ...]
    cells: str
    warnings: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """All of them."""
        parts = [self.headline, self.significance, self.compute, *(worth.sentence for worth in self.keep)]
        return [text for text in [*parts, self.cells, *self.warnings] if text]


def summarize(analysis: Analysis) -> Summary:
    """Say what was found."""
    keep = tuple(_keep(analysis, verdict) for verdict in analysis.verdicts)
    headline, significance, compute = _headline(analysis), _significance(analysis), _compute(analysis)
    return Summary(headline, significance, compute, keep, _cells(analysis), analysis.warnings)


def number(value: float, digits: int = 2) -> str:
    """Return a number as a reader wants it; a dash where there is none."""
    if not math.isfinite(value):
        return "never" if value == math.inf else "–"
    return f"{value:.{digits}f}" if abs(value) < 100 else f"{value:,.0f}"


def interval(estimate: Estimate | None, digits: int = 2) -> str:
    """Return a value with its interval."""
    if estimate is None:
        return "–"
    text = number(estimate.value, digits)
    return (
        f"{text} [{number(estimate.low, digits)}, {number(estimate.high, digits)}]" if estimate.has_interval else text
    )


def percent(value: float) -> str:
    """Return a share as a whole number of percent."""
    return f"{100 * value:.0f} %" if math.isfinite(value) else "–"


def unit(analysis: Analysis) -> str:
    """Name what normalised scores are measured in."""
    label = analysis.comparison.label(analysis.comparison.baseline)
    kind = analysis.scale.kind if analysis.scale else "none"
    names = {"ratio": f"relative to {label}", "progress": f"as a share of {label}'s improvement"}
    return names.get(kind, "as mean return")


def _rival(analysis: Analysis) -> str | None:
    """Return the method that stands against the baseline: the winner, or the best other one."""
    baseline = analysis.comparison.baseline
    scored = {name: result.train["iqm"].value for name, result in analysis.methods.items() if result.train}
    scored.pop(baseline, None)
    return max(scored, key=lambda name: scored[name]) if scored else None


def _headline(analysis: Analysis) -> str:
    comparison, winner = analysis.comparison, analysis.winner
    if winner is None:
        complete = all(comparison.finished(method.name, task) for method in comparison.methods
                       for task in comparison.common_tasks)  # fmt: skip
        if analysis.scale is None and comparison.common_tasks and complete:
            return "There is no result over all tasks: the baseline offers no scale for them. Compare task by task."
        return "There is no result over all tasks yet: no method has a finished run on every task."
    rival = _rival(analysis)
    if rival is None:
        return f"{comparison.label(winner)} is the only method with results on every task."
    result, base = analysis.methods[rival], analysis.methods[comparison.baseline]
    assert result.train is not None
    score, other = interval(result.train["iqm"]), interval(base.train["iqm"] if base.train else None)
    label = comparison.label(comparison.baseline)
    cost = f", with {percent(result.compute)} of its compute" if math.isfinite(result.compute) else ""
    kind = analysis.scale.kind if analysis.scale else "none"
    one = {"ratio": f" (1 is {label}'s mean score)", "progress": f" (1 is {label}'s mean improvement)"}.get(kind, "")
    if winner == comparison.baseline:
        return (
            f"{label}, the baseline, scored highest: an interquartile mean of {other}{one}. "
            f"Next is {comparison.label(rival)}: {score}{cost}."
        )
    return (
        f"{comparison.label(winner)} scored highest: an interquartile mean of {score} against {other} of {label}"
        f"{cost}{one}."
    )


def _significance(analysis: Analysis) -> str:
    comparison, rival = analysis.comparison, _rival(analysis)
    if analysis.scale is None or rival is None:
        return ""
    mine, theirs = analysis.normalized(rival), analysis.normalized(comparison.baseline)
    if mine is None or theirs is None:
        return ""
    others = sum(result.train is not None for result in analysis.methods.values()) - 1
    # The rival was picked as the best of several, so its interval is widened for that many comparisons (Bonferroni).
    chance = probability_of_improvement(mine, theirs, resamples=5 * analysis.resamples, level=1 - (1 - LEVEL) / others)
    who, base = comparison.label(rival), comparison.label(comparison.baseline)
    fact = f"a run of {who} beats a run of {base} on the same task with probability {interval(chance)}"
    if not chance.has_interval:
        return f"Whether that is chance cannot be said from one seed: {fact}."
    if smallest_p(map(len, mine), map(len, theirs)) > (1 - LEVEL) / others:
        return f"There are too few runs to tell that from chance: {fact}."
    corrected = f", corrected for {others} comparisons" if others > 1 else ""
    if chance.excludes(0.5):
        return f"The difference is significant: {fact}{corrected}."
    return f"The difference is not significant: {fact}{corrected}, and that interval includes ½."


def smallest_p(mine: Iterable[int], theirs: Iterable[int]) -> float:
    """Return the smallest two-sided p that a rank test can reach with so many runs on each task: 2/Π C(n+m, n).

    A bootstrap of two runs against two has intervals of no width, but no test of them could ever be significant.
    """
    return 2 / math.prod(math.comb(n + m, n) for n, m in zip(mine, theirs, strict=True))


def _compute(analysis: Analysis) -> str:
    front = [analysis.comparison.label(name) for name in analysis.pareto]
    if len(front) < 2:
        return f"Nothing scored higher than {front[0]} at any compute, nor as high for less." if front else ""
    return f"Best for their compute, from cheap to dear: {', '.join(front[:-1])} and {front[-1]}."


def _keep(analysis: Analysis, verdict: Verdict) -> Worth:
    method = analysis.comparison.method(verdict.method)
    assert method.config is not None
    if not math.isfinite(verdict.compute_of_largest):
        return Worth(method.label, "unknown", "has no finished run yet")
    spends = f"spends {percent(verdict.compute_of_largest)} of the compute of always K={max(method.config.arms)}"
    if verdict.against_one is None:
        return Worth(
            method.label,
            "unknown",
            f"{spends}; whether it earns its keep cannot be said, for fixed K=1 has no finished runs here",
        )
    chance = f"probability {interval(verdict.against_one)}"
    if verdict.earned is None:
        return Worth(
            method.label, "unknown", f"{spends}; one seed does not tell whether it beats fixed K=1 on score ({chance})"
        )
    if verdict.earned:
        return Worth(method.label, "earned", f"beats fixed K=1 on score ({chance}) and {spends}")
    why = []
    if not verdict.against_one.low > 0.5:
        why.append(f"is not shown to score higher than fixed K=1 ({chance})")
    if not verdict.compute_of_largest < 1:
        why.append(spends)
    return Worth(method.label, "not earned", " and ".join(why))


def _cells(analysis: Analysis) -> str:
    states = Counter(run.state for run in analysis.comparison.runs)
    rest = [f"{states[state]} {state}" for state in ("running", "interrupted", "failed", "missing") if states[state]]
    total = len(analysis.comparison.runs)
    if not rest:
        return f"All {total} runs are finished."
    return f"{states['done']} of {total} runs are finished ({', '.join(rest)}); only finished runs count."
