"""The questions of the studies' files, each answered by a rule: shown, not shown, or contrary.

A question names a region. It is shown where the 95 % interval lies inside it, contrary where it lies outside, and not
shown otherwise. FLOPs are counted, not estimated: they are in the region or not.
"""

from __future__ import annotations

from adept.report.statistics import Estimate
from adept.report.text import counted, interval, listing, percent
from experiments.tournament.analysis import BANDIT, HINDSIGHT, KL_RULE, MORE, NO_LOSS, Field
from paper.verdicts import FAILS, HOLDS, NOT_SHOWN, UNTESTED, Region, verdict
from paper.words import points

WORDS = {HOLDS: "shown", FAILS: "contrary", NOT_SHOWN: "not shown", UNTESTED: "one seed does not tell"}
MOST_RUNS = Region(above=0.5)
HALF = 0.5
"""The share of the preset's update FLOPs that hindsight may take."""
Answer = tuple[str, str, str]
"""What was asked, what was measured, and the verdict."""


def answers(field: Field, grid: Field, first: Field) -> list[Answer]:
    """Answer by the question's number: of the second tournament, of the grid beside it, and of the first."""
    found = [answer for name in HINDSIGHT for answer in against_preset(field, name)]
    found += [answer for name in HINDSIGHT for answer in against_kl_rule(field, name)]
    found += [best_pair(grid, name) for name in HINDSIGHT] + [best_pairs(grid, name) for name in HINDSIGHT]
    return found + bandit(first)


def _counted(condition: bool) -> str:
    return WORDS[HOLDS if condition else FAILS]


def _judged(estimate: Estimate, region: Region) -> str:
    return WORDS[verdict(estimate, region)]


def against_preset(field: Field, name: str) -> list[Answer]:
    """Question 1: more often better than the preset, for at most half of its update FLOPs, and nowhere worse."""
    label, chance, compute = field.label(name), field.chance(name), field.compute(name)
    worse = [field.comparison.short[task] for task in field.different(name, -1)]
    tasks = (
        f"significantly worse on {listing(worse) if worse else 'none'}, better on {len(field.different(name, 1))} of "
        f"{counted(len(field.tasks), 'task')}"
    )
    return [
        (f"1. {label}: a run is better than one of the preset more often than not",
         f"probability {interval(chance)}", _judged(chance, MOST_RUNS)),
        (f"1. {label}: at most half of the preset's update FLOPs",
         f"{percent(compute)}; {percent(field.processor(name))} of its processor time", _counted(compute <= HALF)),
        (f"1. {label}: on no task significantly worse than the preset", tasks, _counted(not worse)),
    ]  # fmt: skip


def against_kl_rule(field: Field, name: str) -> list[Answer]:
    """Question 2: no loss against the rule by KL, at equal or fewer FLOPs."""
    gap, compute, rival = field.gap(name, KL_RULE), field.compute(name, KL_RULE), field.label(KL_RULE)
    return [
        (f"2. {field.label(name)}: no loss against {rival}", points(gap), _judged(gap, NO_LOSS)),
        (f"2. {field.label(name)}: no more update FLOPs than {rival}", percent(compute), _counted(compute <= 1)),
    ]


def best_pair(grid: Field, name: str) -> Answer:
    """Question 3: the best fixed pair over all tasks, picked after the fact."""
    best = grid.best_pair()
    gap = grid.gap(name, best)
    question = f"3. {grid.label(name)}: no loss against the best fixed pair on average over tasks ({grid.label(best)}, "
    return question + "selected after the fact)", f"{points(gap)} ({grid.seeds} seeds)", _judged(gap, NO_LOSS)


def best_pairs(grid: Field, name: str) -> Answer:
    """Question 4: the best fixed pair of each task, picked after the fact."""
    gap = grid.gap(name, grid.scores_of_best_pairs())
    question = f"4. {grid.label(name)}: no loss against the best pair of each task (selected after the fact)"
    return question, f"{points(gap)} ({grid.seeds} seeds)", _judged(gap, NO_LOSS)


def bandit(field: Field) -> list[Answer]:
    """Question 5: where UCB with standardised rewards, a variant of the paper's bandit, stands."""
    label, gap, compute = field.label(BANDIT), field.gap(BANDIT, field.baseline), field.compute(BANDIT)
    measured = f"{points(gap)} at {percent(compute)} of its update FLOPs"
    return [
        (f"5. {label}: better than the preset (first tournament)", points(gap), _judged(gap, MORE)),
        (f"5. {label}: no loss against the preset (first tournament)", measured, _judged(gap, NO_LOSS)),
    ]
