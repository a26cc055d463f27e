"""The generated parts of docs/results-appendix.md, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adept.probe.effects import effects
from adept.probe.records import mean_interval
from adept.report.wording import interval, markdown, number, percent
from paper import choices
from paper.blocks import PLACEBOS, claim_table, of, score_table
from paper.claims import rivals
from paper.measures import Evidence
from paper.words import NOT_RUN, percent_interval, signed, table

RIVALS = {"minigrid": ("ucb-4-2-1", "ucb-6-4", "ucb-8-4", "ucb-8-4-2-1", "thompson-4-2-1", "round-robin-4-2-1"),
          "pybullet-500k": ("ucb-10-5-1", "thompson-10-5-1", "round-robin-10-5-1")}  # fmt: skip
ONE_RUN = ("ucb-8-4", "minigrid/DoorKey-6x6", 1)


def appendix_blocks(minigrid: Evidence | None, pybullet: Evidence | None, procgen: Evidence | None) -> dict[str, str]:
    """Return every block of the appendix by name."""
    learners = [evidence for evidence in (minigrid, pybullet) if evidence is not None]
    against = [claim for evidence in learners for claim in rivals(evidence, RIVALS[evidence.results.study.name])]
    return {
        "rivals": claim_table(against),
        "seeds": of(minigrid, by_seed),
        "procgen": of(procgen, score_table),
        "tracking": tracking(learners),
        "effects": effect_table(learners),
        "held": held(learners),
        "placebo": placebo(learners),
        "branches": branches(),
    }


def by_seed(evidence: Evidence) -> str:
    """Return steps and epochs to a mean return of 0.9 on DoorKey-6x6, seed by seed."""
    task = "minigrid/DoorKey-6x6"
    rows = []
    for method in evidence.comparison.methods:
        finished = evidence.comparison.finished(method.name, task)
        cells = []
        for run in finished:
            reached = np.flatnonzero(run.score >= evidence.threshold)
            if len(reached):
                last = reached[0] + 1
                cells.append(f"{run.steps[last - 1] / 1000:.0f} k ({run.epochs_done[:last].sum():.0f})")
            else:
                cells.append("never")
        early = sum(bool((run.score[run.steps <= 160_000] >= evidence.threshold).any()) for run in finished)
        rows.append([markdown(method.label), f"{early}/{len(finished)}", ", ".join(cells)])
    return table(("method", "solved within 160 k", "steps (epochs) until solved, seed 1, 2, …"), rows)


def tracking(studies: Sequence[Evidence]) -> str:
    """Return how the bandit's reward goes with the return of episodes."""
    rows = [
        [found.task, f"{found.runs}", f"{found.levels:.2f}", f"{found.changes:.2f}", percent(found.silent)]
        for evidence in studies
        for found in choices.tracking(evidence)
    ]
    header = ("task", "runs", "correlation over the run", "without the trend", "iterations in which no episode ended")
    return table(header, rows, 4) if rows else NOT_RUN


def effect_table(studies: Sequence[Evidence]) -> str:
    """Return what round robin's arms did to both rewards, and how many tries it takes to see it."""
    rows = []
    for evidence in studies:
        for reward, words in (("gae_return", "GAE"), ("episode_return", "episodes")):
            for found in effects(evidence.records, reward):
                each = "; ".join(
                    f"K={arm}: {signed(value, 100)}" for arm, value in zip(found.arms, found.changes, strict=True)
                )
                rows.append([found.task.partition("/")[2], words, each, number(found.noise, 3),
                             f"{100 * found.gap:.0f} %", f"{found.tries:,.0f}"])  # fmt: skip
    header = ("task", "reward", "its change after each arm, in % of the noise", "noise of one change", "largest gap",
              "tries of each")  # fmt: skip
    return table(header, rows, 3) if rows else NOT_RUN


def held(studies: Sequence[Evidence]) -> str:
    """Return how many runs of each bandit end with one arm, and with which."""
    rows = []
    for evidence in studies:
        for method in evidence.comparison.methods:
            if method.family in ("ucb", "thompson") and evidence.has(method.name):
                counts = choices.held(evidence, method.name)
                runs = sum(len(table) for table in evidence.scores(method.name))
                each = ", ".join(f"K={arm}: {count}" for arm, count in counts.items())
                rows.append(
                    [evidence.results.study.name, markdown(method.label), f"{sum(counts.values())} of {runs}", each]
                )
    header = ("study", "method", "runs that end with one arm", "which")
    return table(header, rows) if rows else NOT_RUN


def placebo(studies: Sequence[Evidence]) -> str:
    """Return the share of the most-chosen arm in a method's own runs and on placebo, task by task."""
    rows = []
    for evidence in studies:
        for name in PLACEBOS.get(evidence.results.study.name, ()):
            if not evidence.has(name, evidence.comparison.baseline):
                continue
            for found in choices.preferences(evidence, name):
                rows.append([
                    markdown(evidence.comparison.label(name)), found.task.partition("/")[2],
                    percent_interval(mean_interval(found.real.max(1))), percent_interval(found.placebo.most),
                    percent_interval(found.placebo.shuffled_most), percent(1 / len(found.placebo.arms)),
                ])  # fmt: skip
    header = ("method", "task", "share of the most-chosen arm", "on placebo", "in random order", "even")
    return table(header, rows, 4) if rows else NOT_RUN


def branches() -> str:
    """Return, for each state that was branched, the lead of the best arm in truth and in reward, and which it is."""
    rows = []
    for stage in choices.stages():
        truth, reward, shift = stage.lead("truth"), stage.lead("reward"), stage.against_mean("critic_shift")
        rows.append([
            f"{stage.task.partition('/')[2]}, seed {stage.seed}", f"{stage.step / 1000:.0f} k", number(stage.before),
            interval(truth, 3), f"K={stage.oracle}" if truth.low > 0 else "–",
            interval(reward, 3), f"K={stage.seen}" if reward.low > 0 else "–", number(stage.noise, 3),
            f"{shift[-1].value - shift[0].value:+.3f}",
        ])  # fmt: skip
    header = ("run", "steps", "score", "true return: lead of the best K", "oracle's K", "reward: lead of the best K",
              "best K by reward", "noise of a reward", "critic's shift, largest K less K=1")  # fmt: skip
    return table(header, rows, 7) if rows else NOT_RUN
