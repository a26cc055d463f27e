"""What of the study is compared: the methods and tasks that are kept, the seeds that are complete, and their analysis.

Scores are normalised task by task: (score - start) / (preset - start), where start is what the preset begins with
(`Comparison.start`) and preset its mean over seeds. 1 is the preset, and 0.05 is 5 % of what the preset learned, also
where returns are negative.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adept.report.analysis import Analysis, TaskResult, analyze
from adept.report.comparison import Comparison, Run
from adept.report.loading import load_comparison
from adept.report.normalization import MARGIN, without_progress
from adept.report.statistics import RESAMPLES, Array, Estimate, Scores, difference, iqm, share_ahead
from paper.measures import ROOT, copied
from paper.verdicts import HOLDS, Region, verdict

SAMPLES, COMPUTE, BANDIT = "hindsight-samples", "hindsight-compute", "ucb"
HINDSIGHT = (SAMPLES, COMPUTE)


@dataclass(frozen=True)
class Rules:
    """What a study's file declares beyond its runs."""

    study: str
    grid: str | None
    """the study of the fixed pairs beside it"""
    dropped_first: tuple[str, ...]
    """methods, then tasks, in the order in which they are dropped"""
    paired: bool
    """whether runs are compared with those of the same seed"""


FIRST = Rules(
    "tournament", None,
    ("kl-rate-k3", "target-kl", "k3", "k3-rate3", "ucb", "kl-rate",
     "envpool/Walker2d-v4", "pybullet/Ant", "minigrid/Empty-16x16"), False,
)  # fmt: skip
SECOND = Rules("tournament-2", "tournament-grid", ("ucb", "kl-rate-k3", "target-kl", "kl-rate", "k3-rate3"), True)
ENOUGH = 5
"""Complete seeds that the page speaks from, and for which nothing more is dropped; fewer where the study has fewer."""
LEVEL = 0.05
POINTS = np.arange(0.5, 50) / 50
"""Where a quarter of a run is looked at."""
MORE, NO_LOSS = Region(above=0.0), Region(above=-MARGIN)


@dataclass(frozen=True)
class Selection:
    """What is compared: every one of these methods on every one of these tasks with every one of these seeds."""

    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    dropped: tuple[str, ...] = ()
    """methods and tasks that were declared and are left out"""


def select(comparison: Comparison, methods: Iterable[str], drops: Sequence[str]) -> Selection:
    """Drop methods and tasks in the declared order until enough seeds are complete: all of their runs are finished.

    Only which runs are finished decides, no score does. A seed that lacks a run is left out for all.
    """
    names = tuple(methods)
    done = {(run.method, run.task, run.seed) for method in names for task in comparison.tasks
            for run in comparison.finished(method, task)}  # fmt: skip
    seeds = tuple(dict.fromkeys(run.seed for run in comparison.runs if run.method in names))
    best = Selection((), (), ())
    present = [name for name in drops if name in (*names, *comparison.tasks)]
    for count in range(len(present) + 1):
        dropped = tuple(present[:count])
        kept = tuple(name for name in names if name not in dropped)
        tasks = tuple(task for task in comparison.tasks if task not in dropped)
        complete = tuple(seed for seed in seeds if all((name, task, seed) in done for name in kept for task in tasks))
        if len(complete) > len(best.seeds):
            best = Selection(kept, tasks, complete, dropped)
        if len(complete) >= min(ENOUGH, len(seeds)):
            break
    return best


def restricted(comparison: Comparison, chosen: Selection) -> Comparison:
    """Return a comparison of the selection alone."""
    runs = tuple(run for run in comparison.runs
                 if run.method in chosen.methods and run.task in chosen.tasks and run.seed in chosen.seeds)  # fmt: skip
    methods = tuple(method for method in comparison.methods if method.name in chosen.methods)
    return dataclasses.replace(comparison, methods=methods, tasks=chosen.tasks, runs=runs)


def made_with(run: Run) -> list[tuple[str | None, str | None]]:
    """Return the commit and the processor of every start of a run."""
    return [(start.get("commit"), start.get("processor")) for start in run.starts]


@dataclass(frozen=True, eq=False)
class Field:
    """Methods that ran on the same tasks with the same seeds, and what came of it."""

    selection: Selection
    analysis: Analysis
    planned: int
    """seeds that the study has"""
    flat: tuple[str, ...] = ()
    """tasks left out because the preset does not improve there, so that nothing can be measured against it"""
    rules: Rules = FIRST

    @property
    def comparison(self) -> Comparison:
        """The runs."""
        return self.analysis.comparison

    @property
    def baseline(self) -> str:
        """The preset's name."""
        return self.comparison.baseline

    def has(self, *names: str) -> bool:
        """Say whether methods are compared."""
        return all(name in self.analysis.scored for name in names)

    def label(self, name: str) -> str:
        """Return how a method is called."""
        return self.comparison.label(name)

    def scores(self, name: str) -> list[Array]:
        """Return a method's normalised mean scores over the run, task by task."""
        found = self.analysis.normalized(name)
        assert found is not None, f"{name} is not scored"
        return found

    def gap(self, name: str, rival: str | Scores, *, paired: bool | None = None) -> Estimate:
        """Return how far a method's IQM is above a rival's, with its interval; paired, that of runs of one seed.

        By default as the study declares.
        """
        theirs = self.scores(rival) if isinstance(rival, str) else rival
        paired = self.rules.paired if paired is None else paired
        return difference(self.scores(name), theirs, paired=paired, resamples=self.analysis.resamples)

    def chance(self, name: str) -> Estimate:
        """Return how probable it is that a run is better than the preset's: one of the same seed, if so declared."""
        if not self.rules.paired:
            return self.analysis.methods[name].improvement
        return share_ahead(self.scores(name), self.scores(self.baseline), resamples=self.analysis.resamples)

    def better(self, name: str) -> bool:
        """Say whether a method is shown to be better than the preset over all tasks."""
        if not self.rules.paired:
            return self.analysis.methods[name].standing == "better"
        return verdict(self.gap(name, self.baseline), MORE) == HOLDS

    def gap_in_quarter(self, name: str, quarter: int) -> Estimate:
        """Return a method's lead over the preset in a quarter of the steps, the first being 0, paired by seed.

        On the scale of the scores over the whole run, so that it is the mean of the four quarters on each task.
        """

        def scores(method: str) -> list[Array]:
            found = []
            for task in self.selection.tasks:
                known, steps = self.comparison, self.comparison.budget[task] / 4 * (quarter + POINTS)
                runs = {name: known.finished(name, task) for name in (method, self.baseline)}
                preset = np.mean([known.measure(run, "mean-score") for run in runs[self.baseline]])
                scale = preset - known.start(task)
                found.append(np.array([np.nanmean(run.at(steps)) / scale for run in runs[method]]))
            return found

        return difference(scores(name), scores(self.baseline), paired=True, resamples=self.analysis.resamples)

    def ahead(self, name: str) -> tuple[int, int, int]:
        """Return how many runs are ahead of the preset's run with the same task and seed, equal to it, and behind."""
        pairs = zip(self.scores(name), self.scores(self.baseline), strict=True)
        signs = np.concatenate([np.sign(mine - theirs) for mine, theirs in pairs])
        return int((signs > 0).sum()), int((signs == 0).sum()), int((signs < 0).sum())

    def no_loss(self, name: str) -> str:
        """Judge whether a method loses less than the margin against the preset."""
        return verdict(self.gap(name, self.baseline), NO_LOSS)

    def compute(self, name: str, rival: str | None = None) -> float:
        """Return update FLOPs relative to a rival's, by default the preset's: the mean over tasks of the ratios."""
        return float(self.compute_by_task(name, rival).mean())

    def compute_by_task(self, name: str, rival: str | None = None) -> Array:
        """Return update FLOPs relative to a rival's, by default the preset's, on each task."""
        own, other = ([self.analysis.tasks[method, task].update_flops for task in self.selection.tasks]
                      for method in (name, rival or self.baseline))  # fmt: skip
        return np.divide(own, other)

    def compute_of_the_last_quarter(self, name: str) -> float:
        """Return update FLOPs relative to the preset's likewise, of the last quarter of the steps alone."""

        def spent(method: str, task: str) -> float:
            runs = self.comparison.finished(method, task)
            until = 0.75 * self.comparison.budget[task]
            ends = (self.comparison.total(run, "update_flops") - float(run.at(until, "update_flops")) for run in runs)
            return float(np.mean(list(ends)))

        return float(np.mean([spent(name, task) / spent(self.baseline, task) for task in self.selection.tasks]))

    def processor(self, name: str) -> float:
        """Return processor seconds relative to the preset's likewise; NaN where there are none to compare.

        Machines differ in speed, so only runs count whose seed the preset ran with the same code on the same processor.
        """
        known = self.comparison
        ratios = []
        for task in self.selection.tasks:
            preset = {run.seed: run for run in known.finished(self.baseline, task)}
            pairs = [(run, preset[run.seed]) for run in known.finished(name, task)
                     if made_with(run) == made_with(preset[run.seed])]  # fmt: skip
            own, other = (sum(known.total(pair[side], "processor") for pair in pairs) for side in (0, 1))
            ratios.append(own / other if pairs else math.nan)
        return float(np.mean(ratios))

    def different(self, name: str, sign: int) -> list[str]:
        """Return the tasks on which a method is significantly better (1) or worse (-1) than the preset."""
        found = {task: self.analysis.tasks[name, task] for task in self.selection.tasks}
        return [task for task, cell in found.items()
                if cell.p < LEVEL and cell.difference and sign * cell.difference.value > 0]  # fmt: skip

    @property
    def tells_tasks_apart(self) -> bool:
        """Whether any task can differ significantly: with few seeds, even fully separated runs do not after Holm."""
        seeds = len(self.selection.seeds)
        return 2 / math.comb(2 * seeds, seeds) * len(self.selection.tasks) < LEVEL

    def fixed_pairs(self) -> list[str]:
        """Return the methods with constant epochs and learning rate."""
        return [method.name for method in self.comparison.methods
                if method.fixed_epochs is not None and self.has(method.name)]  # fmt: skip

    def best_pair(self) -> str:
        """Return the fixed pair with the highest IQM over all tasks: picked after the fact."""
        return max(self.fixed_pairs(), key=self.analysis.iqm)

    def best_pairs(self) -> dict[str, str]:
        """Return the fixed pair with the highest mean on each task: picked after the fact."""
        means = {name: [float(np.mean(task)) for task in self.scores(name)] for name in self.fixed_pairs()}
        return {
            task: max(means, key=lambda name: means[name][index]) for index, task in enumerate(self.selection.tasks)
        }

    def scores_of_best_pairs(self) -> list[Array]:
        """Return the normalised scores of each task's best pair."""
        return [self.scores(name)[index] for index, name in enumerate(self.best_pairs().values())]

    def scores_of_tuned_pairs(self, *, by_task: bool) -> list[Array] | None:
        """Return, for each seed, the scores of the pair that is best with the other seeds; None with a single seed.

        That is what tuning gives: no run is scored that the choice was made on. The pair is one for all tasks, by the
        IQM, or one for each task, by the mean.
        """
        pairs = np.array([self.scores(name) for name in self.fixed_pairs()])  # (pairs, tasks, seeds)
        _, tasks, seeds = pairs.shape
        if seeds < 2:
            return None
        found = np.empty((tasks, seeds))
        for seed in range(seeds):
            others = np.delete(pairs, seed, axis=2)
            best = others.mean(2).argmax(0) if by_task else int(np.argmax([iqm(pair) for pair in others]))
            found[:, seed] = pairs[best, np.arange(tasks), seed]
        return list(found)


def make_field(
    comparison: Comparison, chosen: Selection, planned: int, resamples: int = RESAMPLES, rules: Rules = FIRST
) -> Field | None:
    """Analyse a selection; None where nothing is complete, or the preset improves on no task."""
    if not chosen.seeds or comparison.baseline not in chosen.methods:
        return None
    known = restricted(comparison, chosen)
    flat = without_progress(known, "progress", ("final-score", known.criterion))[0].left_out
    chosen = dataclasses.replace(chosen, tasks=tuple(task for task in chosen.tasks if task not in flat))
    analysis = analyze(restricted(comparison, chosen), normalization="progress", resamples=resamples)
    if rules.paired and analysis.scored:
        analysis = dataclasses.replace(analysis, tasks=_paired_by_task(analysis, chosen.tasks))
    return Field(chosen, analysis, planned, flat, rules) if analysis.scored else None


def _paired_by_task(analysis: Analysis, tasks: Sequence[str]) -> dict[tuple[str, str], TaskResult]:
    """Return the results by task, with differences to the preset whose intervals are of runs of one seed."""
    found, base = dict(analysis.tasks), analysis.comparison.baseline
    for name in analysis.scored:
        pairs = zip(tasks, analysis.normalized(name) or (), analysis.normalized(base) or (), strict=True)
        for task, mine, theirs in pairs if name != base else ():
            gap = difference([mine], [theirs], metric="mean", paired=True, resamples=analysis.resamples)
            found[name, task] = dataclasses.replace(found[name, task], difference=gap)
    return found


@dataclass(frozen=True, eq=False)
class Tournament:
    """The study and the grid of fixed pairs beside it, as far as they went."""

    everything: Comparison
    field: Field | None
    grid: Field | None
    """the fixed pairs, with hindsight beside them, on the seeds that all of them have; None before there are enough"""
    pairs: int = 0
    """fixed pairs that are declared"""
    rules: Rules = FIRST


def build(comparison: Comparison, resamples: int = RESAMPLES, rules: Rules = FIRST) -> Tournament:
    """Make a tournament of the runs of its studies."""
    own = [method.name for method in comparison.methods if method.source == rules.study]
    seeds = len({run.seed for run in comparison.runs if run.method in own})
    chosen = select(comparison, own, rules.dropped_first)
    enough = len(chosen.seeds) >= min(ENOUGH, seeds)
    field = make_field(comparison, chosen, seeds, resamples, rules) if enough else None
    fixed = [method.name for method in comparison.methods if method.fixed_epochs is not None]
    others = [method.name for method in comparison.methods if method.source == rules.grid]
    if field is None or not others:
        return Tournament(comparison, field, None, len(fixed), rules)
    kept = dataclasses.replace(comparison, tasks=field.selection.tasks)
    started = {run.method for run in comparison.runs if run.state == "done"}
    names = [name for name in (*fixed, *(name for name in HINDSIGHT if field.has(name))) if name in started]
    planned = len({run.seed for run in comparison.runs if run.method in others})
    together = select(kept, names, ())
    complete = len(together.seeds) >= min(ENOUGH, planned)
    beside = make_field(comparison, together, planned, resamples, rules) if complete else None
    return Tournament(comparison, field, beside, len(fixed), rules)


def load_tournament(rules: Rules, results: Path = ROOT / "results", resamples: int = RESAMPLES) -> Tournament | None:
    """Read the packed records; None where the study has none."""
    names = (rules.study,) if rules.grid is None else (rules.study, rules.grid)
    with copied(results, names) as directories:
        if rules.study not in directories:
            return None
        return build(load_comparison(list(directories.values())), resamples, rules)


def load_tournaments(results: Path = ROOT / "results", resamples: int = RESAMPLES) -> list[Tournament]:
    """Read the studies that have records, the one that the page speaks of first: the newest with enough seeds."""
    found = [load_tournament(rules, results, resamples) for rules in (SECOND, FIRST)]
    return sorted((each for each in found if each is not None), key=lambda each: each.field is None)
