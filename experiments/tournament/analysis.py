"""The runs that are compared, and the measures that the studies' files declare.

Scores are normalised task by task: (score - start) / (preset - start), where start is what the preset begins with
(`Comparison.start`) and preset its mean over seeds. 1 is the preset, and 0.05 is 5 % of what the preset learned, also
where returns are negative.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adept.report.analysis import Analysis, TaskResult, analyze
from adept.report.comparison import Comparison, Run
from adept.report.loading import load_comparison
from adept.report.normalization import MARGIN
from adept.report.statistics import RESAMPLES, Array, Estimate, Scores, aggregate, difference, iqm
from paper.measures import RESULTS, copied
from paper.verdicts import Region, verdict

HINDSIGHT = ("hindsight-samples", "hindsight-compute")
BANDIT, KL_RULE = "ucb", "kl-rate"
LEVEL = 0.05
POINTS = np.arange(0.5, 50) / 50
"""Where a quarter of a run is looked at."""
MORE, NO_LOSS = Region(above=0.0), Region(above=-MARGIN)


@dataclass(frozen=True)
class Rules:
    """What is compared: these methods with these seeds, on all tasks; the rest was dropped as the files declare."""

    studies: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    paired: bool
    """whether runs are compared with those of the same seed"""


FIRST = Rules(("tournament",), ("preset", *HINDSIGHT, BANDIT, KL_RULE, "k3-rate3"), tuple(range(111, 116)), False)
SECOND = Rules(("tournament-2",), ("preset", *HINDSIGHT, "k3-rate3", KL_RULE), tuple(range(116, 126)), True)
GRID = Rules(
    ("tournament-2", "tournament-grid"),
    ("preset", "k3-rate3", "k3", "rate3", "rate10", "k3-rate10", "k1", "k1-rate3", "k1-rate10", *HINDSIGHT),
    tuple(range(116, 121)), True,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Field:
    """Methods that ran on the same tasks with the same seeds, and their scores."""

    analysis: Analysis
    paired: bool

    @property
    def comparison(self) -> Comparison:
        """The runs."""
        return self.analysis.comparison

    @property
    def baseline(self) -> str:
        """The preset's name."""
        return self.comparison.baseline

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks."""
        return self.comparison.tasks

    @property
    def seeds(self) -> int:
        """How many seeds every method has on every task."""
        return len(self.comparison.finished(self.baseline, self.tasks[0]))

    def label(self, name: str) -> str:
        """Return how a method is called."""
        return self.comparison.label(name)

    def scores(self, name: str) -> list[Array]:
        """Return a method's normalised mean scores over the run, task by task."""
        found = self.analysis.normalized(name)
        assert found is not None, f"{name} is not scored"
        return found

    def gap(self, name: str, rival: str | Scores) -> Estimate:
        """Return how far a method's IQM is above a rival's, with its interval."""
        theirs = self.scores(rival) if isinstance(rival, str) else rival
        return difference(self.scores(name), theirs, paired=self.paired, resamples=self.analysis.resamples)

    def chance(self, name: str) -> Estimate:
        """Return how probable it is that a run is better than the preset's: one of the same seed, if so declared."""
        if not self.paired:
            return self.analysis.methods[name].improvement
        return share_ahead(self.scores(name), self.scores(self.baseline), resamples=self.analysis.resamples)

    def gap_in_quarter(self, name: str, quarter: int) -> Estimate:
        """Return a method's lead over the preset in a quarter of the steps, the first being 0, paired by seed.

        On the scale of the scores over the whole run, so that it is the mean of the four quarters on each task.
        """
        known = self.comparison

        def scores(method: str) -> list[Array]:
            found = []
            for task in self.tasks:
                steps = known.budget[task] / 4 * (quarter + POINTS)
                preset = np.mean([known.measure(run, "mean-score") for run in known.finished(self.baseline, task)])
                runs = known.finished(method, task)
                found.append(np.array([np.nanmean(run.at(steps)) for run in runs]) / (preset - known.start(task)))
            return found

        return difference(scores(name), scores(self.baseline), paired=True, resamples=self.analysis.resamples)

    def no_loss(self, name: str) -> str:
        """Judge whether a method loses less than the margin against the preset."""
        return verdict(self.gap(name, self.baseline), NO_LOSS)

    def compute(self, name: str, rival: str | None = None) -> float:
        """Return update FLOPs relative to a rival's, by default the preset's: the mean over tasks of the ratios."""
        return float(self.compute_by_task(name, rival).mean())

    def compute_by_task(self, name: str, rival: str | None = None) -> Array:
        """Return update FLOPs relative to a rival's, by default the preset's, on each task."""
        own, other = ([self.analysis.tasks[method, task].update_flops for task in self.tasks]
                      for method in (name, rival or self.baseline))  # fmt: skip
        return np.divide(own, other)

    def processor(self, name: str) -> float:
        """Return processor seconds relative to the preset's likewise; NaN where there are none to compare.

        Machines differ in speed, so only runs count whose seed the preset ran with the same code on the same processor.
        """
        known = self.comparison
        ratios = []
        for task in self.tasks:
            preset = {run.seed: run for run in known.finished(self.baseline, task)}
            pairs = [(run, preset[run.seed]) for run in known.finished(name, task)
                     if _made_with(run) == _made_with(preset[run.seed])]  # fmt: skip
            own, other = (sum(known.total(pair[side], "processor") for pair in pairs) for side in (0, 1))
            ratios.append(own / other if pairs else math.nan)
        return float(np.mean(ratios))

    def different(self, name: str, sign: int) -> list[str]:
        """Return the tasks on which a method is significantly better (1) or worse (-1) than the preset."""
        found = {task: self.analysis.tasks[name, task] for task in self.tasks}
        return [task for task, cell in found.items()
                if cell.p < LEVEL and cell.difference and sign * cell.difference.value > 0]  # fmt: skip

    @property
    def tells_tasks_apart(self) -> bool:
        """Whether any task can differ significantly: with few seeds, even fully separated runs do not after Holm."""
        return 2 / math.comb(2 * self.seeds, self.seeds) * len(self.tasks) < LEVEL

    def fixed_pairs(self) -> list[str]:
        """Return the methods with constant epochs and learning rate."""
        return [method.name for method in self.comparison.methods if method.fixed_epochs is not None]

    def best_pair(self) -> str:
        """Return the fixed pair with the highest IQM over all tasks: picked after the fact."""
        return max(self.fixed_pairs(), key=self.analysis.iqm)

    def best_pairs(self) -> dict[str, str]:
        """Return the fixed pair with the highest mean on each task: picked after the fact."""
        means = {name: [float(np.mean(task)) for task in self.scores(name)] for name in self.fixed_pairs()}
        return {task: max(means, key=lambda name: means[name][index]) for index, task in enumerate(self.tasks)}

    def scores_of_best_pairs(self) -> list[Array]:
        """Return the normalised scores of each task's best pair."""
        return [self.scores(name)[index] for index, name in enumerate(self.best_pairs().values())]

    def scores_of_tuned_pairs(self, *, by_task: bool) -> list[Array]:
        """Return, for each seed, the scores of the pair that is best with the other seeds.

        That is what tuning gives: no run is scored that the choice was made on. The pair is one for all tasks, by the
        IQM, or one for each task, by the mean.
        """
        pairs = np.array([self.scores(name) for name in self.fixed_pairs()])  # (pairs, tasks, seeds)
        _, tasks, seeds = pairs.shape
        found = np.empty((tasks, seeds))
        for seed in range(seeds):
            others = np.delete(pairs, seed, axis=2)
            best = others.mean(2).argmax(0) if by_task else int(np.argmax([iqm(pair) for pair in others]))
            found[:, seed] = pairs[best, np.arange(tasks), seed]
        return list(found)


def share_ahead(scores: Scores, others: Scores, *, resamples: int = RESAMPLES) -> Estimate:
    """Return the share of runs that are ahead of the other method's run of the same seed, averaged over tasks.

    Runs stand in the order of their seeds. Equal runs count half, and the bootstrap draws seeds.
    """
    ahead = [(np.sign(np.subtract(mine, theirs)) + 1) / 2 for mine, theirs in zip(scores, others, strict=True)]
    return aggregate(ahead, resamples=resamples)["mean"]


def _made_with(run: Run) -> list[tuple[str | None, str | None]]:
    """Return the commit and the processor of every start of a run."""
    return [(start.get("commit"), start.get("processor")) for start in run.starts]


def make_field(comparison: Comparison, rules: Rules, resamples: int = RESAMPLES) -> Field:
    """Analyse the runs that the rules name."""
    runs = tuple(run for run in comparison.runs if run.method in rules.methods and run.seed in rules.seeds)
    methods = tuple(method for method in comparison.methods if method.name in rules.methods)
    kept = dataclasses.replace(comparison, methods=methods, runs=runs)
    analysis = analyze(kept, normalization="progress", resamples=resamples)
    if rules.paired:
        analysis = dataclasses.replace(analysis, tasks=_paired_by_task(analysis))
    return Field(analysis, rules.paired)


def _paired_by_task(analysis: Analysis) -> dict[tuple[str, str], TaskResult]:
    """Return the results by task, with differences to the preset whose intervals are of runs of one seed."""
    found, base = dict(analysis.tasks), analysis.comparison.baseline
    for name in analysis.scored:
        pairs = zip(analysis.comparison.tasks, analysis.normalized(name) or (), analysis.normalized(base) or (),
                    strict=True)  # fmt: skip
        for task, mine, theirs in pairs if name != base else ():
            gap = difference([mine], [theirs], metric="mean", paired=True, resamples=analysis.resamples)
            found[name, task] = dataclasses.replace(found[name, task], difference=gap)
    return found


def load_field(rules: Rules, results: Path = RESULTS, resamples: int = RESAMPLES) -> Field:
    """Read the packed records."""
    with copied(results, rules.studies) as directories:
        return make_field(load_comparison(list(directories.values())), rules, resamples)
