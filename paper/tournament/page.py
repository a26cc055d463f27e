"""The tournament's part of docs/results.md, its table in the appendix and the README's, as Markdown."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from adept.report.comparison import Run
from adept.report.figures import STYLE, Drawing, Pen
from adept.report.normalization import MARGIN
from adept.report.plots.scores import differences, score_against_compute
from adept.report.style import looks
from adept.report.text import counted, interval, listing, markdown, number, percent
from paper.measures import ROOT
from paper.tournament.answers import CHOICES, KL_RULES, answers, answers_about_the_bandit, tasks_of
from paper.tournament.field import BANDIT, HINDSIGHT, Field, Tournament
from paper.verdicts import FAILS, HOLDS
from paper.words import NOT_RUN, finished, percent_interval, points, table

SIMPLE = "k3-rate3"
"""The fixed pair that the README always shows: what one could do without any of this."""
WAITS = "Results are shown from five complete seeds on."
TUNED = (
    "Tuned on the other seeds means: for each seed, the pair that is best with all other seeds. No run is scored that "
    "its pair was chosen on, so this is what a grid search gives."
)
NO_LOSS_WORDS = {HOLDS: "yes", FAILS: "no"}


def figures_of(tournament: Tournament) -> Path:
    """Return the folder of a study's figures."""
    return ROOT / "results" / tournament.rules.study / "figures"


def tournament_blocks(tournament: Tournament | None, earlier: Tournament | None = None) -> dict[str, str]:
    """Return the blocks of the tournament by name; of an earlier one there is a table."""
    before = earlier_block(earlier)
    if tournament is None or tournament.field is None:
        none = NOT_RUN if tournament is None else f"*Under way.* {state(tournament)}"
        return {
            "tournament": none,
            "tournament-answers": NOT_RUN,
            "tournament-grid": NOT_RUN,
            "tournament-quarters": NOT_RUN,
            "tournament-tasks": NOT_RUN,
            "tournament-earlier": before,
        }
    field = tournament.field
    return {
        "tournament": "\n\n".join([advice(tournament), method_table(field), state(tournament), pictures(tournament)]),
        "tournament-answers": answer_table(tournament, earlier),
        "tournament-grid": grid_block(tournament),
        "tournament-quarters": quarter_table(field),
        "tournament-tasks": task_table(field),
        "tournament-earlier": before,
    }


def earlier_block(earlier: Tournament | None) -> str:
    """Return what an earlier study came to, or how far a later one is."""
    if earlier is None:
        return NOT_RUN
    if earlier.field is None:
        return f"The study {earlier.rules.study} is under way. {state(earlier)}"
    return f"{method_table(earlier.field)}\n\n{state(earlier)}"


def advice(tournament: Tournament) -> str:
    """Return which setting to use and what it saves, and where the methods stand: a line each."""
    field, grid = tournament.field, tournament.grid
    assert field is not None
    lines = [choose(field).text for choose in CHOICES]
    lines += [standing(field, name) for name in (*HINDSIGHT, BANDIT) if field.has(name)]
    ours = [name for name in HINDSIGHT if field.has(name)]
    if ours and not field.rules.paired:
        lines.append(f"With runs paired by seed, which was not declared beforehand: {'; '.join(paired(field, ours))}.")
    rules = [rule for rule in KL_RULES if field.has(rule)]
    if ours and rules:
        rival = max(rules, key=field.analysis.iqm)
        lines.append(f"Against {field.label(rival)}: " + listing([
            f"{field.label(name)} {points(field.gap(name, rival))} for {percent(field.compute(name, rival))} of its "
            "update FLOPs" for name in ours]) + ".")  # fmt: skip
    if grid is not None and grid.fixed_pairs():
        lines += best_pairs(grid)
    if ours:
        cheap = min(ours, key=field.compute)
        lines.append(
            f"{field.label(cheap)} takes {percent(field.compute(cheap))} of the preset's update FLOPs and "
            f"{percent(field.processor(cheap))} of its processor time; sampling costs the same. In the last quarter of "
            f"the runs it takes {percent(field.compute_of_the_last_quarter(cheap))} of the update FLOPs."
        )
    return "\n".join(f"- {markdown(line)}" for line in lines)


def standing(field: Field, name: str) -> str:
    """Say how a method compares with the preset."""
    same = " of the same seed" if field.rules.paired else ""
    return (
        f"{field.label(name)}: {points(field.gap(name, field.baseline))} against the preset, for "
        f"{percent(field.compute(name))} of its update FLOPs; a run is better than one of the preset{same} with "
        f"probability {interval(field.chance(name))}."
    )


def paired(field: Field, names: list[str]) -> list[str]:
    """Say how methods compare with the preset's runs of the same seeds."""
    found = []
    for name in names:
        ahead, equal, behind = field.ahead(name)
        gap = points(field.gap(name, field.baseline, paired=True))
        found.append(f"{field.label(name)} {gap}, {ahead} runs ahead, {equal} equal and {behind} behind")
    return found


def best_pairs(grid: Field) -> list[str]:
    """Say how hindsight compares with the best fixed pairs, which nobody knows beforehand."""
    best = grid.best_pair()
    found = []
    rivals = {
        f"The best fixed pair over all tasks is {grid.label(best)}": grid.scores(best),
        "The best pair of each task differs from task to task": grid.scores_of_best_pairs(),
    }
    for words, rival in rivals.items():
        gaps = [f"{grid.label(name)} {points(grid.gap(name, rival))}" for name in HINDSIGHT if grid.has(name)]
        if gaps:
            found.append(f"{words} (selected after the fact). Against it: {listing(gaps)}.")
    return found


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
            "" if first or not field.chance(name) else interval(field.chance(name)),
            "" if first or not field.tells_tasks_apart else f"{better} / {worse}",
            "" if first else NO_LOSS_WORDS.get(field.no_loss(name), "not shown"),
        ])  # fmt: skip
    header = ("method", "mean score over the run", "final score", "update FLOPs", "processor time",
              "P(better than the preset)", "tasks better / worse", f"loses less than {percent(MARGIN)}")  # fmt: skip
    return table(header, rows, 7)


def state(tournament: Tournament) -> str:
    """Say what is compared, what is not, and why."""
    field = tournament.field
    if field is None:
        return f"{finished(tournament.everything.runs)} {WAITS}"
    chosen = field.selection
    text = (
        f"{counted(len(chosen.methods), 'method')} on {tasks_of(field)} with {len(chosen.seeds)} of "
        f"{counted(field.planned, 'seed')}: {len(field.comparison.runs)} runs."
    )
    hours = sum(field.comparison.total(run, "processor") for run in field.comparison.runs) / 3600
    text += f" They took {number(hours, 1)} processor hours." if np.isfinite(hours) else ""
    if len(chosen.seeds) < field.planned:
        text += " A seed counts once all of its runs are finished, and otherwise for no method."
    if chosen.dropped:
        names = [f"*{markdown(_name(tournament, name))}*" for name in chosen.dropped]  # names may have commas
        text += f" Dropped because time ran short, in the order that the study's file declares: {listing(names)}."
    if field.flat:
        text += f" The preset does not improve on {listing(list(field.flat))}, so nothing is measured against it there."
    return text


def _name(tournament: Tournament, name: str) -> str:
    known = {method.name: method.label for method in tournament.everything.methods}
    return known.get(name, name)


def pictures(tournament: Tournament) -> str:
    """Return the two figures."""
    folder = Path("..") / figures_of(tournament).relative_to(ROOT)
    return (
        f"![Score against update FLOPs]({folder.as_posix()}/score-against-compute.png)\n\n"
        f"![Differences to the preset by task]({folder.as_posix()}/per-task-differences.png)"
    )


def answer_table(tournament: Tournament, earlier: Tournament | None = None) -> str:
    """Return the questions with their answers; what only an earlier study can answer comes last."""
    rows = [[markdown(answer.question), markdown(answer.measured), f"**{answer.verdict}**"]
            for answer in (*answers(tournament), *answers_about_the_bandit(tournament, earlier))]  # fmt: skip
    if not rows:
        return NOT_RUN
    text = table(("question", "measured [95 %]", "answer"), rows)
    if tournament.grid is None:
        text += "\n\nQuestions 3 and 4 compare hindsight with the best fixed pairs, whose runs are not finished yet."
    return text


def grid_block(tournament: Tournament) -> str:
    """Return the fixed pairs with their scores, the best over all tasks, and the best of each task."""
    grid = tournament.grid
    if grid is None or not grid.fixed_pairs():
        return f"*Under way.* {finished(grid_runs(tournament))} {WAITS}" if grid_runs(tournament) else NOT_RUN
    best, each = grid.best_pair(), grid.best_pairs()
    rows = []
    for name in (*grid.fixed_pairs(), *(name for name in HINDSIGHT if grid.has(name))):
        score = grid.analysis.methods[name].aggregates["mean-score"]["iqm"]
        won = [grid.comparison.short[task] for task, winner in each.items() if winner == name]
        label = markdown(grid.label(name))
        rows.append([f"**{label}**" if name == best else label, percent_interval(score), percent(grid.compute(name)),
                     ", ".join(won)])  # fmt: skip
    header = ("method", "mean score over the run", "update FLOPs", "best on (selected after the fact)")
    pairs = len(grid.fixed_pairs())
    text = (
        f"{pairs} of {tournament.pairs} fixed pairs on {tasks_of(grid)} with {len(grid.selection.seeds)} of "
        f"{counted(grid.planned, 'seed')}. The best over all tasks is bold. The best of each task is picked from "
        f"{pairs} by the same runs that it is scored on, so its lead is in part luck."
    )
    return "\n\n".join([table(header, rows), text, *tuning(grid)])


def grid_runs(tournament: Tournament) -> list[Run]:
    """Return the runs of the grid's own study."""
    own = {method.name for method in tournament.everything.methods if method.source == tournament.rules.grid}
    return [run for run in tournament.everything.runs if run.method in own]


def tuning(grid: Field) -> list[str]:
    """Compare hindsight with fixed pairs that are picked after the fact, and with pairs tuned on other seeds."""
    ours = [name for name in HINDSIGHT if grid.has(name)]
    rivals = {
        "the best pair over all tasks, selected after the fact": grid.scores(grid.best_pair()),
        "the best pair over all tasks, tuned on the other seeds": grid.scores_of_tuned_pairs(by_task=False),
        "the best pair of each task, selected after the fact": grid.scores_of_best_pairs(),
        "the best pair of each task, tuned on the other seeds": grid.scores_of_tuned_pairs(by_task=True),
    }
    rows = [[words, *(points(grid.gap(name, scores)) for name in ours)]
            for words, scores in rivals.items() if scores is not None]  # fmt: skip
    return [table(("against", *(markdown(grid.label(name)) for name in ours)), rows, len(ours)), TUNED] if ours else []


def quarter_table(field: Field) -> str:
    """Return, for each method, its lead over the preset in each quarter of the steps."""
    rows = [[markdown(field.label(name)), *(points(field.gap_in_quarter(name, quarter)) for quarter in range(4))]
            for name in field.analysis.scored if name != field.baseline]  # fmt: skip
    return table(("method", "first quarter", "second", "third", "last"), rows, 4)


def task_table(field: Field) -> str:
    """Return, for each task, the mean score over the run of each method, in returns, and what hindsight saves."""
    names = list(field.analysis.scored)
    saving = [name for name in HINDSIGHT if field.has(name) and field.compute(name) < 1]
    shares = [field.compute_by_task(name) for name in saving]
    rows = []
    for index, task in enumerate(field.selection.tasks):
        cells = [field.analysis.tasks[name, task].area.value for name in names]
        start = field.comparison.start(task)
        rows.append([field.comparison.short[task], number(start), *(number(cell) for cell in cells),
                     *(percent(share[index]) for share in shares)])  # fmt: skip
    header = ("task", "start", *(markdown(field.label(name)) for name in names),
              *(f"update FLOPs of {markdown(field.label(name))}" for name in saving))  # fmt: skip
    return table(header, rows, len(header) - 1)


def summary_table(tournament: Tournament | None) -> str:
    """Return the README's table: the preset, hindsight, its rivals and what is shown to be best; empty without runs."""
    field = tournament.field if tournament else None
    if field is None:
        return ""
    rows = []
    best = [name for choose in CHOICES if (name := choose(field).name) is not None]
    for name in dict.fromkeys((field.baseline, *HINDSIGHT, SIMPLE, *best, BANDIT)):
        if field.has(name):
            result = field.analysis.methods[name]
            scores = [percent_interval(result.aggregates[measure]["iqm"]) for measure in ("mean-score", "final-score")]
            rows.append([markdown(field.label(name)), *scores, percent(field.compute(name))])
    header = (f"{tasks_of(field)}, {counted(len(field.selection.seeds), 'seed')}", "mean score over the run",
              "final score", "update compute")  # fmt: skip
    return table(header, rows, 3)


def tournament_drawings(tournament: Tournament | None) -> list[Drawing]:
    """Draw score against update FLOPs with the front, and the differences task by task."""
    field = tournament.field if tournament else None
    if field is None:
        return []
    pen = Pen(field.analysis, looks(field.comparison))
    with matplotlib.rc_context(STYLE):
        return [*score_against_compute(pen), *differences(pen)]
