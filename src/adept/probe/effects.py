"""Effects of arms against noise: what the update with each arm did to the next reward, and how many tries show it.

Round robin takes the arms in turn whatever comes, so the change of the reward after each arm is a fair measure of what
the arm does to it. The spread of these changes is the noise that a bandit has to see through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adept.probe.records import Array, configs, finished_runs, mean_interval
from adept.report.statistics import Estimate
from adept.studies.results import StudyResults

POWER = 2 * (1.96 + 0.84) ** 2
"""Tries of each of two arms, in units of (noise/gap)², that tell them apart in four cases of five at the 5 % level."""


@dataclass(frozen=True)
class ArmEffects:
    """What each arm did to a reward on a task, in units of the noise of one change."""

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
    def tries(self) -> float:
        """How often each arm would have to be tried for such a gap to be told from noise."""
        return POWER / self.gap**2 if self.gap > 0 else math.inf


def arm_effects(
    task: str, arms: tuple[int, ...], runs: Sequence[Mapping[str, Array]], reward: str
) -> ArmEffects | None:
    """Average the change of a reward from one iteration to the next by the arm that was taken; None without runs."""
    means, variances = [], []
    for columns in runs:
        change = np.diff(columns[reward])
        known = np.isfinite(change)  # no episode ends in some iterations
        change, taken = change[known], columns["epochs"][:-1][known]
        by_arm = [change[taken == arm] for arm in arms]
        if min(map(len, by_arm)) >= 2:
            # Against the run's mean change: the trend of training is no arm's merit.
            means.append([float(values.mean() - change.mean()) for values in by_arm])
            variances += [float(values.var(ddof=1)) for values in by_arm]
    noise = math.sqrt(float(np.mean(variances))) if means else 0.0
    if not noise > 0:
        return None
    return ArmEffects(task, arms, tuple(mean_interval(column) for column in np.array(means).T / noise), noise)


def effects(results: StudyResults, reward: str) -> list[ArmEffects]:
    """Measure the arms of every method of a study that takes them in turn."""
    found: list[ArmEffects] = []
    for name, config in configs(results.study).items():
        if config.scheduler == "round-robin":
            for task in results.study.tasks:
                found += filter(None, [arm_effects(task, config.choices, finished_runs(results, name, task), reward)])
    return found
