"""The findings in plain words: which method to use and how sure that is, what to do next, what is missing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from adept.report.analysis import Analysis
from adept.report.axis import sentences as over_axis
from adept.report.hindsight import advice, directions
from adept.report.normalization import MARGIN
from adept.report.power import LEVEL, can_show_a_winner, seeds_needed, smallest_p
from adept.report.text import counted, interval, listing, p_text, percent, signed
from adept.report.verdicts import EQUAL, Choice, Verdict, against_fixed, as_good_for_less, fixed_word, which_fixed
from adept.runs.records import STATES

BEATS = {
    "final-score": ("scores higher than", "score higher than"),
    "mean-score": ("learns faster than", "learn faster than"),
    "steps-to-threshold": ("reaches {goal} sooner than", "reach {goal} sooner than"),
}
"""What being better is by each criterion, of one method and of several."""


@dataclass(frozen=True)
class Summary:
    """Sentences, the most important one first."""

    headline: str
    differences: tuple[str, ...]
    """the numbers behind the headline, and what else differs from the baseline"""
    following: tuple[str, ...]
    """what to do next"""
    question: str
    """what `epochs` answers"""
    epochs: tuple[Choice, ...]
    """which fixed method to use, over all tasks and on each"""
    keep: tuple[Verdict, ...]
    """how adaptive methods stand against the fixed ones"""
    hindsight: tuple[tuple[str, str], ...]
    """what the measured updates of a fixed method say, by task"""
    cells: str
    warnings: tuple[str, ...]

    @property
    def sentences(self) -> list[str]:
        """All of them."""
        epochs = [f"{entry.place}: {entry.text}" for entry in self.epochs]
        parts = [self.headline, *self.differences, *(f"Next: {text}" for text in self.following), *epochs]
        parts += [verdict.sentence for verdict in self.keep]
        parts += [f"{place}: {text}" for place, text in self.hindsight]
        return [text for text in [*parts, self.cells, *self.warnings] if text]


def summarize(analysis: Analysis) -> Summary:
    """Say what was found."""
    question = "Which K should I use, and what does it save?" if fixed_word(analysis) == "fixed K" else (
        "Which setting should I use?")  # fmt: skip
    fixed, few = which_fixed(analysis), _too_few(analysis)
    texts = [*over_axis(analysis), _headline(analysis, few), *_facts(analysis, few), as_good_for_less(analysis)]
    return Summary(texts[0], tuple(filter(None, texts[1:])), tuple(_following(analysis, fixed, few)), question, fixed,
                   against_fixed(analysis), tuple(advice(analysis)), _cells(analysis), analysis.warnings)  # fmt: skip


def _too_few(analysis: Analysis) -> tuple[int, int | None] | None:
    """Return the seeds that there are and that are needed, where no winner could have been shown; else None."""
    rivals, tasks = len(analysis.rivals), len(analysis.comparison.common_tasks)
    base = analysis.comparison.baseline
    seeds = max((analysis.fewest_runs((name, base)) for name in analysis.rivals), default=0)
    decided = analysis.standing("better") or analysis.standing("worse")
    if decided or not seeds or smallest_p(seeds, tasks, rivals) < LEVEL:
        return None
    return seeds, seeds_needed(tasks, rivals)


def _headline(analysis: Analysis, few: tuple[int, int | None] | None) -> str:
    """Answer in one sentence which method to use."""
    comparison = analysis.comparison
    label, goal = comparison.label(comparison.baseline), analysis.criterion.removeprefix("steps to ")
    beats, beat = (words.format(goal=goal) for words in BEATS[comparison.criterion])
    if not analysis.scored:
        cells = [analysis.tasks[method.name, task].done for method in comparison.methods
                 for task in comparison.common_tasks]  # fmt: skip
        if analysis.scale is None and cells and all(cells):
            return "There is no result over all tasks: the baseline offers no scale for them. Compare task by task."
        return "There is no result over all tasks yet: no method has a finished run on every task."
    if not analysis.rivals:
        return f"{comparison.label(analysis.scored[0])} is the only method with results on every task."
    if better := analysis.standing("better"):
        spent = analysis.methods[better[0]].update_compute
        price = f", {'with' if spent < 1 else 'but takes'} {percent(spent)} of its update FLOPs"
        if 1 / EQUAL <= spent <= EQUAL:
            price = ", at the same compute"
        return f"Use {comparison.label(better[0])}: it {beats} {label}{price if math.isfinite(spent) else ''}."
    if few:
        wanted = f"; {few[1]} could" if few[1] else ""
        return f"{counted(few[0], 'seed')} cannot tell these methods apart, whatever they score{wanted}."
    costs = {name: analysis.methods[name].update_compute for name in analysis.standing("not worse")}
    name = min(costs, key=lambda name: costs[name], default="")
    if name and costs[name] * EQUAL < 1:
        as_good = f"it is as good as {label}, within {percent(MARGIN)}"
        return f"Use {comparison.label(name)}: {as_good}, with {percent(costs[name])} of its update FLOPs."
    if len(analysis.rivals) == 1:
        return f"Stay with {label}: {comparison.label(analysis.rivals[0])} is not shown to {beat} it."
    return f"Stay with {label}: none of the {len(analysis.rivals)} other methods is shown to {beat} it."


def _facts(analysis: Analysis, few: tuple[int, int | None] | None) -> list[str]:
    """Give the numbers behind the headline, and name what else differs from the baseline."""
    comparison, label, methods = analysis.comparison, analysis.comparison.label, analysis.methods
    better, worse = analysis.standing("better"), analysis.standing("worse")
    tasks, rivals, found = len(comparison.common_tasks), len(analysis.rivals), []
    if better:
        iqm, theirs = methods[better[0]].iqm, methods[comparison.baseline].iqm
        found.append(
            f"By {analysis.criterion} {label(better[0])} has an IQM of {interval(iqm)} against {interval(theirs)} "
            f"({p_text(methods[better[0]].p)}, corrected for {counted(rivals, 'rival')}; {counted(tasks, 'task')})."
        )
    if few:
        found.append(can_show_a_winner(few[0], tasks, rivals))
    if rivals and not better and not worse:
        name = min(analysis.rivals, key=lambda rival: methods[rival].p)
        if (gap := methods[name].difference).has_interval:
            corrected = f"{p_text(methods[name].p)} after correction for {counted(rivals, 'test')}"
            found.append(f"The surest difference is that of {label(name)}: IQM {signed(gap)} ({corrected}).")
    others = [f"{word} than {label(comparison.baseline)}: {listing(list(map(label, names)))}."
              for word, names in (("Also better", better[1:]), ("Worse", worse)) if names]  # fmt: skip
    return [*found, " ".join(others)]


def _following(analysis: Analysis, fixed: tuple[Choice, ...], few: tuple[int, int | None] | None) -> list[str]:
    """Say what to do next, the most urgent first."""
    comparison, steps = analysis.comparison, []
    absent = sum(run.state != "done" for run in comparison.runs)
    if absent:
        steps.append(f"Finish {counted(absent, 'run')}: the command that started them continues them.")
    if few:
        seeds = f"{few[1]} seeds" if few[1] else "more seeds"
        steps.append(f"Run {seeds} of each method instead of {few[0]}: with fewer no method can be shown to be better.")
    elif fixed and fixed[0].undecided:
        rivals = listing([comparison.label(name) for name in fixed[0].undecided])
        steps.append(f"Run more seeds of {rivals}: which of them to use is open.")
    if better := analysis.standing("better"):
        beside = comparison.label(comparison.baseline)
        steps.append(f"Try {comparison.label(better[0])} on a task of your own, beside {beside}.")
    again = "Train again into the same folder, or add a method to the study; the next report has both side by side."
    steps += [f"{text} {again}" for text in directions(analysis)]
    return steps


def _cells(analysis: Analysis) -> str:
    states, total = Counter(run.state for run in analysis.comparison.runs), len(analysis.comparison.runs)
    rest = [f"{states[state]} {state}" for state in STATES if states[state] and state != "done"]
    if not rest:
        return f"All {total} runs are finished."
    return f"{states['done']} of {total} runs are finished ({', '.join(rest)}); only finished runs count."
