"""Whether an adaptive method beats the fixed ones at its compute, and which fixed method to use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from adept.report.analysis import Analysis
from adept.report.normalization import MARGIN
from adept.report.power import LEVEL, smallest_p
from adept.report.statistics import holm
from adept.report.text import listing, number, p_text, percent, signed

EQUAL = 1.01
"""Computes within 1 % count as equal."""


@dataclass(frozen=True)
class Verdict:
    """How an adaptive method stands against the fixed ones, in a few words and in numbers."""

    method: str
    label: str
    state: str
    """better, no better or unknown"""
    claim: str
    """in a few words: no better than K=10 at the same compute"""
    reason: str
    """the test behind it"""

    @property
    def sentence(self) -> str:
        """The whole of it."""
        return f"{self.label}: {self.claim}" + (f" ({self.reason})." if self.reason else ".")


Trials = dict[tuple[str, bool], float]
"""p-values of the tests of one method, by its fixed rival and whether it is to be better or only not worse."""


@lru_cache(maxsize=8)
def against_fixed(analysis: Analysis) -> tuple[Verdict, ...]:
    """Compare every adaptive method with the fixed ones; all tests made are corrected together (Holm).

    A method counts as better in one of two ways. It is better than the best fixed method of equal or lower compute.
    Or it is not worse (within the margin) than the best fixed method of all, cheaper than it, and no fixed method of
    equal or lower compute is shown to be so, too. Either way it must not lie below the line between the fixed methods
    around it: one in between, which nobody ran, would do as well.
    """
    methods = [method.name for method in analysis.comparison.methods if method.adaptive] if analysis.scored else []
    trials = {name: _trials(analysis, name) for name in methods}
    corrected = iter(holm([p for found in trials.values() for p in found.values()]))
    count = sum(map(len, trials.values()))
    return tuple(_verdict(analysis, name, {trial: next(corrected) for trial in found}, count)
                 for name, found in trials.items())  # fmt: skip


def fixed_word(analysis: Analysis) -> str:
    """Return what the fixed methods are called: fixed K where they differ in nothing else, else fixed setting."""
    comparison = analysis.comparison
    configs = [method.config.to_dict() for method in comparison.methods
               if method.config is not None and method.fixed_epochs is not None]  # fmt: skip
    for algo in {config["algo"] for config in configs}:
        alike = [config for config in configs if config["algo"] == algo]
        rest = {repr([config[key] for key in comparison.declared if key != "epochs"]) for config in alike}
        if len(rest) > 1 or len({config["epochs"] for config in alike}) < len(alike):
            return "fixed setting"
    return "fixed K"


def fixed_methods(analysis: Analysis, like: str | None = None, most: float = math.inf) -> list[str]:
    """Return the methods of constant settings with results on every task, up to a compute, cheapest first."""
    comparison = analysis.comparison
    config = comparison.method(like).config if like else None
    spent = {method.name: analysis.methods[method.name].update_compute for method in comparison.methods
             if method.fixed_epochs is not None and method.name in analysis.scored
             and (config is None or (method.config is not None and method.config.algo == config.algo))}  # fmt: skip
    return sorted((name for name in spent if math.isfinite(spent[name]) and spent[name] <= most), key=spent.__getitem__)


def _affordable(analysis: Analysis, name: str) -> list[str]:
    """Return the fixed methods of equal or lower compute."""
    return fixed_methods(analysis, name, EQUAL * analysis.methods[name].update_compute)


def _trials(analysis: Analysis, name: str) -> Trials:
    fixed, cheaper = fixed_methods(analysis, name), _affordable(analysis, name)
    if not fixed or analysis.fewest_runs((name, *fixed)) < 2:
        return {}  # one seed does not tell
    trials, best = Trials(), max(fixed, key=analysis.iqm)
    if cheaper:
        rival = max(cheaper, key=analysis.iqm)
        trials[rival, True] = analysis.p_value(name, rival)
    margin = analysis.margin(best)
    if best not in cheaper and not any(analysis.p_value(rival, best, margin=margin) < LEVEL for rival in cheaper):
        trials[best, False] = analysis.p_value(name, best, margin=margin)
    return trials


def _verdict(analysis: Analysis, name: str, trials: Trials, tests: int) -> Verdict:
    label, word = analysis.comparison.label, fixed_word(analysis)
    if not trials:
        why = "one seed does not tell" if fixed_methods(analysis, name) else f"no {word} was run beside it"
        why = why if name in analysis.scored else "it lacks a finished run on some task"
        return Verdict(name, label(name), "unknown", why, "")
    best, better = next((trial for trial in trials if trials[trial] < LEVEL), next(iter(trials)))
    rival, p = label(best), trials[best, better]
    spent = percent(analysis.methods[name].update_compute / analysis.methods[best].update_compute)
    facts = f"IQM {signed(analysis.gap(name, best))}, {p_text(p)}"
    reason = f"{rival} is the best {word} for its compute: {facts}" if better else (
        f"{rival} is the best {word}: {facts}, at {spent} of its update FLOPs")  # fmt: skip
    seeds = analysis.fewest_runs((name, best))
    state, claim = "no better", f"no better than {rival} at the same compute"
    if p < LEVEL and (above := _line_above(analysis, name)):
        claim = above
    elif p < LEVEL:
        state = "better"
        claim = f"better than {rival} at the same compute" if better else (
            f"as good as {rival} with {spent} of its update FLOPs")  # fmt: skip
    elif smallest_p(seeds, len(analysis.comparison.common_tasks), tests, two_sided=False) >= LEVEL:
        state, claim = "unknown", f"{seeds} seeds are too few to tell"
    elif not better:
        claim = f"not shown to be as good as {rival}"
        reason += f"; no {word} of equal or lower compute was run, {rival} costs more"
    return Verdict(name, label(name), state, claim, reason)


def _line_above(analysis: Analysis, name: str) -> str:
    """Say between which fixed K the line of score over compute passes above a method; empty where none does."""
    points = {rival: (analysis.methods[rival].update_compute, analysis.iqm(rival))
              for rival in (name, *fixed_methods(analysis, name))}  # fmt: skip
    at, mine = points[name]
    low = max(_affordable(analysis, name), key=analysis.iqm, default=name)
    start, floor = points[low]
    for high, (end, top) in points.items():
        if end > at > start and mine < floor + (at - start) / (end - start) * (top - floor):
            pair = f"{analysis.comparison.label(low)} and {analysis.comparison.label(high)}"
            return f"no better than a {fixed_word(analysis)} between {pair}, by the line between their scores"
    return ""


@dataclass(frozen=True)
class Choice:
    """Which method of fixed epochs to use on a task, or over all of them."""

    place: str
    method: str | None
    text: str
    undecided: tuple[str, ...] = ()
    """methods between which the order is open"""


def which_fixed(analysis: Analysis) -> tuple[Choice, ...]:
    """Answer "which K should I use, and what does it save?": over all tasks first, then task by task.

    It is the cheapest fixed method that is shown to be not worse than the best one, within the margin; the tests of all
    cheaper ones are corrected together (Holm). Where nothing is cheaper, as among learning rates, the best is compared
    with the runner-up.
    """
    tasks = analysis.comparison.common_tasks
    places = ["", *tasks] if len(tasks) > 1 else [""]
    return tuple(_choose(analysis, task) for task in places) if len(fixed_methods(analysis)) > 1 else ()


def _choose(analysis: Analysis, task: str) -> Choice:
    comparison, label, kind = analysis.comparison, analysis.comparison.label, fixed_word(analysis)
    names, place, word = fixed_methods(analysis), "Over all tasks", "IQM"
    spent = {name: analysis.methods[name].update_compute for name in names}
    value = {name: analysis.iqm(name) for name in names}
    if task:
        place, word = comparison.short[task], "mean"
        spent = {name: analysis.tasks[name, task].update_flops for name in names}
        value = {name: float(np.mean(analysis.normalized(name, task=task) or [])) for name in names}
    best = max(names, key=lambda name: value[name])
    if not analysis.learned(best, task):
        return Choice(place, None, f"No {kind} learned anything to speak of here.")
    if analysis.fewest_runs(names, task) < 2:
        return Choice(place, None, f"One seed does not tell. {label(best)} has the highest {word}.")

    def savings(name: str) -> str:
        rivals = [rival for rival in dict.fromkeys([best, comparison.baseline])
                  if spent[name] * EQUAL < spent.get(rival, 0.0)]  # fmt: skip
        parts = [f"{percent(1 - spent[name] / spent[rival])} of the update FLOPs of {label(rival)}" for rival in rivals]
        return f" It saves {listing(parts)}." if parts else ""

    top = f"it has the highest {word} of {'the fixed K' if kind == 'fixed K' else f'the {kind}s'}"
    use, doubt, margin = f"Use {label(best)}: {top}", f"{label(best)}, if in doubt: {top}.", analysis.margin(best)
    cheaper = sorted((name for name in names if spent[name] * EQUAL < spent[best]), key=spent.__getitem__)
    equal = [name for name in names if name != best and spent[name] <= EQUAL * spent[best]]
    if not equal:  # as cheap as any
        return Choice(place, best, f"{use}, and is the cheapest.{savings(best)}")
    if not cheaper:
        second = max(equal, key=lambda name: value[name])
        p = analysis.p_value(best, second, task)
        facts = f"({signed(analysis.gap(best, second, task))}, {p_text(p)})"
        if p < LEVEL:
            return Choice(place, best, f"{use}, and is better than {label(second)} {facts}.")
        text = f"{doubt} Whether it is better than {label(second)} is open {facts}."
        return Choice(place, None, text, (best, second))
    tests = holm([analysis.p_value(name, best, task, margin=margin) for name in cheaper])
    for name, p in zip(cheaper, tests, strict=True):
        if p < LEVEL:
            facts = f"{word} {number(value[name])} against {number(value[best])}, {p_text(p)}"
            text = f"not worse than {label(best)}, the best {kind}, within {percent(MARGIN)} ({facts})."
            return Choice(place, name, f"Use {label(name)}: {text}{savings(name)}")
    # Name the best, and the cheapest whose interval leaves room for no loss.
    gaps = {name: analysis.gap(name, best, task) for name in cheaper}
    unclear = next((name for name in cheaper if gaps[name].high > -margin), None)
    if unclear is None:
        nearest = max(gaps, key=lambda name: gaps[name].value)
        rest = f"{label(nearest)}, the best cheaper one, is behind ({signed(gaps[nearest])})"
        return Choice(place, best, f"{use}; {rest}.{savings(best)}")
    text = (
        f"{doubt}{savings(best)} Whether {label(unclear)} is as good is open ({signed(gaps[unclear])}); it would save "
        f"{percent(1 - spent[unclear] / spent[best])} of the update FLOPs."
    )
    return Choice(place, None, text, (best, unclear))


def as_good_for_less(analysis: Analysis) -> str:
    """Name the cheapest method, fixed or not, that is not worse than the baseline; empty where none is cheaper."""
    comparison = analysis.comparison
    spent = {name: result.update_compute for name, result in analysis.methods.items()
             if result.standing in ("better", "not worse") and result.update_compute * EQUAL < 1}  # fmt: skip
    parts = [f"{comparison.label(name)} ({percent(spent[name])})" for name in sorted(spent, key=spent.__getitem__)]
    if not parts:
        return ""
    return (
        f"{listing(parts)} {'is' if len(parts) == 1 else 'are'} not worse than {comparison.label(comparison.baseline)} "
        f"within {percent(MARGIN)}, for less update compute (in brackets, relative to it)."
    )
