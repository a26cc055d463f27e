"""The paper's claims, what we measured, and the verdict; and the rivals that the paper left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adept.flops import iteration_flops
from adept.presets import preset
from adept.report.statistics import Estimate, probability_of_improvement
from adept.report.summary import interval, percent
from benchmarks.evidence.measures import Array, Evidence, difference, mean_interval

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "cannot be tested here"


@dataclass(frozen=True)
class Claim:
    """One row of the table."""

    text: str
    measured: str
    runs: str
    verdict: str


def verdict(estimate: Estimate, direction: int, null: float = 0.0) -> str:
    """Return what an interval says of a claim that a value is above (1) or below (-1) a null."""
    if not estimate.has_interval:
        return UNTESTED
    if not estimate.excludes(null):
        return f"{FAILS}: no difference shown"
    return HOLDS if (estimate.value - null) * direction > 0 else f"{FAILS}: the opposite does"


def all_claims(minigrid: Evidence | None, pybullet: Evidence | None, procgen: Evidence | None) -> list[Claim]:
    """Return the claims that the studies at hand say something about, and those that they cannot."""
    claims = [*overhead(procgen)]
    for evidence, methods in (
        (minigrid, ("ucb-4-2-1", "thompson-4-2-1")),
        (pybullet, ("ucb-10-5-1", "thompson-10-5-1")),
    ):
        if evidence is not None and evidence.has(*methods):
            claims += shares(evidence, *methods)
    if minigrid is not None:
        claims += fewer_steps(minigrid)
    if pybullet is not None:
        claims += better_walkers(pybullet)
    if minigrid is not None:
        claims += larger_sets(minigrid)
    text = "better generalisation: higher scores on Procgen's test levels"
    claims.append(Claim(text, "25 M steps × 16 games × 5 seeds per method", "0", UNTESTED))
    return claims


def overhead(procgen: Evidence | None) -> list[Claim]:
    """The compute of round robin on {3,2,1}, by the formula and as recorded."""
    config = preset("procgen/bigfish", scheduler="fixed")
    cost = [iteration_flops(1, config, epochs) for epochs in (1, 2, 3)]
    ratio = float(np.mean(cost) / cost[-1])
    measured, runs = f"{percent(ratio)} of the FLOPs of K=3, by arithmetic", "–"
    names = {"ppo-fixed-3", "ppo-round-robin"}
    if procgen is not None and procgen.has(*names):
        flops = [
            np.mean([procgen.comparison.total(run, "flops") for task in procgen.tasks
                     for run in procgen.comparison.finished(name, task)])
            for name in ("ppo-round-robin", "ppo-fixed-3")
        ]  # fmt: skip
        measured += f"; {percent(float(flops[0] / flops[1]))} recorded in procgen-cpu"
        runs = procgen.seeds
    return [Claim("ADEPT(R) on {3,2,1} costs about 70 % of PPO on Procgen", measured, runs, HOLDS)]


def arm_shares(evidence: Evidence, method: str, task: str, last: int = 0) -> Array:
    """Return, for each finished run, the share of its (last) updates that each arm got, in the arms' order."""
    config = evidence.comparison.method(method).config
    assert config is not None
    runs = evidence.comparison.finished(method, task)
    return np.array([[float(np.mean(run.epochs[-last:] == arm)) for arm in config.arms] for run in runs])


def shares(evidence: Evidence, ucb: str, thompson: str) -> list[Claim]:
    """U chooses K=1 most, G spreads: counted over the runs of a study."""
    name = evidence.results.study.name
    tables = {method: [arm_shares(evidence, method, task) for task in evidence.tasks] for method in (ucb, thompson)}
    arms = [evidence.comparison.method(method).config.arms for method in (ucb, thompson)]  # type: ignore[union-attr]
    one = arms[0].index(1)
    runs = np.concatenate(tables[ucb])
    most = int(np.sum(runs.argmax(1) == one))
    mean = mean_interval([float(row[one]) for row in runs])
    by_task = ", ".join(
        f"{evidence.comparison.short[task]} {percent(float(table[:, one].mean()))}"
        for task, table in zip(evidence.tasks, tables[ucb], strict=True)
    )
    measured = (
        f"K=1 got {percent_interval(mean)} of updates ({by_task}); the most-chosen arm in {most} of {len(runs)} runs"
    )
    held = verdict(mean, 1, 1 / len(arms[0])) if most > len(runs) / 2 else FAILS
    u = Claim(f"ADEPT(U) chooses K=1 most ({name}; the paper: Procgen)", measured, evidence.seeds, held)
    evenness = [mean_interval([entropy(row) for row in np.concatenate(tables[method])]) for method in (ucb, thompson)]
    gap = difference([[entropy(row) for row in np.concatenate(tables[thompson])]],
                     [[entropy(row) for row in np.concatenate(tables[ucb])]])  # fmt: skip
    words = "evenness of the shares (1: all arms equally often)"
    measured = f"{words} {interval(evenness[1])} for G, {interval(evenness[0])} for U"
    return [
        u,
        Claim(f"ADEPT(G) spreads its choices ({name}; the paper: Procgen)", measured, evidence.seeds, verdict(gap, 1)),
    ]


def entropy(shares: Array) -> float:
    """Return the entropy of shares relative to that of equal ones."""
    known = shares[shares > 0]
    return float(-(known * np.log(known)).sum() / math.log(len(shares)))


def fewer_steps(minigrid: Evidence) -> list[Claim]:
    """Steps until the task is solved, against the baseline: one row for each set of arms."""
    baseline = minigrid.comparison.baseline
    claims = []
    for method in ("ucb-4-2-1", "ucb-6-4", "ucb-8-4", "ucb-8-4-2-1"):
        if minigrid.has(method, baseline):
            gap = difference(minigrid.solving_steps(method), minigrid.solving_steps(baseline))
            label = minigrid.comparison.label(method)
            text = f"{label} needs fewer steps than PPO (K=4) on MiniGrid"
            claims.append(Claim(text, f"{thousands(gap)} steps to solve a task", minigrid.seeds, verdict(gap, -1)))
    return claims


def better_walkers(pybullet: Evidence) -> list[Claim]:
    """Scores on Ant and Walker2D against the baseline."""
    baseline = pybullet.comparison.baseline
    claims = []
    for task in ("pybullet/Ant", "pybullet/Walker2D"):
        for method in ("ucb-10-5-1", "thompson-10-5-1", "round-robin-10-5-1"):
            if pybullet.has(method, baseline):
                gap = difference(pybullet.scores(method, [task]), pybullet.scores(baseline, [task]))
                text = f"{pybullet.comparison.label(method)} scores higher than PPO (K=10) on {task.partition('/')[2]}"
                claims.append(Claim(text, f"{interval(gap, 0)} return", pybullet.seeds, verdict(gap, 1)))
    return claims


def larger_sets(minigrid: Evidence) -> list[Claim]:
    """Larger arm sets: Procgen's {5,3,2,1} against {3,2,1} is out of reach here; {8,4,2,1} against {4,2,1} is not."""
    wide, narrow = "ucb-8-4-2-1", "ucb-4-2-1"
    if not minigrid.has(wide, narrow):
        return []
    gap = difference(minigrid.solving_steps(wide), minigrid.solving_steps(narrow))
    spent = minigrid.compute(wide) / minigrid.compute(narrow)
    measured = (
        f"U on {{8,4,2,1}} less U on {{4,2,1}}: {thousands(gap)} steps to solve a task; {percent(spent)} of its FLOPs"
    )
    found = UNTESTED if not gap.has_interval else FAILS if gap.high < 0 else f"{HOLDS}: no gain shown"
    return [
        Claim("a larger set of arms does not help (the paper: {5,3,2,1} on Procgen)", measured, minigrid.seeds, found)
    ]


def rivals(evidence: Evidence, adaptive: Sequence[str]) -> list[Claim]:
    """Is ADEPT better than the best fixed K in hindsight, and than always K=1? By score and, on MiniGrid, by steps."""
    minigrid = evidence.results.study.name == "minigrid"
    fixed = [
        method
        for method in evidence.comparison.methods
        if method.fixed_epochs is not None and evidence.has(method.name)
    ]
    if not fixed:
        return []
    if minigrid:
        best = min(
            fixed, key=lambda method: float(np.mean([table.mean() for table in evidence.solving_steps(method.name)]))
        )
    else:
        scores = {method.name: evidence.analysis.methods[method.name].train for method in fixed}
        best = max(fixed, key=lambda method: scores[method.name]["mean"].value)  # type: ignore[index]
    one = next((method for method in fixed if method.fixed_epochs == 1), None)
    claims = []
    for name in adaptive:
        if not evidence.has(name):
            continue
        for rival, words in ((best, f"the best fixed K in hindsight (K={best.fixed_epochs})"), (one, "always K=1")):
            if rival is None:
                continue
            chance = probability_of_improvement(evidence.scores(name), evidence.scores(rival.name), resamples=2000)
            text = f"{evidence.comparison.label(name)} is better than {words} on {evidence.results.study.name}"
            measured = f"P(higher final score) {interval(chance)}"
            if minigrid:
                gap = difference(evidence.solving_steps(name), evidence.solving_steps(rival.name))
                measured = f"{thousands(gap)} steps to solve a task; {measured}"
                found = verdict(gap, -1)
            else:
                found = verdict(chance, 1, 0.5)
            spent = evidence.compute(name) / evidence.compute(rival.name)
            claims.append(Claim(text, f"{measured}; {percent(spent)} of its FLOPs", evidence.seeds, found))
    return claims


def thousands(estimate: Estimate) -> str:
    """Return a difference in steps with its interval, in thousands."""
    return signed(estimate, 1 / 1000, " k")


def signed(estimate: Estimate, scale: float, unit: str = "") -> str:
    """Return a scaled difference with its interval, in whole numbers with their signs."""
    value, low, high = (scale * value for value in (estimate.value, estimate.low, estimate.high))
    return f"{round(value):+d}{unit}" + (f" [{round(low):+d}, {round(high):+d}]" if estimate.has_interval else "")


def percent_interval(estimate: Estimate) -> str:
    """Return a share with its interval, in percent."""
    low, high = (f"{100 * value:.0f}" for value in (estimate.low, estimate.high))
    return f"{100 * estimate.value:.0f} % [{low}, {high}]" if estimate.has_interval else percent(estimate.value)
