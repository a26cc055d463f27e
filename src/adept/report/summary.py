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
    """what the judged updates of the baseline say, by task"""
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
    found = [say(analysis) for say in (_facts, _closest, _others, as_good_for_less)]
    question = "Which K should I use, and what does it save?" if fixed_word(analysis) == "fixed K" else (
        "Which setting should I use?")  # fmt: skip
    fixed = which_fixed(analysis)
    first, *others = [*over_axis(analysis), _headline(analysis)]
    return Summary(first, tuple(filter(None, [*others, *found])), tuple(_following(analysis, fixed)), question, fixed,
                   against_fixed(analysis), tuple(advice(analysis)), _cells(analysis), analysis.warnings)  # fmt: skip


def _rivals(analysis: Analysis) -> list[str]:
    """Return the methods that are tested against the baseline."""
    base = analysis.comparison.baseline
    return [name for name in analysis.scored if name != base] if base in analysis.scored else []


def _best(analysis: Analysis) -> str | None:
    """Return the best of the methods that are shown to be better than the baseline."""
    better = [name for name in _rivals(analysis) if analysis.methods[name].standing == "better"]
    return max(better, key=analysis.iqm, default=None)


def _too_few(analysis: Analysis) -> tuple[int, int | None] | None:
    """Return the seeds that there are and that are needed, where no winner could have been shown; else None."""
    rivals, tasks, seeds = _rivals(analysis), len(analysis.comparison.common_tasks), _seeds(analysis)
    decided = any(analysis.methods[name].standing in ("better", "worse") for name in rivals)
    if decided or not rivals or not seeds or smallest_p(seeds, tasks, len(rivals)) < LEVEL:
        return None
    return seeds, seeds_needed(tasks, len(rivals))


def _seeds(analysis: Analysis) -> int:
    """Return the seeds of the comparison with the baseline that has the most."""
    base = analysis.comparison.baseline
    return max((analysis.fewest_runs((name, base)) for name in _rivals(analysis)), default=0)


def _headline(analysis: Analysis) -> str:
    """Answer in one sentence which method to use."""
    comparison = analysis.comparison
    label, goal = comparison.label(comparison.baseline), analysis.criterion.removeprefix("steps to ")
    beats, beat = (words.format(goal=goal) for words in BEATS[comparison.criterion])
    if not analysis.scored:
        cells = [analysis.tasks[method.name, task].done for method in comparison.methods
                 for task in comparison.common_tasks]  # fmt: skip
        if analysis.criterion_scale is None and cells and all(cells):
            return "There is no result over all tasks: the baseline offers no scale for them. Compare task by task."
        return "There is no result over all tasks yet: no method has a finished run on every task."
    rivals = _rivals(analysis)
    if not rivals:
        return f"{comparison.label(analysis.scored[0])} is the only method with results on every task."
    if (name := _best(analysis)) is not None:
        return f"Use {comparison.label(name)}: it {beats} {label}{_price(analysis.methods[name].update_compute)}."
    if few := _too_few(analysis):
        wanted = f"; {few[1]} could" if few[1] else ""
        return f"{counted(few[0], 'seed')} cannot tell these methods apart, whatever they score{wanted}."
    cheap = [name for name in rivals if analysis.methods[name].standing == "not worse"
             and analysis.methods[name].update_compute * EQUAL < 1]  # fmt: skip
    if cheap:
        name = min(cheap, key=lambda name: analysis.methods[name].update_compute)
        spent = percent(analysis.methods[name].update_compute)
        as_good = f"it is as good as {label}, within {percent(MARGIN)}"
        return f"Use {comparison.label(name)}: {as_good}, with {spent} of its update FLOPs."
    if len(rivals) == 1:
        return f"Stay with {label}: {comparison.label(rivals[0])} is not shown to {beat} it."
    return f"Stay with {label}: none of the {len(rivals)} other methods is shown to {beat} it."


def _price(compute: float) -> str:
    if not math.isfinite(compute):
        return ""
    if compute * EQUAL < 1:
        return f", with {percent(compute)} of its update FLOPs"
    return ", at the same compute" if compute <= EQUAL else f", but takes {percent(compute)} of its update FLOPs"


def _facts(analysis: Analysis) -> str:
    """Give the numbers behind a winner, or say that there could be none."""
    name, comparison = _best(analysis), analysis.comparison
    tasks, rivals = len(comparison.common_tasks), _rivals(analysis)
    if name is None:
        return can_show_a_winner(_seeds(analysis), tasks, len(rivals)) if _too_few(analysis) else ""
    found, base = analysis.methods[name], analysis.methods[comparison.baseline]
    return (
        f"By {analysis.criterion} {comparison.label(name)} has an IQM of {interval(found.iqm)} against "
        f"{interval(base.iqm)} ({p_text(found.p)}, corrected for {counted(len(rivals), 'rival')}; "
        f"{counted(tasks, 'task')})."
    )


def _following(analysis: Analysis, fixed: tuple[Choice, ...]) -> list[str]:
    """Say what to do next, the most urgent first."""
    comparison, steps = analysis.comparison, []
    absent = sum(run.state != "done" for run in comparison.runs)
    if absent:
        steps.append(f"Finish {counted(absent, 'run')}: the command that started them continues them.")
    if few := _too_few(analysis):
        seeds = f"{few[1]} seeds" if few[1] else "more seeds"
        steps.append(f"Run {seeds} of each method instead of {few[0]}: with fewer no method can be shown to be better.")
    elif fixed and fixed[0].undecided:
        rivals = listing([comparison.label(name) for name in fixed[0].undecided])
        steps.append(f"Run more seeds of {rivals}: which of them to use is open.")
    if (name := _best(analysis)) is not None:
        beside = comparison.label(comparison.baseline)
        steps.append(f"Try {comparison.label(name)} on a task of your own, beside {beside}.")
    again = "Train again into the same folder, or add a method to the study; the next report has both side by side."
    steps += [f"{text} {again}" for text in directions(analysis)]
    return steps


def _closest(analysis: Analysis) -> str:
    """Say how sure the most certain difference is, where none is certain."""
    names = [name for name in analysis.scored if analysis.methods[name].difference]
    if not names or any(analysis.methods[name].standing in ("better", "worse") for name in names):
        return ""
    name = min(names, key=lambda rival: analysis.methods[rival].p)
    gap, p = analysis.methods[name].difference, analysis.methods[name].p
    if not gap.has_interval:
        return ""
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


def _cells(analysis: Analysis) -> str:
    states = Counter(run.state for run in analysis.comparison.runs)
    rest = [f"{states[state]} {state}" for state in STATES if states[state] and state != "done"]
    total = len(analysis.comparison.runs)
    if not rest:
        return f"All {total} runs are finished."
    return f"{states['done']} of {total} runs are finished ({', '.join(rest)}); only finished runs count."
