"""The generated parts of docs/results.md and the README, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from adept.probe.placebo import preference
from adept.report.normalization import MARGIN
from adept.report.statistics import Estimate, aggregate
from adept.report.text import interval, markdown, number, percent
from paper import choices
from paper.claims import all_claims
from paper.intervals import welch
from paper.inventory import entries, figure_table
from paper.measures import RESAMPLES, Evidence
from paper.public.claims import load as load_public
from paper.public.claims import public_claims
from paper.tournament.answers import optimizing_for_compute, optimizing_for_samples
from paper.tournament.field import Tournament
from paper.tournament.page import summary_table, tournament_blocks
from paper.verdicts import CLAIM, FAILS, HOLDS, NOT_SHOWN, Claim
from paper.words import NOT_RUN, percent_interval, table, thousands

PLACEBOS = {"minigrid": ("ucb-4-2-1", "ucb-8-4", "thompson-4-2-1"),
            "pybullet-500k": ("ucb-10-5-1", "thompson-10-5-1")}  # fmt: skip
"""Methods whose schedulers are fed rewards that they cannot have changed, by study."""


def all_blocks(
    minigrid: Evidence | None,
    pybullet: Evidence | None,
    procgen: Evidence | None,
    tournaments: Sequence[Tournament] = (),
) -> dict[str, str]:
    """Return every block by name; of tournaments, the first is the one that the page speaks of."""
    tournament, earlier = (*tournaments, None, None)[:2]
    studies = [evidence for evidence in (minigrid, pybullet, procgen) if evidence is not None]
    learners = [evidence for evidence in (minigrid, pybullet) if evidence is not None]
    claims = all_claims(minigrid, pybullet, procgen)
    return {
        **tournament_blocks(tournament, earlier),
        "runs": runs(studies),
        "minigrid": of(minigrid, minigrid_table),
        "pybullet": of(pybullet, score_table),
        "claims": claim_table(claims),
        "paper-verdicts": f"{tally(claims)}\n\n{verdict_table([*claims, *public_claims(load_public())])}",
        "paper-figures": figure_table(entries(minigrid, pybullet)),
        "placebo-summary": placebo_summary(learners),
        "summary": short(tournament, minigrid, claims),
    }


def of(evidence: Evidence | None, block: Callable[[Evidence], str]) -> str:
    """Return a study's block, or that it has not been run."""
    return NOT_RUN if evidence is None else block(evidence)


def runs(studies: Sequence[Evidence]) -> str:
    """Say what was run: the study, its size and the machine."""
    rows = []
    for evidence in studies:
        study = evidence.results.study
        finished = [run for run in evidence.comparison.runs if run.state == "done"]
        steps = {f"{evidence.comparison.budget[task] / 1000:,.0f} k" for task in study.tasks}
        cores = {f"{start['processor']}, {start['cores']} cores" for run in finished for start in run.starts}
        folder = evidence.results.directory.name
        rows.append([
            f"[{study.name}](../results/{folder})", f"{len(study.tasks)}", f"{len(study.methods)}",
            evidence.seeds, " / ".join(sorted(steps)), f"{evidence.done} of {len(evidence.comparison.runs)}",
            " / ".join(sorted(cores)),
        ])  # fmt: skip
    header = ("study", "tasks", "methods", "seeds", "steps", "runs", "machine")
    return table(header, rows)


def minigrid_table(evidence: Evidence) -> str:
    """Return, for each method, what was solved, how soon, for how many epochs, and at what compute."""
    baseline = evidence.comparison.baseline
    rows = []
    for method in evidence.comparison.methods:
        name = method.name
        if not evidence.has(name, baseline):
            continue
        steps = evidence.solving_steps(name)
        counts = [len(table) for table in steps]
        solved = " · ".join(f"{done}/{count}" for done, count in zip(evidence.solved(name), counts, strict=True))
        gap = "" if name == baseline else thousands(welch(steps, evidence.solving_steps(baseline)))
        mean = float(np.mean([table.mean() for table in steps]))
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
    """Return, for each method, the score on each task, and the compute."""
    rows = []
    tested = any(np.isfinite(result.test.value) for result in evidence.analysis.tasks.values())
    for method in evidence.comparison.methods:
        result = evidence.analysis.methods[method.name]
        cells = [evidence.analysis.tasks.get((method.name, task)) for task in evidence.tasks]
        scores = [_score(cell.score) if cell else "–" for cell in cells]
        if tested:
            scores = [
                f"{score}; {_score(cell.test)}" if cell else "–" for score, cell in zip(scores, cells, strict=True)
            ]
        rows.append([markdown(method.label), *scores, percent(result.compute), number(result.epochs)])
    header = ("method", *(evidence.comparison.short[task] for task in evidence.tasks), "FLOPs", "mean K")
    return table(header, rows, len(header) - 1)


def _score(estimate: Estimate) -> str:
    return interval(estimate, 0 if abs(estimate.value) >= 20 else 2)


def claim_table(claims: Sequence[Claim]) -> str:
    """Return claims as a table."""
    if not claims:
        return NOT_RUN
    rows = [[markdown(claim.text), claim.kind, markdown(claim.measured), claim.seeds, f"**{claim.verdict}**"]
            for claim in claims]  # fmt: skip
    return table(("claim", "kind", "measured [95 %]", "seeds", "verdict"), rows)


def placebo_summary(studies: Sequence[Evidence]) -> str:
    """Return, over all tasks of a study, how strongly schedulers prefer arms in their own runs and on placebo."""
    rows = []
    for evidence in studies:
        for name in PLACEBOS.get(evidence.results.study.name, ()):
            if not evidence.has(name, evidence.comparison.baseline):
                continue
            found = choices.preferences(evidence, name)
            own = aggregate([entry.real.max(1) for entry in found], resamples=RESAMPLES)["mean"]
            fed = preference([entry.placebo for entry in found])
            mixed = aggregate([entry.placebo.shuffled.max(1) for entry in found], resamples=RESAMPLES)["mean"]
            rows.append([
                evidence.results.study.name, markdown(evidence.comparison.label(name)), percent_interval(own),
                percent_interval(fed.most), percent_interval(mixed), percent(fed.even),
            ])  # fmt: skip
    header = ("study", "method", "share of the most-chosen arm", "on placebo", "on placebo in random order", "even")
    return table(header, rows, 4) if rows else NOT_RUN


def scale_of_scores(tournament: Tournament | None) -> str:
    """Say how the README's table is to be read, and whether anything in it is shown to be better than the preset."""
    assert tournament is not None
    assert tournament.field is not None
    field = tournament.field
    better, cheaper = optimizing_for_samples(field).name, optimizing_for_compute(field).name
    found = "No setting is" if better is None else f"{field.label(better)} is"
    saved = "" if cheaper is None else (
        f" **{field.label(cheaper)} loses less than {percent(MARGIN)} for {percent(field.compute(cheaper))} of the "
        "update compute.**"
    )  # fmt: skip
    return (
        "None of these tasks was used in development, and each method has one setting for all of them. A score of "
        "100 % is what the preset learns on average. The table shows interquartile means over tasks and seeds with "
        f"95 % intervals. **{found} shown to score higher than the preset over all tasks.**{saved}"
    )


def tally(claims: Sequence[Claim]) -> str:
    """Say how many of the paper's claims hold; what is arithmetic, an analogy or a control is not counted."""
    own = [claim for claim in claims if claim.kind == CLAIM]
    count = {state: sum(claim.verdict == state for claim in own) for state in (HOLDS, FAILS, NOT_SHOWN)}
    total = f"{count[HOLDS]} hold, {count[FAILS]} do not hold, {count[NOT_SHOWN]} are not shown either way"
    return f"Of the paper's claims, {sum(count.values())} were tested where the paper makes them: {total}."


def verdict_table(claims: Sequence[Claim]) -> str:
    """Return claims with their verdicts alone."""
    rows = [[markdown(claim.text), claim.kind, claim.seeds, f"**{claim.verdict}**"] for claim in claims]
    return table(("claim", "kind", "seeds or runs", "verdict"), rows)


def short(tournament: Tournament | None, minigrid: Evidence | None, claims: Sequence[Claim]) -> str:
    """Return the README's summary: the tournament's table, and what the paper's method came to."""
    lines = []
    name = PLACEBOS["minigrid"][0]
    if minigrid is not None and minigrid.has(name, minigrid.comparison.baseline):
        found = choices.preferences(minigrid, name)
        own, fed = (
            percent(float(np.mean([entry.real.max(1).mean() for entry in found]))),
            percent(float(np.mean([entry.placebo.fed.max(1).mean() for entry in found]))),
        )
        lines.append(
            "**The paper's bandit saves compute as any smaller K does, and it does not find the better K**: with the "
            f"paper's own rule on MiniGrid, the most-chosen arm gets {own} of updates, and {fed} when the bandit is "
            "fed rewards that its choices cannot have changed."
        )
    lines.append(f"{tally(claims)} [docs/paper.md](docs/paper.md) has them all, and everything is in "
                 "[docs/results.md](docs/results.md).")  # fmt: skip
    compared = summary_table(tournament)
    if compared:
        lines.insert(0, scale_of_scores(tournament))
    return "\n\n".join(filter(None, [compared, " ".join(lines)]))
