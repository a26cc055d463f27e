"""The tables and figures of results/choice."""

from __future__ import annotations

from collections.abc import Callable

from adept.probe.effects import effects
from adept.probe.placebo import preference
from adept.report.figures import Drawing
from adept.report.statistics import aggregate
from adept.report.text import interval, markdown, number, percent
from experiments.choice import choices, figures
from paper.measures import RESAMPLES, Evidence, load
from paper.words import percent_interval, signed, table

STUDIES = ("minigrid", "pybullet")
PLACEBOS = {"minigrid": ("ucb-4-2-1", "ucb-8-4", "thompson-4-2-1"),
            "pybullet-500k": ("ucb-10-5-1", "thompson-10-5-1")}  # fmt: skip
"""Methods whose schedulers are fed rewards that they cannot have changed, by study."""
PAPER_ARMS = ((4, 2, 1), (10, 5, 1))
ONE_RUN = ("ucb-8-4", "minigrid/DoorKey-6x6", 1)
BRANCHED = "minigrid/DoorKey-6x6"
"""The task whose branches are printed; the figure has all."""


def studies() -> list[Evidence]:
    """Return the studies whose decisions are read."""
    return [load(name) for name in STUDIES]


def placebo_summary() -> str:
    """Return, over all tasks of a study, how strongly schedulers prefer arms in their own runs and on placebo."""
    rows = []
    for evidence in studies():
        for name in PLACEBOS[evidence.name]:
            found = choices.preferences(evidence, name)
            own = aggregate([entry.real.max(1) for entry in found], resamples=RESAMPLES)["mean"]
            fed = preference([entry.placebo for entry in found])
            mixed = aggregate([entry.placebo.shuffled.max(1) for entry in found], resamples=RESAMPLES)["mean"]
            rows.append([
                evidence.name, markdown(evidence.comparison.label(name)), percent_interval(own),
                percent_interval(fed.most), percent_interval(mixed), percent(fed.even),
            ])  # fmt: skip
    header = ("study", "method", "share of the most-chosen arm", "on placebo", "on placebo in random order", "even")
    return table(header, rows, 4)


def tracking() -> str:
    """Return how the bandit's reward goes with the return of episodes."""
    rows = [
        [found.task, f"{found.runs}", f"{found.levels:.2f}", f"{found.changes:.2f}", percent(found.silent)]
        for evidence in studies()
        for found in choices.tracking(evidence)
    ]
    header = ("task", "runs", "correlation over the run", "without the trend", "iterations in which no episode ended")
    return table(header, rows, 4)


def effect_table() -> str:
    """Return what round robin's arms did to the bandit's reward, and how many tries it takes to see it."""
    rows = []
    for evidence in studies():
        for found in effects(evidence.results, "gae_return"):
            if found.arms in PAPER_ARMS:
                changes = zip(found.arms, found.changes, strict=True)
                each = "; ".join(f"K={arm}: {signed(value, 100)}" for arm, value in changes)
                rows.append([found.task.partition("/")[2], each, f"{100 * found.gap:.0f} %", f"{found.tries:,.0f}"])
    header = ("task", "change of the reward after each arm, in % of its noise", "largest gap", "tries of each")
    return table(header, rows, 2)


def held() -> str:
    """Return how many runs of each bandit end with one arm, and with which."""
    rows = []
    for evidence in studies():
        for method in evidence.comparison.methods:
            if method.family in ("ucb", "thompson") and evidence.has(method.name):
                counts = choices.held(evidence, method.name)
                runs = sum(len(scores) for scores in evidence.scores(method.name))
                each = ", ".join(f"K={arm}: {count}" for arm, count in counts.items())
                rows.append([evidence.name, markdown(method.label), f"{sum(counts.values())} of {runs}", each])
    return table(("study", "method", "runs that end with one arm", "which"), rows)


def branches() -> str:
    """Return, for each state that was branched, the lead of the best arm in truth and in reward, and which it is."""
    rows = []
    for stage in choices.stages():
        if stage.task != BRANCHED:
            continue
        truth, reward = stage.lead("truth"), stage.lead("reward")
        rows.append([
            f"{stage.seed}", f"{stage.step / 1000:.0f} k", number(stage.before),
            interval(truth, 3), f"K={stage.best('truth')}" if truth.low > 0 else "–",
            interval(reward, 3), f"K={stage.best('reward')}" if reward.low > 0 else "–",
        ])  # fmt: skip
    header = ("seed", "steps", "score", "true return: lead of the best K", "which", "reward: lead of the best K",
              "which")  # fmt: skip
    return table(header, rows, 6)


BLOCKS: dict[str, Callable[[], str]] = {
    "placebo-summary": placebo_summary,
    "tracking": tracking,
    "effects": effect_table,
    "held": held,
    "branches": branches,
}


def drawings() -> list[Drawing]:
    """Draw the placebos of both studies, the branches, and one run."""
    found = []
    for evidence in studies():
        names = PLACEBOS[evidence.name]
        labels = {name: evidence.comparison.label(name).removeprefix("PPO+") for name in names}
        tables = [entry for name in names for entry in choices.preferences(evidence, name)]
        found.append(figures.placebo_figure(evidence.name, tables, labels))
    found.append(figures.branch_figure("minigrid", choices.stages()))
    return [*found, figures.run_figure(load("minigrid"), *ONE_RUN)]
