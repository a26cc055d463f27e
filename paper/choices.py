"""Where the choice goes wrong: what the stored decisions and the branches say of the bandit's reward.

- tracking: does the GAE return move with the return of episodes, over a run and from one iteration to the next?
- arm effects: round robin takes the arms in turn whatever comes, so the change of reward after each arm is a fair
  measure of what the arm does to it, and the spread of these changes is the noise that a bandit has to see through.
- placebo: a scheduler is fed the rewards of runs whose K never changed. Its choices can have no effect there, so the
  preferences it forms come from the trend of training alone.
- branches (benchmarks/branches.py): the same update with every K, and the true return of what came of each.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from adept.report.statistics import Estimate
from adept.schedulers import make_scheduler
from adept.seeding import stream_seed
from benchmarks.branches import CELLS, result_path
from benchmarks.evidence.claims import arm_shares
from benchmarks.evidence.measures import Array, Evidence, mean_interval

WINDOW = 15
"""Iterations of the centred running mean that is taken for the trend."""
LATE, HELD = 50, 0.9
"""An arm is held that gets such a share of so many last updates."""
POWER = 2 * (1.96 + 0.84) ** 2
"""Pulls of each of two arms, in units of (noise/gap)², that tell them apart in four cases of five at the 5 % level."""


@dataclass(frozen=True)
class Tracking:
    """How the GAE return goes with the return of episodes on a task: medians over runs of correlations."""

    task: str
    runs: int
    levels: float
    changes: float
    """of what is left when the trend is taken away"""
    silent: float
    """share of iterations in which no episode ended"""


def tracking(evidence: Evidence) -> list[Tracking]:
    """Correlate the two rewards that every run recorded, over all methods."""
    found = []
    for task in evidence.tasks:
        levels, changes, silent = [], [], []
        for method in evidence.comparison.methods:
            for columns in evidence.columns(method.name, task):
                gae, episode = columns["gae_return"], columns["episode_return"]
                known = np.isfinite(episode)
                silent.append(1 - known.mean())
                levels.append(correlation(gae[known], episode[known]))
                changes.append(correlation(detrended(gae[known]), detrended(episode[known])))
        if levels:
            medians = [float(np.nanmedian(values)) for values in (levels, changes)]
            found.append(Tracking(task, len(levels), *medians, float(np.mean(silent))))
    return found


def correlation(x: Array, y: Array) -> float:
    """Return Pearson's correlation; NaN where one of the two does not vary."""
    if len(x) < 3 or not (x.std() > 0 and y.std() > 0):
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def detrended(values: Array) -> Array:
    """Take the centred running mean away; at the ends the window is shorter."""
    if len(values) < WINDOW:
        return values - values.mean() if len(values) else values
    kernel = np.ones(WINDOW)
    trend: Array = np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same")
    return values - trend


@dataclass(frozen=True)
class ArmEffects:
    """What each arm of round robin did to a reward on a task, in units of the noise of one change."""

    task: str
    arms: tuple[int, ...]
    changes: tuple[Estimate, ...]
    """change of the reward after an update with each arm, less the run's mean change, over runs"""
    noise: float
    """standard deviation of the change after one update, within runs and arms, in the reward's own units"""

    @property
    def gap(self) -> float:
        """The largest difference between two arms."""
        values = [estimate.value for estimate in self.changes]
        return max(values) - min(values)

    @property
    def pulls(self) -> float:
        """How often each arm would have to be tried for such a gap to be told from noise."""
        return POWER / self.gap**2 if self.gap > 0 else math.inf


def arm_effects(evidence: Evidence, method: str, reward: str) -> list[ArmEffects]:
    """Average the change of a recorded reward from one iteration to the next by the arm that was taken between them."""
    config = evidence.comparison.method(method).config
    assert config is not None
    found = []
    for task in evidence.tasks:
        means, variances = [], []
        for columns in evidence.columns(method, task):
            change = np.diff(columns[reward])
            known = np.isfinite(change)  # no episode ends in some iterations
            change, taken = change[known], columns["epochs"][:-1][known]
            by_arm = [change[taken == arm] for arm in config.arms]
            if min(map(len, by_arm)) >= 2:
                # Against the run's mean change: the trend of training is nobody's merit.
                means.append([float(values.mean() - change.mean()) for values in by_arm])
                variances += [float(values.var(ddof=1)) for values in by_arm]
        if means:
            noise = math.sqrt(float(np.mean(variances)))
            changes = tuple(mean_interval(column) for column in np.array(means).T / noise)
            found.append(ArmEffects(task, config.arms, changes, noise))
    return found


def held(evidence: Evidence, method: str) -> dict[int, int]:
    """Return how many runs of a method, over all tasks, end by taking each arm and hardly any other."""
    config = evidence.comparison.method(method).config
    assert config is not None
    shares = np.concatenate([arm_shares(evidence, method, task, LATE) for task in evidence.tasks])
    return dict(zip(config.arms, (shares >= HELD).sum(0).tolist(), strict=True))


@dataclass(frozen=True)
class Placebo:
    """The share of updates that each arm got, and that it gets where no choice has any effect."""

    task: str
    method: str
    arms: tuple[int, ...]
    real: tuple[Estimate, ...]
    placebo: tuple[Estimate, ...]
    real_most: Estimate
    """share of the arm that a run chose most, whichever it was"""
    placebo_most: Estimate


@cache
def placebos(evidence: Evidence, method: str) -> list[Placebo]:
    """Feed a method's scheduler the rewards of the baseline's runs, whose K never changed."""
    config = evidence.comparison.method(method).config
    assert config is not None
    found = []
    for task in evidence.tasks:
        real = arm_shares(evidence, method, task)
        runs = evidence.columns(evidence.comparison.baseline, task)
        if not len(real) or not runs:
            continue
        fed = []
        for seed, columns in enumerate(runs, 1):
            scheduler = make_scheduler(
                config.scheduler, config.arms, seed=stream_seed(seed, "scheduler"), **config.scheduler_options
            )
            chosen = np.array([scheduler.step(float(reward)) for reward in columns["gae_return"]])
            fed.append([float(np.mean(chosen == arm)) for arm in config.arms])
        both = [tuple(map(mean_interval, table.T)) for table in (real, np.array(fed))]
        most = [mean_interval(table.max(1)) for table in (real, np.array(fed))]
        found.append(Placebo(task, method, config.arms, *both, *most))
    return found


@dataclass(frozen=True, eq=False)
class Stage:
    """The branches from one state of a run: one row per repeat, one column per arm."""

    task: str
    seed: int
    step: int
    before: float
    arms: tuple[int, ...]
    reward: Array
    critic_shift: Array
    truth: Array

    def against_mean(self, name: str) -> list[Estimate]:
        """Return how each arm differs from the mean of all of them, repeat by repeat."""
        table: Array = getattr(self, name)
        return [mean_interval(column) for column in (table - table.mean(1, keepdims=True)).T]

    @property
    def oracle(self) -> int:
        """The arm with the highest true return."""
        return self.arms[int(self.truth.mean(0).argmax())]

    @property
    def seen(self) -> int:
        """The arm that the bandit's reward would call the best, if it could try each one so often from this state."""
        return self.arms[int(self.reward.mean(0).argmax())]

    def lead(self, name: str) -> Estimate:
        """Return by how much the best arm leads the worst, where both are picked by the other repeats each time.

        Picked by all of them, the lead would be positive among equal arms too.
        """
        table: Array = getattr(self, name)
        others = table.sum(0) - table
        rows = np.arange(len(table))
        return mean_interval(table[rows, others.argmax(1)] - table[rows, others.argmin(1)])

    @property
    def noise(self) -> float:
        """Standard deviation of the bandit's reward from one rollout to the next, the arm being the same."""
        return math.sqrt(float(self.reward.var(0, ddof=1).mean()))


@cache
def stages() -> list[Stage]:
    """Read the branches that were run."""
    found = []
    for task, seed, plan in CELLS:
        path = result_path(task, seed)
        if not path.exists():
            continue
        text = gzip.decompress(path.read_bytes()).decode()
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(io.StringIO(text))]
        for stage in plan.stages:
            own = [row for row in rows if row["stage"] == stage]
            first = own[0]
            tables = [_table(own, plan.arms, name) for name in ("reward", "critic_shift", "truth")]
            found.append(Stage(task, seed, int(first["step"]), first["before"], plan.arms, *tables))
    return found


def _table(rows: Sequence[Mapping[str, float]], arms: tuple[int, ...], name: str) -> Array:
    return np.array([[row[name] for row in rows if row["epochs"] == arm] for arm in arms]).T
