"""The findings in plain words: what differs and how sure that is, which K to use, what is missing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from adept.report.analysis import Analysis
from adept.report.hindsight import advice
from adept.report.text import counted, interval, listing, p_text, percent, signed
from adept.report.verdicts import Advice, Verdict, as_good_for_less, keep_verdicts, which_epochs
from adept.runs.records import STATES


@dataclass(frozen=True)
class Summary:
    """Sentences, the most important one first."""

    headline: str
    differences: tuple[str, ...]
    """what else differs from the baseline, and what stands on the Pareto front"""
    epochs: tuple[Advice, ...]
    """which K to use, over all tasks and on each"""
    keep: tuple[Verdict, ...]
    hindsight: tuple[tuple[str, str], ...]
    """what the judged updates of the baseline say, by task"""
    cells: str
    warnings: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """All of them."""
        epochs = [f"{entry.place}: {entry.text}" for entry in self.epochs]
        parts = [self.headline, *self.differences, *epochs, *(verdict.sentence for verdict in self.keep)]
        parts += [f"{place}: {text}" for place, text in self.hindsight]
        return [text for text in [*parts, self.cells, *self.warnings] if text]


def summarize(analysis: Analysis) -> Summary:
    """Say what was found."""
    found = [say(analysis) for say in (_closest, _others, as_good_for_less, _front)]
    return Summary(_headline(analysis), tuple(filter(None, found)), which_epochs(analysis), keep_verdicts(analysis),
                   tuple(advice(analysis)), _cells(analysis), analysis.warnings)  # fmt: skip


def _headline(analysis: Analysis) -> str:
    comparison = analysis.comparison
    base, label = comparison.baseline, comparison.label(comparison.baseline)
    if not analysis.scored:
        cells = [analysis.tasks[method.name, task].done for method in comparison.methods
                 for task in comparison.common_tasks]  # fmt: skip
        if analysis.criterion_scale is None and cells and all(cells):
            return "There is no result over all tasks: the baseline offers no scale for them. Compare task by task."
        return "There is no result over all tasks yet: no method has a finished run on every task."
    rivals = [name for name in analysis.scored if name != base]
    if not rivals or base not in analysis.scored:
        return f"{comparison.label(analysis.scored[0])} is the only method with results on every task."
    count, tasks = counted(len(rivals), "rival"), counted(len(comparison.common_tasks), "task")
    name = max((name for name in rivals if analysis.methods[name].standing == "better"), key=analysis.iqm, default=None)
    if name is None:
        return f"No method is shown to be better than {label} by {analysis.criterion} ({count}, {tasks})."
    first = analysis.methods[name]
    cost = f", with {percent(first.update_compute)} of its update FLOPs" if math.isfinite(first.update_compute) else ""
    return (
        f"{comparison.label(name)} is better than {label} by {analysis.criterion}: IQM {interval(first.iqm)} against "
        f"{interval(analysis.methods[base].iqm)}{cost} ({p_text(first.p)}, corrected for {count})."
    )


def _closest(analysis: Analysis) -> str:
    """Say how sure the most certain difference is, where none is certain."""
    names = [name for name in analysis.scored if analysis.methods[name].difference]
    if not names or any(analysis.methods[name].standing in ("better", "worse") for name in names):
        return ""
    name = min(names, key=lambda rival: analysis.methods[rival].p)
    gap, p = analysis.methods[name].difference, analysis.methods[name].p
    if not gap.has_interval:
        return "One seed tells no more."
    return (
        f"The surest difference is that of {analysis.comparison.label(name)}: IQM {signed(gap)} ({p_text(p)} after "
        f"correction for {counted(len(names), 'test')})."
    )


def _others(analysis: Analysis) -> str:
    """Name the methods beyond the headline's that differ from the baseline."""
    comparison, found = analysis.comparison, []
    for standing, word in (("better", "Also better"), ("worse", "Worse")):
        names = [name for name in analysis.scored if analysis.methods[name].standing == standing]
        if standing == "better" and names:
            names.remove(max(names, key=analysis.iqm))
        if names:
            label = comparison.label(comparison.baseline)
            found.append(f"{word} than {label}: {listing([comparison.label(name) for name in names])}.")
    return " ".join(found)


def _front(analysis: Analysis) -> str:
    front = [analysis.comparison.label(name) for name in analysis.pareto]
    if len(front) < 2:
        return ""
    return (
        f"On the front of score against update FLOPs, in order of compute: {listing(front)}; neighbours on it need "
        "not differ significantly."
    )


def _cells(analysis: Analysis) -> str:
    states = Counter(run.state for run in analysis.comparison.runs)
    rest = [f"{states[state]} {state}" for state in STATES if states[state] and state != "done"]
    total = len(analysis.comparison.runs)
    if not rest:
        return f"All {total} runs are finished."
    return f"{states['done']} of {total} runs are finished ({', '.join(rest)}); only finished runs count."
