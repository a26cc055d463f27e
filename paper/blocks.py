"""The generated parts of docs/paper.md, results/minigrid, results/pybullet and results/procgen-public."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from adept.report.statistics import Estimate, aggregate
from adept.report.text import interval, markdown, number, percent
from paper.claims import GENERALISES, overhead, rivals, study_claims
from paper.intervals import welch
from paper.inventory import SMALL, entries, figure_table
from paper.measures import RESAMPLES, Evidence, load, packed
from paper.public import page
from paper.public.claims import load as load_public
from paper.public.claims import public_claims
from paper.verdicts import CLAIM, FAILS, HOLDS, NOT_SHOWN, Claim
from paper.words import table, thousands


def minigrid_table(evidence: Evidence) -> str:
    """Return, for each method, what was solved, how soon, for how many epochs, and at what compute."""
    baseline = evidence.comparison.baseline
    rows = []
    for method in evidence.comparison.methods:
        name = method.name
        steps = evidence.solving_steps(name)
        counts = [len(runs) for runs in steps]
        solved = " · ".join(f"{done}/{count}" for done, count in zip(evidence.solved(name), counts, strict=True))
        gap = "" if name == baseline else thousands(welch(steps, evidence.solving_steps(baseline)))
        mean = float(np.mean([runs.mean() for runs in steps]))
        result = evidence.analysis.methods[name]
        score = aggregate(evidence.scores(name), resamples=RESAMPLES)["mean"]
        spent = epochs_to_solve(evidence, name)
        rows.append([markdown(method.label), solved, f"{mean / 1000:.0f} k", gap, f"{spent:.0f}", interval(score, 3),
                     percent(result.compute), f"{result.epochs:.2f}"])  # fmt: skip
    tasks = " · ".join(evidence.comparison.short[task] for task in evidence.tasks)
    header = ("method", f"runs that solved {tasks}", "mean steps to solve", "less PPO (K=4)", "epochs until then",
              "final return", "FLOPs", "mean K")  # fmt: skip
    return table(header, rows, 6)


def epochs_to_solve(evidence: Evidence, method: str) -> float:
    """Return the epochs spent until a task was solved, or in the whole run where it never was: the mean over tasks."""
    means = []
    for task, steps in zip(evidence.tasks, evidence.solving_steps(method), strict=True):
        finished = evidence.comparison.finished(method, task)
        spent = [run.epochs_done[run.steps <= reached].sum() for run, reached in zip(finished, steps, strict=True)]
        means.append(float(np.mean(spent)))
    return float(np.mean(means))


def score_table(evidence: Evidence) -> str:
    """Return, for each method, the score on each task and its runs, and the compute."""
    rows = []
    for method in evidence.comparison.methods:
        if evidence.has(method.name):
            result = evidence.analysis.methods[method.name]
            scores = [_score(evidence.analysis.tasks[method.name, task].score) for task in evidence.tasks]
            seeds = f"{len(evidence.comparison.finished(method.name, evidence.tasks[0]))}"
            rows.append([markdown(method.label), seeds, *scores, percent(result.compute), number(result.epochs)])
    header = ("method", "seeds", *(evidence.comparison.short[task] for task in evidence.tasks), "FLOPs", "mean K")
    return table(header, rows, len(header) - 1)


def _score(estimate: Estimate) -> str:
    return interval(estimate, 0 if abs(estimate.value) >= 20 else 2)


def claim_table(claims: Sequence[Claim]) -> str:
    """Return claims with what was measured."""
    rows = [[markdown(claim.text), claim.kind, markdown(claim.measured), claim.seeds, f"**{claim.verdict}**"]
            for claim in claims]  # fmt: skip
    return table(("claim", "kind", "measured [95 %]", "seeds", "verdict"), rows)


def verdicts() -> str:
    """Return all claims with their verdicts alone, and how many of the paper's hold."""
    studies = [load(name) for name in ("minigrid", "pybullet", SMALL) if packed(name)]
    claims = [*(claim for study in studies for claim in study_claims(study)), GENERALISES,
              overhead(load("procgen-cpu")), *public_claims(load_public())]  # fmt: skip
    rows = [[markdown(claim.text), claim.kind, claim.seeds, f"**{claim.verdict}**"] for claim in claims]
    return f"{tally(claims)}\n\n{table(('claim', 'kind', 'seeds or runs', 'verdict'), rows)}"


def tally(claims: Sequence[Claim]) -> str:
    """Say how many of the paper's claims hold; what is arithmetic, an analogy or a control is not counted."""
    own = [claim for claim in claims if claim.kind == CLAIM]
    count = {state: sum(claim.verdict == state for claim in own) for state in (HOLDS, FAILS, NOT_SHOWN)}
    total = f"{count[HOLDS]} hold, {count[FAILS]} do not hold, {count[NOT_SHOWN]} are not shown either way"
    return f"Of the paper's claims, {sum(count.values())} were tested where the paper makes them: {total}."


BLOCKS: dict[str, Callable[[], str]] = {
    "paper-figures": lambda: figure_table(entries()),
    "paper-verdicts": verdicts,
    "minigrid": lambda: minigrid_table(load("minigrid")),
    "minigrid-claims": lambda: claim_table([*study_claims(load("minigrid")), *rivals(load("minigrid"))]),
    "pybullet": lambda: score_table(load("pybullet")),
    "pybullet-claims": lambda: claim_table([*study_claims(load("pybullet")), *rivals(load("pybullet"))]),
    "overhead": lambda: claim_table([overhead(load("procgen-cpu"))]),
    "public-claims": lambda: claim_table(public_claims(load_public())),
    "public-placebo": lambda: page.placebo_block(load_public()),
    "public-epochs": lambda: page.epochs_block(load_public()),
    "public-levels": lambda: page.gap_block(load_public()),
}
