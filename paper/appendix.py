"""The generated parts of docs/results-appendix.md, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from adept.probe.effects import effects
from adept.report.text import interval, markdown, number, percent
from paper import choices
from paper.blocks import claim_table
from paper.claims import rivals
from paper.measures import Evidence
from paper.words import NOT_RUN, signed, table

RIVALS = {"minigrid": ("ucb-4-2-1", "thompson-4-2-1", "round-robin-4-2-1"),
          "pybullet-500k": ("ucb-10-5-1", "thompson-10-5-1", "round-robin-10-5-1")}  # fmt: skip
"""The paper's arms of each study; the other sets are in the tables of docs/results.md."""
PAPER_ARMS = ((4, 2, 1), (10, 5, 1))
ONE_RUN = ("ucb-8-4", "minigrid/DoorKey-6x6", 1)
BRANCHED = "minigrid/DoorKey-6x6"
"""The task whose branches are printed; the figure has all."""


def appendix_blocks(minigrid: Evidence | None, pybullet: Evidence | None) -> dict[str, str]:
    """Return every block of the appendix by name."""
    learners = [evidence for evidence in (minigrid, pybullet) if evidence is not None]
    against = [claim for evidence in learners for claim in rivals(evidence, RIVALS[evidence.results.study.name])]
    return {
        "rivals": claim_table(against),
        "tracking": tracking(learners),
        "effects": effect_table(learners),
        "held": held(learners),
        "branches": branches(),
    }


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
    """Return what round robin's arms did to the bandit's reward, and how many tries it takes to see it."""
    rows = []
    for evidence in studies:
        for found in effects(evidence.records, "gae_return"):
            if found.arms in PAPER_ARMS:
                each = "; ".join(
                    f"K={arm}: {signed(value, 100)}" for arm, value in zip(found.arms, found.changes, strict=True)
                )
                rows.append([found.task.partition("/")[2], each, f"{100 * found.gap:.0f} %", f"{found.tries:,.0f}"])
    header = ("task", "change of the reward after each arm, in % of its noise", "largest gap", "tries of each")
    return table(header, rows, 2) if rows else NOT_RUN


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


def branches() -> str:
    """Return, for each state that was branched, the lead of the best arm in truth and in reward, and which it is."""
    rows = []
    for stage in choices.stages():
        if stage.task != BRANCHED:
            continue
        truth, reward = stage.lead("truth"), stage.lead("reward")
        rows.append([
            f"{stage.seed}", f"{stage.step / 1000:.0f} k", number(stage.before),
            interval(truth, 3), f"K={stage.oracle}" if truth.low > 0 else "–",
            interval(reward, 3), f"K={stage.seen}" if reward.low > 0 else "–",
        ])  # fmt: skip
    header = ("seed", "steps", "score", "true return: lead of the best K", "which", "reward: lead of the best K",
              "which")  # fmt: skip
    return table(header, rows, 6) if rows else NOT_RUN
