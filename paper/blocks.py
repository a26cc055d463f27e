"""The generated parts of docs/results.md and the README, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from adept.report.build import markdown
from adept.report.statistics import Estimate, aggregate, probability_of_improvement
from adept.report.summary import interval, number, percent, summarize
from benchmarks.evidence import choices
from benchmarks.evidence.claims import HOLDS, UNTESTED, Claim, all_claims, percent_interval, rivals, signed, thousands
from benchmarks.evidence.measures import RESAMPLES, SOLVED, Evidence, difference

MINIGRID_PLACEBOS = ("ucb-4-2-1", "ucb-8-4", "thompson-4-2-1")
PYBULLET_PLACEBOS = ("ucb-10-5-1", "thompson-10-5-1")
ONE_RUN = ("ucb-8-4", "minigrid/DoorKey-6x6", 1)
RIVALS = {"minigrid": ("ucb-4-2-1", "ucb-6-4", "ucb-8-4", "ucb-8-4-2-1", "thompson-4-2-1", "round-robin-4-2-1"),
          "pybullet": ("ucb-10-5-1", "thompson-10-5-1", "round-robin-10-5-1")}  # fmt: skip
NOT_RUN = "*Not run yet.*"


def all_blocks(minigrid: Evidence | None, pybullet: Evidence | None, procgen: Evidence | None) -> dict[str, str]:
    """Return every block by name."""
    studies = [evidence for evidence in (minigrid, pybullet, procgen) if evidence is not None]
    learners = [evidence for evidence in (minigrid, pybullet) if evidence is not None]
    against = [claim for evidence in learners for claim in rivals(evidence, RIVALS[evidence.results.study.name[:8]])]
    claims = all_claims(minigrid, pybullet, procgen)
    return {
        "runs": runs(studies),
        "minigrid": of(minigrid, minigrid_table),
        "minigrid-findings": of(minigrid, findings),
        "pilot": of(minigrid, pilot),
        "pybullet": of(pybullet, score_table),
        "pybullet-findings": of(pybullet, findings),
        "procgen": of(procgen, score_table),
        "claims": claim_table(claims),
        "rivals": claim_table(against),
        "tracking": tracking(learners),
        "effects": effects(learners),
        "held": held(learners),
        "placebo": placebo(minigrid, pybullet),
        "branches": branches(),
        "summary": short(minigrid, pybullet, [*claims, *against]),
    }


def of(evidence: Evidence | None, block: Callable[[Evidence], str]) -> str:
    """Return a study's block, or that it has not been run."""
    return NOT_RUN if evidence is None else block(evidence)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> str:
    """Return a Markdown table; the last columns, as many as said, stand to the right."""
    marks = ["---"] * (len(header) - right) + ["---:"] * right
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, marks, *rows])


def runs(studies: Sequence[Evidence]) -> str:
    """Say what was run: the study, its size, the hours and the machine."""
    rows = []
    for evidence in studies:
        study = evidence.results.study
        finished = [run for run in evidence.comparison.runs if run.state == "done"]
        hours = sum(evidence.comparison.total(run, "seconds") for run in finished) / 3600
        steps = {f"{evidence.comparison.budget[task] / 1000:,.0f} k" for task in study.tasks}
        cores = {f"{start['processor']}, {start['cores']} cores" for run in finished for start in run.starts}
        folder = evidence.results.directory.name
        rows.append([
            f"[{study.name}](../results/{folder})", f"{len(study.tasks)}", f"{len(study.methods)}",
            evidence.seeds, " / ".join(sorted(steps)), f"{evidence.done} of {len(evidence.comparison.runs)}",
            f"{hours:.1f}", " / ".join(sorted(cores)),
        ])  # fmt: skip
    header = ("study", "tasks", "methods", "seeds", "steps", "runs", "process hours", "machine")
    return table(header, rows)


def findings(evidence: Evidence) -> str:
    """Return what the report says in plain words."""
    return "\n".join(f"- {markdown(text)}" for text in summarize(evidence.analysis).sentences)


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
        gap = "" if name == baseline else thousands(difference(steps, evidence.solving_steps(baseline)))
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


def pilot(evidence: Evidence) -> str:
    """Return steps and epochs to a mean return of 0.9 on DoorKey-6x6, seed by seed."""
    task = "minigrid/DoorKey-6x6"
    rows = []
    for method in evidence.comparison.methods:
        finished = evidence.comparison.finished(method.name, task)
        cells = []
        for run in finished:
            reached = np.flatnonzero(run.score >= SOLVED)
            if len(reached):
                last = reached[0] + 1
                cells.append(f"{run.steps[last - 1] / 1000:.0f} k ({run.epochs_done[:last].sum():.0f})")
            else:
                cells.append("never")
        early = sum(bool((run.score[run.steps <= 160_000] >= SOLVED).any()) for run in finished)
        rows.append([markdown(method.label), f"{early}/{len(finished)}", ", ".join(cells)])
    return table(("method", "solved within 160 k", "steps (epochs) until solved, seed 1, 2, …"), rows)


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
    rows = [[markdown(claim.text), markdown(claim.measured), claim.runs, f"**{claim.verdict}**"] for claim in claims]
    return table(("claim", "measured [95 %]", "seeds", "verdict"), rows)


def tracking(studies: Sequence[Evidence]) -> str:
    """Return how the bandit's reward goes with the return of episodes."""
    rows = [
        [found.task, f"{found.runs}", f"{found.levels:.2f}", f"{found.changes:.2f}", percent(found.silent)]
        for evidence in studies
        for found in choices.tracking(evidence)
    ]
    header = ("task", "runs", "correlation over the run", "without the trend", "iterations in which no episode ended")
    return table(header, rows, 4) if rows else NOT_RUN


def effects(studies: Sequence[Evidence]) -> str:
    """Return what round robin's arms did to both rewards, and how many tries it takes to see it."""
    rows = []
    for evidence in studies:
        for method in evidence.comparison.methods:
            if method.family != "round-robin" or not evidence.has(method.name):
                continue
            for reward, words in (("gae_return", "GAE"), ("episode_return", "episodes")):
                for found in choices.arm_effects(evidence, method.name, reward):
                    each = "; ".join(
                        f"K={arm}: {signed(value, 100)}" for arm, value in zip(found.arms, found.changes, strict=True)
                    )
                    rows.append([found.task.partition("/")[2], words, each, number(found.noise, 3),
                                 f"{100 * found.gap:.0f} %", f"{found.pulls:,.0f}"])  # fmt: skip
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


def placebo(minigrid: Evidence | None, pybullet: Evidence | None) -> str:
    """Return how much of an arm's lead there is where no choice has any effect."""
    rows = []
    for evidence, methods in ((minigrid, MINIGRID_PLACEBOS), (pybullet, PYBULLET_PLACEBOS)):
        for name in methods if evidence is not None else ():
            assert evidence is not None
            if not evidence.has(name, evidence.comparison.baseline):
                continue
            for found in choices.placebos(evidence, name):
                rows.append([
                    markdown(evidence.comparison.label(name)), found.task.partition("/")[2],
                    percent_interval(found.real_most), percent_interval(found.placebo_most),
                    percent(1 / len(found.arms)),
                ])  # fmt: skip
    header = ("method", "task", "most-chosen arm's share", "the same on placebo", "if chosen evenly")
    return table(header, rows, 3) if rows else NOT_RUN


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


def short(minigrid: Evidence | None, pybullet: Evidence | None, claims: Sequence[Claim]) -> str:
    """Return the README's lines."""
    lines = []
    for evidence, name, words in (
        (minigrid, "ucb-4-2-1", "MiniGrid at the paper's full scale"),
        (pybullet, "ucb-10-5-1", "PyBullet"),
    ):
        if evidence is None or not evidence.has(name, evidence.comparison.baseline):
            continue
        rival = evidence.comparison.baseline
        chance = probability_of_improvement(evidence.scores(name), evidence.scores(rival), resamples=RESAMPLES)
        text = (
            f"{evidence.comparison.label(name)} takes {percent(evidence.compute(name))} of the FLOPs of "
            f"{evidence.comparison.label(rival)}; a run of it scores higher with probability {interval(chance)}"
        )
        if evidence is minigrid:
            gap = difference(evidence.solving_steps(name), evidence.solving_steps(rival))
            text += f", and the steps to solve a task differ by {thousands(gap)}"
        lines.append(f"- **{words}** ({evidence.seeds} seeds, {evidence.done} runs): {markdown(text)}.")
        if evidence is minigrid:
            found = choices.placebos(evidence, name)
            own, fed = (
                percent(float(np.mean([getattr(entry, share).value for entry in found])))
                for share in ("real_most", "placebo_most")
            )
            text = f"There, its favourite arm gets {own} of updates; fed rewards of runs whose K never changed, {fed}"
            lines.append(f"- {text}: what it follows is the course of training, and hardly what the arms do.")
    tested = [claim.verdict for claim in claims if claim.verdict != UNTESTED]
    held = sum(verdict.startswith(HOLDS) for verdict in tested)
    total = f"Of {len(tested)} claims put to the test, rivals included, {held} hold"
    lines.append(f"- {total}. The tables, and where the choice goes wrong: [docs/results.md](docs/results.md).")
    return "\n".join(lines)
