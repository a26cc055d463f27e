"""The paper's claims with what we measured, and the rivals that the paper left out.

Differences have Welch's intervals and shares exact ones: studies with three seeds are too small for a bootstrap.
"""

from __future__ import annotations

import math

import numpy as np

from adept import cost
from adept.presets import preset
from adept.report.statistics import Estimate
from adept.report.text import interval, percent
from paper.intervals import share, welch
from paper.measures import Array, Evidence
from paper.public.tables import normalised
from paper.verdicts import ANALOGY, ARITHMETIC, MARGIN, REDUCED, RIVAL, UNTESTED, Claim, Region, verdict
from paper.words import percent_interval, points, thousands

MORE, LESS = Region(above=0), Region(below=0)
HALF = Region(above=0.5)
BANDITS = {"minigrid": ("ucb-4-2-1", "thompson-4-2-1", "round-robin-4-2-1"),
           "pybullet-500k": ("ucb-10-5-1", "thompson-10-5-1", "round-robin-10-5-1"),
           "procgen-small": ("ucb", "thompson", "round-robin")}  # fmt: skip
"""ADEPT(U), (G) and (R) with the paper's arms, by study."""
GENERALISES = Claim("ADEPT scores higher than PPO on Procgen's test levels", "not measured", "0", UNTESTED)


def study_claims(evidence: Evidence) -> list[Claim]:
    """Return the claims that a study says something about."""
    if evidence.results.study.criterion == "steps-to-threshold":
        return [*choices(evidence), *fewer_steps(evidence), larger_sets(evidence)]
    if evidence.tasks[0].startswith("procgen/"):
        return [*choices(evidence, REDUCED), *better_on_test_levels(evidence)]
    return [*choices(evidence), *better_walkers(evidence)]


def overhead(procgen: Evidence) -> Claim:
    """The compute of round robin on {3,2,1} at the paper's budget, by the formula; and as recorded."""
    config = preset("procgen/bigfish", scheduler="fixed")
    costs = [cost.iteration(config, epochs) for epochs in (3, 2, 1)]
    taken = [costs[iteration % 3] for iteration in range(config.iterations)]
    ratio = float(np.mean(taken) / costs[0])
    flops = [
        np.mean([procgen.comparison.total(run, "flops") for task in procgen.tasks
                 for run in procgen.comparison.finished(name, task)])
        for name in ("ppo-round-robin", "ppo-fixed-3")
    ]  # fmt: skip
    measured = (
        f"{percent(ratio)} of the FLOPs of K=3, counted over {config.iterations:,} iterations; "
        f"{percent(float(flops[0] / flops[1]))} in the 8 recorded iterations of procgen-cpu"
    )
    text = f"R on {{3,2,1}} costs about 70 % (± {100 * MARGIN:.0f} points) of PPO's FLOPs on Procgen"
    found = verdict(Estimate(ratio, ratio, ratio), Region(0.70 - MARGIN, 0.70 + MARGIN))
    return Claim(text, measured, procgen.seeds, found, ARITHMETIC)


def choices(evidence: Evidence, kind: str = ANALOGY) -> list[Claim]:
    """U chooses K=1 most, G spreads: over the runs of a study, tasks counting equally."""
    ucb, thompson, _ = BANDITS[evidence.name]
    own = [evidence.shares(ucb, task) for task in evidence.tasks]
    one = evidence.config(ucb).arms.index(1)
    led = np.concatenate([table.argmax(1) == one for table in own])
    lead = share(int(led.sum()), len(led))
    by_task = ", ".join(
        f"{evidence.comparison.short[task]} {percent(float(table[:, one].mean()))}"
        for task, table in zip(evidence.tasks, own, strict=True)
    )
    text = f"U chooses K=1 most in over half of the runs ({evidence.name})"
    measured = (
        f"K=1 is the most-chosen arm in {percent_interval(lead)} of {len(led)} runs; its share of updates: {by_task}"
    )
    claims = [Claim(text, measured, evidence.seeds, verdict(lead, HALF), kind)]
    if evidence.has(thompson):
        theirs = [evidence.shares(thompson, task) for task in evidence.tasks]
        gap = welch(*([[entropy(row) for row in table] for table in tables] for tables in (theirs, own)))
        text = f"G spreads its choices more than U ({evidence.name})"
        measured = f"evenness of the shares (1: all arms equally often), G less U: {interval(gap)}"
        claims.append(Claim(text, measured, evidence.seeds, verdict(gap, MORE), kind))
    return claims


def entropy(shares: Array) -> float:
    """Return the entropy of shares relative to that of equal ones."""
    known = shares[shares > 0]
    return float(-(known * np.log(known)).sum() / math.log(len(shares)))


def fewer_steps(minigrid: Evidence) -> list[Claim]:
    """Steps until the task is solved, against the baseline: one row for each of the paper's sets of arms."""
    claims = []
    for method in ("ucb-4-2-1", "ucb-6-4", "ucb-8-4"):
        gap = welch(minigrid.solving_steps(method), minigrid.solving_steps(minigrid.comparison.baseline))
        text = f"{minigrid.label(method)} needs fewer steps than K=4 (MiniGrid)"
        measured = f"{thousands(gap)} steps to solve a task; {percent(minigrid.compute(method))} of its FLOPs"
        claims.append(Claim(text, measured, minigrid.seeds, verdict(gap, LESS)))
    return claims


def better_walkers(pybullet: Evidence) -> list[Claim]:
    """Scores on Ant and Walker2D against the baseline."""
    claims = []
    for task in ("pybullet/Ant", "pybullet/Walker2D"):
        for method in BANDITS[pybullet.name]:
            gap = welch(pybullet.scores(method, [task]), pybullet.scores(pybullet.comparison.baseline, [task]))
            text = f"{pybullet.label(method)} scores higher than K=10 ({task.partition('/')[2]})"
            claims.append(Claim(text, f"{interval(gap, 0)} return", pybullet.seeds, verdict(gap, MORE)))
    return claims


def better_on_test_levels(procgen: Evidence) -> list[Claim]:
    """Scores on test levels against the baseline, on the range of each game, games counting equally."""

    def scores(method: str) -> list[Array]:
        found = ((task, procgen.comparison.scores(method, task, "test")) for task in procgen.tasks)
        return [normalised(task.partition("/")[2], values, easy=True) for task, values in found]

    claims = []
    for method in filter(procgen.has, BANDITS[procgen.name]):
        gap = welch(scores(method), scores(procgen.comparison.baseline))
        text = f"{procgen.label(method)} scores higher than K=3 on test levels ({procgen.name})"
        measured = f"{interval(gap, 3)} of the normalised score; {percent(procgen.compute(method))} of its FLOPs"
        claims.append(Claim(text, measured, procgen.seeds, verdict(gap, MORE), REDUCED))
    return claims


def larger_sets(minigrid: Evidence) -> Claim:
    """Larger arm sets: Procgen's {5,3,2,1} against {3,2,1} is out of reach here; {8,4,2,1} against {4,2,1} is not.

    "Does not help" claims that nothing is gained, which a difference that is not shown does not prove: the interval
    must exclude a gain of 5 % of the steps.
    """
    wide, narrow = "ucb-8-4-2-1", "ucb-4-2-1"
    mean = float(np.mean([table.mean() for table in minigrid.solving_steps(narrow)]))
    gap = welch(minigrid.solving_steps(wide), minigrid.solving_steps(narrow))
    spent = minigrid.compute(wide) / minigrid.compute(narrow)
    margin = MARGIN * mean
    measured = (
        f"U on {{8,4,2,1}} less U on {{4,2,1}}: {thousands(gap)} steps to solve a task, where a gain is 5 % or "
        f"{margin / 1000:.0f} k steps less; {percent(spent)} of its FLOPs"
    )
    text = "a larger set of arms does not help (minigrid)"
    return Claim(text, measured, minigrid.seeds, verdict(gap, Region(above=-margin)), ANALOGY)


def rivals(evidence: Evidence) -> list[Claim]:
    """Is ADEPT better than the best fixed K in hindsight, and than always K=1? By the study's primary criterion."""
    by_steps = evidence.results.study.criterion == "steps-to-threshold"
    fixed = {
        method.name: method.fixed_epochs
        for method in evidence.comparison.methods
        if method.fixed_epochs is not None and evidence.has(method.name)
    }
    best = max(fixed, key=lambda name: evidence.primary_mean(name))
    one = next(name for name, epochs in fixed.items() if epochs == 1)
    claims = []
    for name in BANDITS[evidence.name]:
        for rival, words in ((best, f"the best fixed K in hindsight (K={fixed[best]})"), (one, "always K=1")):
            if by_steps:
                gap = welch(evidence.solving_steps(name), evidence.solving_steps(rival))
                measured, found = f"{thousands(gap)} steps to solve a task", verdict(gap, LESS)
            else:
                gap = welch(evidence.relative_scores(name), evidence.relative_scores(rival))
                measured, found = f"{points(gap)} of the baseline's final score", verdict(gap, MORE)
            spent = evidence.compute(name) / evidence.compute(rival)
            text, measured = (
                f"{evidence.label(name)} is better than {words}",
                f"{measured}; {percent(spent)} of its FLOPs",
            )
            claims.append(Claim(text, measured, evidence.seeds, found, RIVAL))
    return claims
