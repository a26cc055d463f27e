"""The study's questions, each answered by a rule: shown, not shown, or contrary.

A question names a region. It is shown where the 95 % interval lies inside it, contrary where it lies outside, and not
shown otherwise. FLOPs are counted, not estimated: they are in the region or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from adept.report.normalization import MARGIN
from adept.report.statistics import Estimate
from adept.report.text import counted, interval, listing, percent
from paper.tournament.field import BANDIT, HINDSIGHT, MORE, NO_LOSS, Field, Tournament
from paper.verdicts import FAILS, HOLDS, NOT_SHOWN, UNTESTED, Region, verdict
from paper.words import points

WORDS = {HOLDS: "shown", FAILS: "contrary", NOT_SHOWN: "not shown", UNTESTED: "one seed does not tell"}
MOST_RUNS = Region(above=0.5)
HALF = 0.5
"""The share of the preset's update FLOPs that hindsight may take."""
KL_RULES = ("kl-rate", "kl-rate-k3")


@dataclass(frozen=True)
class Answer:
    """What was asked, what was measured, and the verdict."""

    question: str
    measured: str
    verdict: str


def answers(tournament: Tournament) -> list[Answer]:
    """Answer what the runs at hand can answer."""
    found: list[Answer] = []
    field, grid = tournament.field, tournament.grid
    if field is not None:
        for name in HINDSIGHT:
            found += against_preset(field, name) + against_kl_rule(field, name) if field.has(name) else []
    if grid is not None:
        for name in HINDSIGHT:
            found += against_pairs(grid, name) if grid.has(name) and grid.fixed_pairs() else []
    if field is not None and field.has(BANDIT):
        found += bandit(field)
    return sorted(found, key=lambda answer: answer.question[0])  # by the question's number, hindsight's modes in order


def yes(condition: bool) -> str:
    """Return the verdict on what is counted."""
    return WORDS[HOLDS if condition else FAILS]


def judged(estimate: Estimate, region: Region) -> str:
    """Return the verdict on what is estimated."""
    return WORDS[verdict(estimate, region)]


def against_preset(field: Field, name: str) -> list[Answer]:
    """Question 1: more often better than the preset, for at most half of its update FLOPs, and nowhere worse."""
    label, chance, compute = field.label(name), field.chance(name), field.compute(name)
    worse = [field.comparison.short[task] for task in field.different(name, -1)]
    better = len(field.different(name, 1))
    tasks = f"significantly worse on {listing(worse) if worse else 'none'}, better on {better} of {tasks_of(field)}"
    told = field.tells_tasks_apart
    return [
        Answer(f"1. {label}: a run is better than one of the preset more often than not",
               f"probability {interval(chance)}", judged(chance, MOST_RUNS)),
        Answer(f"1. {label}: at most half of the preset's update FLOPs", percent(compute), yes(compute <= HALF)),
        Answer(f"1. {label}: on no task significantly worse than the preset", tasks if told else
               f"too few seeds for a test of {tasks_of(field)}", yes(not worse) if told else WORDS[NOT_SHOWN]),
    ]  # fmt: skip


def against_kl_rule(field: Field, name: str) -> list[Answer]:
    """Question 2: no loss against the better of the rules by KL, at equal or fewer FLOPs."""
    rules = [rule for rule in KL_RULES if field.has(rule)]
    if not rules:
        return []
    rival = max(rules, key=field.analysis.iqm)
    gap, compute = field.gap(name, rival), field.compute(name, rival)
    text = f"2. {field.label(name)}: no loss against {field.label(rival)}"
    among = f", the better of {len(rules)}" if len(rules) > 1 else ""
    return [
        Answer(text + among, points(gap), judged(gap, NO_LOSS)),
        Answer(f"2. {field.label(name)}: no more update FLOPs than {field.label(rival)}", percent(compute),
               yes(compute <= 1)),
    ]  # fmt: skip


def against_pairs(grid: Field, name: str) -> list[Answer]:
    """Questions 3 and 4: the best fixed pair over all tasks, and that of each task; both picked after the fact."""
    best = grid.best_pair()
    overall, each = grid.gap(name, best), grid.gap(name, grid.scores_of_best_pairs())
    seeds = counted(len(grid.selection.seeds), "seed")
    return [
        Answer(f"3. {grid.label(name)}: no loss against the best fixed pair over all tasks ({grid.label(best)}, "
               "selected after the fact)", f"{points(overall)} ({seeds})", judged(overall, NO_LOSS)),
        Answer(f"4. {grid.label(name)}: no loss against the best pair of each task (selected after the fact)",
               f"{points(each)} ({seeds})", judged(each, NO_LOSS)),
    ]  # fmt: skip


def bandit(field: Field) -> list[Answer]:
    """Question 5: where UCB with standardised rewards, a variant of the paper's bandit, stands."""
    label, gap, compute = field.label(BANDIT), field.gap(BANDIT, field.baseline), field.compute(BANDIT)
    found = [
        Answer(f"5. {label}: better than the preset", points(gap), judged(gap, MORE)),
        Answer(f"5. {label}: no loss against the preset", f"{points(gap)} at {percent(compute)} of its update FLOPs",
               judged(gap, NO_LOSS)),
    ]  # fmt: skip
    cheaper = [name for name in field.fixed_pairs() if field.compute(name) <= compute * 1.01]
    if cheaper:
        rival = max(cheaper, key=field.analysis.iqm)
        gap = field.gap(BANDIT, rival)
        text = f"5. {label}: better than {field.label(rival)}, the best fixed pair for its compute"
        found.append(Answer(text, points(gap), judged(gap, MORE)))
    return found


def answers_about_the_bandit(tournament: Tournament, earlier: Tournament | None) -> list[Answer]:
    """Take question 5 from an earlier study where this one has no bandit."""
    present, before = tournament.field, earlier.field if earlier else None
    if before is None or not before.has(BANDIT) or (present is not None and present.has(BANDIT)):
        return []
    return [replace(answer, question=f"{answer.question} (in the first tournament)") for answer in bandit(before)]


def tasks_of(field: Field) -> str:
    """Count the tasks."""
    return counted(len(field.selection.tasks), "task")


@dataclass(frozen=True)
class Choice:
    """Which method to use, and why; no name where nothing is shown to be better than the preset."""

    name: str | None
    text: str


def optimizing_for_samples(field: Field) -> Choice:
    """Take the best of the methods that are shown to be better than the preset, and on no task worse."""
    base = field.baseline
    found = [name for name in field.analysis.scored if name != base
             and field.better(name) and not field.different(name, -1)]  # fmt: skip
    if not found:
        return Choice(None, f"Where samples are expensive: {field.label(base)}. No other setting is shown to be better "
                      "over all tasks without being worse on one.")  # fmt: skip
    name = max(found, key=field.analysis.iqm)
    text = (
        f"Where samples are expensive: {field.label(name)}. Its mean score over the run is "
        f"{points(field.gap(name, base))} against that of the {field.label(base)}."
    )
    return Choice(name, text)


def optimizing_for_compute(field: Field) -> Choice:
    """Take the cheapest of the methods that are shown to lose less than the margin, and on no task worse."""
    base, margin = field.baseline, percent(MARGIN)
    cheaper = [name for name in field.analysis.scored if name != base and field.compute(name) < 1]
    nowhere_worse = [name for name in cheaper if not field.different(name, -1)]
    found = [name for name in nowhere_worse if field.no_loss(name) == HOLDS]
    if found:
        name = min(found, key=field.compute)
        return Choice(name, f"Where compute is expensive: {field.label(name)}. It loses less than {margin} and saves "
                      f"{percent(1 - field.compute(name))} of the update FLOPs.")  # fmt: skip
    text = f"Where compute is expensive: nothing cheaper is shown to lose less than {margin} on these tasks"
    open_ones = [name for name in nowhere_worse if field.no_loss(name) == NOT_SHOWN]
    if not open_ones:
        return Choice(None, text + ".")
    name = max(open_ones, key=field.analysis.iqm)
    return Choice(None, f"{text}. The closest is {field.label(name)}: {points(field.gap(name, base))} for "
                  f"{percent(field.compute(name))} of the update FLOPs.")  # fmt: skip


CHOICES: tuple[Callable[[Field], Choice], ...] = (optimizing_for_samples, optimizing_for_compute)
