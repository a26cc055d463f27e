"""The first section of docs/results.md: the study `tournament` in one table, two figures and ten sentences.

Everything is relative to the preset on each task and decided by the criterion that the study file declares. The study
`tournament-grid` adds fixed pairs of epochs and learning rate, so that the best pair in hindsight is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from adept.report.analysis import Analysis, analyze
from adept.report.comparison import Comparison
from adept.report.loading import load_comparison
from adept.report.scales import MARGIN
from adept.report.statistics import Estimate, difference
from adept.report.wording import counted, interval, listing, markdown, percent
from paper.measures import RESAMPLES, copied
from paper.verdicts import FAILS, HOLDS, Region, verdict
from paper.words import NOT_RUN, table

STUDIES = ("tournament", "tournament-grid")
PRESET, SAMPLES, COMPUTE, BANDIT = "preset", "hindsight-samples", "hindsight-compute", "ucb"
KL_RULES = ("kl-rate", "kl-rate-k3")
PAIRS = ("preset", "rate3", "rate10", "k3", "k3-rate3", "k3-rate10", "k1", "k1-rate3", "k1-rate10")
"""The 3 × 3 grid of fixed pairs: K ∈ {preset, 3, 1} × learning rate ∈ {1, 3, 10} times the preset's."""
NOT_INFERIOR = Region(above=-MARGIN)


@dataclass(frozen=True, eq=False)
class Tournament:
    """The study's findings, and those of its runs together with the grid of fixed pairs."""

    analysis: Analysis
    grid: Analysis | None = None
    """of both studies, where the second was run"""

    @property
    def comparison(self) -> Comparison:
        """What the study compares."""
        return self.analysis.comparison

    @property
    def done(self) -> int:
        """How many runs are finished."""
        return sum(result.done for result in self.analysis.methods.values())

    @property
    def planned(self) -> int:
        """How many runs the study declares."""
        return sum(result.planned for result in self.analysis.methods.values())

    def has(self, *names: str) -> bool:
        """Say whether methods have results on every task."""
        return set(names) <= set(self.analysis.scored)

    def processor(self, name: str) -> float:
        """Return processor seconds relative to the preset; NaN where they were not recorded."""
        mine, theirs = (self.analysis.methods[method].processor for method in (name, PRESET))
        return mine / theirs if theirs > 0 else math.nan

    def gap(self, name: str, rival: str) -> Estimate:
        """Return how far one method's IQM is above another's, by the study's criterion, in units of the preset's."""
        analysis = self.analysis if self.has(name, rival) or self.grid is None else self.grid
        mine, theirs = analysis.normalized(name), analysis.normalized(rival)
        assert mine is not None
        assert theirs is not None
        return difference(mine, theirs, resamples=RESAMPLES)

    def tasks(self, name: str, sign: int) -> list[str]:
        """Return the tasks on which a method is significantly better (1) or worse (-1) than the preset, after Holm."""
        cells = {task: self.analysis.tasks[name, task] for task in self.comparison.tasks}
        return [self.comparison.short[task] for task, cell in cells.items()
                if cell.difference is not None and cell.p < 0.05 and cell.difference.value * sign > 0]  # fmt: skip

    @cached_property
    def pairs(self) -> dict[str, list[float]]:
        """The mean score of every fixed pair that was run, task by task, relative to the preset."""
        analysis = self.grid or self.analysis
        found = {name: analysis.normalized(name) for name in PAIRS if name in analysis.methods}
        return {name: [float(np.mean(task)) for task in tasks] for name, tasks in found.items() if tasks is not None}

    @property
    def best_pair(self) -> str:
        """The fixed pair with the highest IQM over all tasks: picked after the fact."""
        analysis = self.grid or self.analysis
        return max(self.pairs, key=analysis.iqm)

    @property
    def best_per_task(self) -> float:
        """The mean over tasks of the best pair's score on each task, relative to the preset: picked after the fact."""
        return float(np.max(list(self.pairs.values()), axis=0).mean())


def load_tournament(results: Path) -> Tournament | None:
    """Read the packed records of both studies; None where the first has none, or its preset was not run everywhere."""
    with copied(results, STUDIES) as directories:
        if STUDIES[0] not in directories:
            return None
        analysis = analyze(load_comparison([directories[STUDIES[0]]]))
        if PRESET not in analysis.scored:
            return None
        grid = analyze(load_comparison(list(directories.values()))) if STUDIES[1] in directories else None
    return Tournament(analysis, grid)


def section(found: Tournament | None) -> str:
    """Return the section: sentences, table and figures, or that the study was not run."""
    title = "## The tournament: which epochs and learning rate should I use, and what do they save?"
    if found is None:
        return f"{title}\n\n{NOT_RUN} `adept study tournament --dry-run` shows what is declared."
    text = " ".join(sentences(found))
    pictures = "\n\n".join(
        f"![{words}](../results/tournament/page/{name}.png)"
        for name, words in (("score-against-update-flops", "Mean score against update FLOPs, with the Pareto front"),
                            ("differences-by-task", "Differences to the preset, task by task"))
    )  # fmt: skip
    return f"{title}\n\n{text}\n\n{method_table(found)}\n\n{caption(found)}\n\n{pictures}"


def method_table(found: Tournament) -> str:
    """Return a row per method: scores and costs relative to the preset, and the tasks on which they differ."""
    rows = []
    for name in found.analysis.scored:
        result = found.analysis.methods[name]
        primary, final = result.primary, result.train
        assert primary is not None
        better, worse = found.tasks(name, 1), found.tasks(name, -1)
        rows.append([
            markdown(found.comparison.label(name)), interval(primary["iqm"]),
            "" if name == PRESET else interval(result.improvement), "–" if final is None else interval(final["iqm"]),
            percent(result.update_compute), percent(found.processor(name)),
            "" if name == PRESET else f"{len(better)} / {len(worse)}", result.standing,
        ])  # fmt: skip
    header = ("method", "mean score", "P(better run)", "final score", "update FLOPs", "processor time",
              "tasks better / worse", "against the preset")  # fmt: skip
    return table(header, rows, 7)


def caption(found: Tournament) -> str:
    """Say how the table was made."""
    unit = found.analysis.unit("mean-score")
    few = "" if found.done == found.planned else f" {found.done} of {found.planned} runs are finished."
    return (
        f"Scores are interquartile means over tasks and seeds, {unit}, with 95 % stratified bootstrap intervals; the mean "
        "score over the run decides. Tasks count as better or worse at the 5 % level after Holm's correction. *Not worse* "
        f"means less than {percent(MARGIN)} behind the preset (non-inferiority). Processor time is the process's own, "
        f"watching included.{few}"
    )


def sentences(found: Tournament) -> list[str]:
    """Return what an engineer wants to know, in ten sentences at most."""
    comparison = found.comparison
    families = {task.partition("/")[0] for task in comparison.tasks}
    seeds = len({run.seed for run in comparison.runs})
    said = [
        f"{counted(len(comparison.methods), 'method')} ran on {counted(len(comparison.tasks), 'task')} of "
        f"{len(families)} backends, none of which was used in development, with {seeds} seeds each "
        f"({found.done} of {found.planned} runs).",
        "The study file, with methods, tasks and the deciding criterion, was committed before the runs; FLOPs include "
        "hindsight's own.",
    ]
    for name, words in ((SAMPLES, "Where samples are expensive"), (COMPUTE, "Where compute is expensive")):
        if found.has(name):
            said.append(_against_preset(found, name, words))
    if found.has(SAMPLES, COMPUTE):
        said.append(_by_task(found))
    if (rules := [name for name in KL_RULES if found.has(name)]) and found.has(COMPUTE):
        said.append(_against(found, max(rules, key=found.analysis.iqm), "the learning rate by KL at its better epochs"))
    if len(found.pairs) == len(PAIRS) and found.has(COMPUTE):
        said.append(_against(found, found.best_pair, "the best fixed pair over all tasks, picked after the fact"))
        said.append(_behind_oracle(found))
    if found.has(BANDIT):
        said.append(_against_preset(found, BANDIT, "The paper's bandit with standardised rewards"))
    return [*said, recommendation(found)]


def _against_preset(found: Tournament, name: str, words: str) -> str:
    result = found.analysis.methods[name]
    assert result.primary is not None
    assert result.improvement is not None
    chance = {HOLDS: "better than even", FAILS: "worse than even"}.get(
        verdict(result.improvement, Region(above=0.5)), "not told from even"
    )
    return (
        f"{words}, {markdown(found.comparison.label(name))} has {interval(result.primary['iqm'])} of the preset's mean "
        f"score with {percent(result.update_compute)} of its update FLOPs; the chance that a run beats one of the preset "
        f"is {interval(result.improvement)}, {chance}."
    )


def _by_task(found: Tournament) -> str:
    parts = []
    for name in (SAMPLES, COMPUTE):
        better, worse = found.tasks(name, 1), found.tasks(name, -1)
        says = [f"better on {listing(better) if better else 'no task'}", f"worse on {listing(worse) if worse else 'none'}"]
        parts.append(f"{markdown(found.comparison.label(name))} is significantly {' and '.join(says)}")
    return f"By task, {'; '.join(parts)}."


def _against(found: Tournament, rival: str, words: str) -> str:
    gap = found.gap(COMPUTE, rival)
    said = {HOLDS: "is not worse than", FAILS: "is worse than"}.get(verdict(gap, NOT_INFERIOR), "is not shown to equal")
    analysis = found.grid if found.grid is not None and rival not in found.analysis.methods else found.analysis
    costs = [percent(each.methods[name].update_compute) for each, name in ((found.analysis, COMPUTE), (analysis, rival))]
    return (
        f"{markdown(found.comparison.label(COMPUTE))} {said} {words} ({markdown(analysis.comparison.label(rival))}): the "
        f"difference is {interval(gap)} at {costs[0]} against {costs[1]} of the update FLOPs."
    )


def _behind_oracle(found: Tournament) -> str:
    mine = {name: float(np.mean([task.mean() for task in found.analysis.normalized(name) or []]))
            for name in (SAMPLES, COMPUTE) if found.has(name)}  # fmt: skip
    behind = listing([f"{markdown(found.comparison.label(name))} by {found.best_per_task - value:.2f}"
                      for name, value in mine.items()])  # fmt: skip
    return (
        f"The best pair of each task, which nobody can know beforehand, has {found.best_per_task:.2f} of the preset's mean "
        f"score: it is ahead of {behind}."
    )


def recommendation(found: Tournament) -> str:
    """Answer the question: the cheapest method that is not worse than the preset, and the one with the highest score."""
    analysis = found.analysis
    good = [name for name in analysis.scored if analysis.methods[name].standing in ("better", "not worse")]
    if not good:
        return (
            "No method is shown to be within the margin of the preset or better, so the answer is: keep the preset's "
            "epochs and learning rate."
        )
    cheapest = min(good, key=lambda name: analysis.methods[name].update_compute)
    saved = 1 - analysis.methods[cheapest].update_compute
    text = (
        f"So use {markdown(found.comparison.label(cheapest))} if compute counts: it saves {percent(saved)} of the update "
        "FLOPs without a loss of score"
        if saved > 0
        else "So nothing saves update FLOPs without a loss of score"
    )
    if better := [name for name in good if analysis.methods[name].standing == "better"]:
        best = max(better, key=analysis.iqm)
        text += f"; use {markdown(found.comparison.label(best))} if the score counts"
    return f"{text}."


def differences(found: Tournament, names: Sequence[str]) -> Mapping[str, Mapping[str, Estimate]]:
    """Return the difference to the preset of each method that was run, task by task, for the figure."""
    cells: dict[str, dict[str, Estimate]] = {}
    for name in names:
        if found.has(name):
            each = {task: found.analysis.tasks[name, task].difference for task in found.comparison.tasks}
            cells[name] = {task: gap for task, gap in each.items() if gap is not None}
    return cells
