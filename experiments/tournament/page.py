"""The tables of results/tournament, results/tournament-2 and results/tournament-grid, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from adept.report.figures import Drawing, Pen, our_style
from adept.report.normalization import MARGIN
from adept.report.plots.scores import differences, score_against_compute
from adept.report.style import looks
from adept.report.text import interval, markdown, number, percent
from experiments.tournament.analysis import FIRST, GRID, HINDSIGHT, SECOND, Field, load_field
from experiments.tournament.answers import answers
from paper.verdicts import FAILS, HOLDS
from paper.words import percent_interval, points, table

NO_LOSS_WORDS = {HOLDS: "yes", FAILS: "no"}
field = cache(load_field)


def method_table(field: Field) -> str:
    """Return one row per method: scores and costs relative to the preset, and the tests against it."""
    rows = []
    for name in field.analysis.scored:
        result = field.analysis.methods[name]
        first = name == field.baseline
        better, worse = (len(field.different(name, sign)) for sign in (1, -1))
        rows.append([
            markdown(field.label(name)),
            percent_interval(result.aggregates["mean-score"]["iqm"]),
            percent_interval(result.aggregates["final-score"]["iqm"]),
            percent(field.compute(name)), percent(field.processor(name)),
            "" if first else interval(field.chance(name)),
            "" if first or not field.tells_tasks_apart else f"{better} / {worse}",
            "" if first else NO_LOSS_WORDS.get(field.no_loss(name), "not shown"),
        ])  # fmt: skip
    header = ("method", "mean score over the run", "final score", "update FLOPs", "processor time",
              "P(better than the preset)", "tasks better / worse", f"loses less than {percent(MARGIN)}")  # fmt: skip
    return table(header, rows, 7)


def answer_table() -> str:
    """Return the questions with their answers."""
    rows = [[markdown(question), markdown(measured), f"**{verdict}**"]
            for question, measured, verdict in answers(field(SECOND), field(GRID), field(FIRST))]  # fmt: skip
    return table(("question", "measured [95 %]", "answer"), rows)


def pair_table(grid: Field) -> str:
    """Return the fixed pairs and hindsight with their scores, and the best pair of each task."""
    best, each = grid.best_pair(), grid.best_pairs()
    rows = []
    for name in (*grid.fixed_pairs(), *HINDSIGHT):
        score = grid.analysis.methods[name].aggregates["mean-score"]["iqm"]
        won = [grid.comparison.short[task] for task, winner in each.items() if winner == name]
        label = markdown(grid.label(name))
        rows.append([f"**{label}**" if name == best else label, percent_interval(score), percent(grid.compute(name)),
                     percent(grid.processor(name)), ", ".join(won)])  # fmt: skip
    header = ("method", "mean score over the run", "update FLOPs", "processor time",
              "best on (selected after the fact)")  # fmt: skip
    return table(header, rows)


def tuning_table(grid: Field) -> str:
    """Compare hindsight with fixed pairs that are picked after the fact, and with pairs tuned on other seeds."""
    rivals = {
        "the best pair on average over tasks, selected after the fact": grid.scores(grid.best_pair()),
        "the best pair on average over tasks, tuned on the other seeds": grid.scores_of_tuned_pairs(by_task=False),
        "the best pair of each task, selected after the fact": grid.scores_of_best_pairs(),
        "the best pair of each task, tuned on the other seeds": grid.scores_of_tuned_pairs(by_task=True),
    }
    rows = [[words, *(points(grid.gap(name, scores)) for name in HINDSIGHT)] for words, scores in rivals.items()]
    return table(("against", *(markdown(grid.label(name)) for name in HINDSIGHT)), rows, 2)


def quarter_table(field: Field) -> str:
    """Return, for each method, its lead over the preset in each quarter of the steps."""
    rows = [[markdown(field.label(name)), *(points(field.gap_in_quarter(name, quarter)) for quarter in range(4))]
            for name in field.analysis.scored if name != field.baseline]  # fmt: skip
    return table(("method", "first quarter", "second", "third", "last"), rows, 4)


def task_table(field: Field) -> str:
    """Return, for each task, the mean score over the run of each method, in returns, and what hindsight saves."""
    names = field.analysis.scored
    saving = [name for name in HINDSIGHT if field.compute(name) < 1]
    shares = [field.compute_by_task(name) for name in saving]
    rows = []
    for index, task in enumerate(field.tasks):
        cells = [field.analysis.tasks[name, task].area.value for name in names]
        start = field.comparison.start(task)
        rows.append([field.comparison.short[task], number(start), *(number(cell) for cell in cells),
                     *(percent(share[index]) for share in shares)])  # fmt: skip
    header = ("task", "start", *(markdown(field.label(name)) for name in names),
              *(f"update FLOPs of {markdown(field.label(name))}" for name in saving))  # fmt: skip
    return table(header, rows, len(header) - 1)


BLOCKS: dict[str, Callable[[], str]] = {
    "tournament": lambda: method_table(field(FIRST)),
    "tournament-2": lambda: method_table(field(SECOND)),
    "tournament-2-answers": answer_table,
    "tournament-2-quarters": lambda: quarter_table(field(SECOND)),
    "tournament-2-tasks": lambda: task_table(field(SECOND)),
    "tournament-grid": lambda: pair_table(field(GRID)),
    "tournament-grid-tuned": lambda: tuning_table(field(GRID)),
}


@our_style()
def drawings() -> Sequence[Drawing]:
    """Draw the second tournament: score against update FLOPs with the front, and the differences task by task."""
    analysis = field(SECOND).analysis
    pen = Pen(analysis, looks(analysis.comparison))
    return [*score_against_compute(pen), *differences(pen)]
