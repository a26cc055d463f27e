"""Whether an adaptive method earns its keep, and which fixed number of epochs to use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adept.report.analysis import Analysis
from adept.report.scales import MARGIN
from adept.report.statistics import Estimate, Scores, aggregate, difference, holm, permutation_p
from adept.report.wording import interval, listing, number, p_text, percent

LEVEL = 0.05
EQUAL = 1.01
"""Computes within 1 % count as equal."""


@dataclass(frozen=True)
class Verdict:
    """Whether an adaptive method earns its keep against the fixed ones, and why."""

    method: str
    label: str
    state: str
    """earned, not earned or unknown"""
    reason: str

    @property
    def sentence(self) -> str:
        """The whole of it."""
        claim = {"earned": "earns its keep", "not earned": "has not earned its keep"}.get(self.state, "is open")
        return f"{self.label} {claim}: {self.reason}."


@dataclass(frozen=True)
class _Trial:
    """One test of an adaptive method against a fixed one: better than it, or not worse."""

    method: str
    rival: str
    better: bool
    p: float


def keep_verdicts(analysis: Analysis) -> tuple[Verdict, ...]:
    """Judge every adaptive method against the fixed ones; all tests made are corrected together (Holm).

    A method earns its keep in one of two ways. It is better than the best fixed K of equal or lower compute. Or it is
    not worse (within the margin) than the best fixed K of all, cheaper than it, and no fixed K of equal or lower
    compute is shown to be so, too. Either way it must not lie below the line between the fixed K around it: a fixed K
    in between, which nobody ran, would do as well.
    """
    methods = [method.name for method in analysis.comparison.methods if method.adaptive] if analysis.scored else []
    trials = [trial for name in methods for trial in _trials(analysis, name)]
    corrected = dict(zip(trials, holm([trial.p for trial in trials]), strict=True))
    return tuple(_verdict(analysis, name, corrected) for name in methods)


def fixed_methods(analysis: Analysis, like: str | None = None) -> list[str]:
    """Return the methods of a constant number of epochs that have results on every task, cheapest first."""
    comparison = analysis.comparison
    config = comparison.method(like).config if like else None
    found = [method.name for method in comparison.methods if method.fixed_epochs is not None
             and method.name in analysis.scored and math.isfinite(analysis.methods[method.name].update_compute)
             and (config is None or (method.config is not None and method.config.algo == config.algo))]  # fmt: skip
    return sorted(found, key=lambda name: analysis.methods[name].update_compute)


def _affordable(analysis: Analysis, name: str) -> list[str]:
    """Return the fixed methods of equal or lower compute."""
    most = EQUAL * analysis.methods[name].update_compute
    return [rival for rival in fixed_methods(analysis, name) if analysis.methods[rival].update_compute <= most]


def _trials(analysis: Analysis, name: str) -> list[_Trial]:
    fixed, cheaper = fixed_methods(analysis, name), _affordable(analysis, name)
    if name not in analysis.scored or not _has_spread(analysis, [name, *fixed]):
        return []
    trials = []
    if cheaper:
        rival = max(cheaper, key=analysis.iqm)
        trials.append(_Trial(name, rival, True, analysis.p_value(name, rival)))
    best = max(fixed, key=analysis.iqm, default=None)
    if best is not None and best not in cheaper:
        margin = analysis.margin(best)
        if not any(analysis.p_value(rival, best, margin=margin) < LEVEL for rival in cheaper):
            trials.append(_Trial(name, best, False, analysis.p_value(name, best, margin=margin)))
    return trials


def _has_spread(analysis: Analysis, names: Sequence[str]) -> bool:
    """Say whether every method has two or more runs on each task."""
    tables = [analysis.normalized(name) or [] for name in names]
    return all(len(task) > 1 for table in tables for task in table)


def _verdict(analysis: Analysis, name: str, corrected: dict[_Trial, float]) -> Verdict:
    comparison, label = analysis.comparison, analysis.comparison.label(name)
    mine = [(trial, p) for trial, p in corrected.items() if trial.method == name]
    if not mine:
        if name not in analysis.scored:
            why = "it lacks a finished run on some task"
        elif not fixed_methods(analysis, name):
            why = "no fixed K was run beside it"
        else:
            why = "one seed does not tell"
        return Verdict(name, label, "unknown", why)
    for trial, p in mine:
        if p < LEVEL:
            why, above = _words(analysis, trial, p, shown=True), _line_above(analysis, name)
            return Verdict(name, label, "not earned" if above else "earned", why + above)
    trial, p = mine[-1] if not mine[0][0].better else mine[0]
    why = _words(analysis, trial, p, shown=False)
    if not _affordable(analysis, name):
        why += f"; no fixed K of equal or lower compute was run, {comparison.label(trial.rival)} costs more"
    return Verdict(name, label, "not earned", why)


def _line_above(analysis: Analysis, name: str) -> str:
    """Say between which fixed K the line of score over compute passes above a method; empty where none does."""
    cheaper, at, mine = _affordable(analysis, name), analysis.methods[name].update_compute, analysis.iqm(name)
    if not cheaper:
        return ""
    low = max(cheaper, key=analysis.iqm)
    start = analysis.methods[low].update_compute
    for high in fixed_methods(analysis, name):
        end = analysis.methods[high].update_compute
        if end > at > start and mine < analysis.iqm(low) + (at - start) / (end - start) * (
            analysis.iqm(high) - analysis.iqm(low)
        ):
            pair = f"{analysis.comparison.label(low)} and {analysis.comparison.label(high)}"
            return f", but lies below the line between {pair}: a fixed K in between may do as well"
    return ""


def _words(analysis: Analysis, trial: _Trial, p: float, *, shown: bool) -> str:
    mine, theirs = analysis.normalized(trial.method), analysis.normalized(trial.rival)
    assert mine is not None
    assert theirs is not None
    gap = difference(mine, theirs, resamples=analysis.resamples)
    spent = analysis.methods[trial.method].update_compute / analysis.methods[trial.rival].update_compute
    rival = analysis.comparison.label(trial.rival)
    facts = f"IQM {signed(gap)}, {p_text(p)}"
    if trial.better:
        claim = "better than" if shown else "not shown to be better than"
        return f"{claim} {rival}, the best fixed K for its compute ({facts})"
    claim = "not worse than" if shown else "not shown to be as good as"
    return f"{claim} {rival}, the best fixed K ({facts}), at {percent(spent)} of its update FLOPs"


def signed(estimate: Estimate, digits: int = 2) -> str:
    """Return a difference with its sign."""
    text = interval(estimate, digits)
    return text if estimate.value < 0 else f"+{text}"


@dataclass(frozen=True)
class Advice:
    """Which method of fixed epochs to use on a task, or over all of them."""

    place: str
    method: str | None
    text: str


def which_epochs(analysis: Analysis) -> tuple[Advice, ...]:
    """Answer "which K should I use, and what does it save?": over all tasks first, then task by task.

    It is the cheapest fixed K that is shown to be not worse than the best one, within the margin; the tests of all
    cheaper ones are corrected together (Holm).
    """
    fixed = fixed_methods(analysis)
    if len(fixed) < 2:
        return ()
    tasks = analysis.comparison.common_tasks
    found = [_advise(analysis, "", fixed)] + ([_advise(analysis, task, fixed) for task in tasks] if tasks[1:] else [])
    return tuple(found)


def _advise(analysis: Analysis, task: str, fixed: list[str]) -> Advice:
    comparison, place = analysis.comparison, _place(analysis, task)
    tables = {name: table for name in fixed if (table := analysis.normalized(name))}
    if task:
        index = comparison.common_tasks.index(task)
        tables = {name: [table[index]] for name, table in tables.items()}
    metric, word = ("mean", "mean") if task else ("iqm", "IQM")
    value = {name: aggregate(table, resamples=1)[metric].value for name, table in tables.items()}
    spent = {name: _spent(analysis, name, task) for name in tables}
    best = max(tables, key=lambda name: value[name])
    label = comparison.label(best)
    if not (_learned_task(analysis, task, best) if task else analysis.learned(best)):
        return Advice(place, None, "No fixed K learned anything to speak of here.")
    if any(len(scores) < 2 for table in tables.values() for scores in table):
        return Advice(place, None, f"One seed does not tell. {label} has the highest {word}.")
    cheaper = [name for name in tables if spent[name] * EQUAL < spent[best]]
    margin = analysis.margin(best)
    draws = 5 * analysis.resamples
    tests = holm([permutation_p(tables[name], tables[best], metric=metric, margin=margin, draws=draws)
                  for name in cheaper])  # fmt: skip
    equal = [(name, p) for name, p in zip(cheaper, tests, strict=True) if p < LEVEL]
    if not cheaper:
        text = f"Use {label}: it has the highest {word} of the fixed K, and is the cheapest."
        return Advice(place, best, text + _savings(analysis, best, best, spent))
    if not equal:
        return _undecided(analysis, task, best, {name: tables[name] for name in [*cheaper, best]}, spent, metric)
    name, p = min(equal, key=lambda pair: spent[pair[0]])
    text = (
        f"Use {comparison.label(name)}: not worse than {label}, the best fixed K, within {percent(MARGIN)} "
        f"({word} {number(value[name])} against {number(value[best])}, {p_text(p)})."
    )
    return Advice(place, name, text + _savings(analysis, name, best, spent))


def _savings(analysis: Analysis, name: str, best: str, spent: dict[str, float]) -> str:
    """Say what a fixed K saves of the update FLOPs of the best one and of the baseline, where it saves anything."""
    label = analysis.comparison.label
    rivals = [rival for rival in dict.fromkeys([best, analysis.comparison.baseline])
              if spent[name] * EQUAL < spent.get(rival, 0.0)]  # fmt: skip
    parts = [f"{percent(1 - spent[name] / spent[rival])} of the update FLOPs of {label(rival)}" for rival in rivals]
    return f" It saves {listing(parts)}." if parts else ""


def _undecided(
    analysis: Analysis, task: str, best: str, tables: dict[str, Scores], spent: dict[str, float], metric: str
) -> Advice:
    """Name the best fixed K, and the cheapest whose interval leaves room for no loss."""
    label, margin, place = analysis.comparison.label, analysis.margin(best), _place(analysis, task)
    gaps = {name: difference(table, tables[best], metric=metric, resamples=analysis.resamples)
            for name, table in tables.items() if name != best}  # fmt: skip
    top = f"it has the highest {'mean' if task else 'IQM'} of the fixed K"
    open_ones = [name for name, gap in gaps.items() if gap.high > -margin]
    if not open_ones:
        nearest = max(gaps, key=lambda name: gaps[name].value)
        rest = f"{label(nearest)}, the best cheaper one, is behind ({signed(gaps[nearest])})"
        return Advice(place, best, f"Use {label(best)}: {top}; {rest}.{_savings(analysis, best, best, spent)}")
    name = min(open_ones, key=lambda entry: spent[entry])
    saved = percent(1 - spent[name] / spent[best])
    text = (
        f"{label(best)}, if in doubt: {top}.{_savings(analysis, best, best, spent)} Whether {label(name)} is as good "
        f"is open ({signed(gaps[name])}); it would save {saved} of the update FLOPs."
    )
    return Advice(place, None, text)


def _place(analysis: Analysis, task: str) -> str:
    return analysis.comparison.short[task] if task else "Over all tasks"


def _spent(analysis: Analysis, name: str, task: str) -> float:
    return analysis.tasks[name, task].update_flops if task else analysis.methods[name].update_compute


def _learned_task(analysis: Analysis, task: str, name: str) -> bool:
    comparison = analysis.comparison
    if comparison.criterion == "steps-to-threshold":
        return analysis.tasks[name, task].reached > 0
    scores = comparison.scores(name, task, comparison.criterion)
    return float(scores.mean()) > comparison.start(task)


def as_good_for_less(analysis: Analysis) -> str:
    """Name the cheapest method, fixed or not, that is not worse than the baseline; empty where none is cheaper."""
    comparison, base = analysis.comparison, analysis.comparison.baseline
    found = [name for name in analysis.scored if analysis.methods[name].standing in ("better", "not worse")
             and analysis.methods[name].update_compute * EQUAL < 1]  # fmt: skip
    if not found:
        return ""
    found.sort(key=lambda name: analysis.methods[name].update_compute)
    parts = [f"{comparison.label(name)} ({percent(analysis.methods[name].update_compute)})" for name in found]
    verb = "is" if len(parts) == 1 else "are"
    return (
        f"{listing(parts)} {verb} not worse than {comparison.label(base)} within {percent(MARGIN)}, for less update "
        "compute (in brackets, relative to it)."
    )
