"""A study with its findings, and the measures that the claims need beyond those of the report."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adept.config import Config
from adept.probe.records import shares
from adept.report.analysis import Analysis, analyze
from adept.report.comparison import Comparison
from adept.report.loading import load_comparison
from adept.report.statistics import steps_to_threshold
from adept.studies.packing import FILE as PACKED
from adept.studies.results import StudyResults, load_results

Array = npt.NDArray[np.float64]
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
RESAMPLES = 10_000
SOLVED = 0.9


@dataclass(frozen=True, eq=False)
class Evidence:
    """A study that was run, as far as it went."""

    results: StudyResults
    comparison: Comparison
    analysis: Analysis

    @property
    def tasks(self) -> tuple[str, ...]:
        """The study's tasks."""
        return self.results.study.tasks

    @property
    def threshold(self) -> float:
        """The mean return of 100 episodes at which a task is solved."""
        return self.results.study.threshold or SOLVED

    @property
    def name(self) -> str:
        """The study's name."""
        return self.results.study.name

    @cached_property
    def seeds(self) -> str:
        """How many seeds a cell has, as a number or a range, of how many the study declares."""
        counts = [len(self.comparison.finished(method.name, task))
                  for method in self.comparison.methods for task in self.tasks]  # fmt: skip
        done = f"{max(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        declared = f"{len(self.results.study.seeds)}"
        return done if done == declared else f"{done}/{declared}"

    def has(self, *methods: str) -> bool:
        """Say whether methods have finished runs on every task."""
        known = {method.name for method in self.comparison.methods}
        return all(name in known and self.comparison.finished(name, task) for name in methods for task in self.tasks)

    def scores(self, method: str, tasks: Iterable[str] | None = None) -> list[Array]:
        """Return the final scores of a method's runs, task by task."""
        return [self.comparison.scores(method, task) for task in tasks or self.tasks]

    def relative_scores(self, method: str) -> list[Array]:
        """Return the final scores of a method's runs as shares of the baseline's mean, task by task."""
        base = [float(table.mean()) for table in self.scores(self.comparison.baseline)]
        return [table / mean for table, mean in zip(self.scores(method), base, strict=True)]

    def solving_steps(self, method: str) -> list[Array]:
        """Return the steps until the task is solved, task by task; a run that never gets there has all."""
        return [
            np.array([min(steps_to_threshold(run.steps, run.score, self.threshold), self.comparison.budget[task])
                      for run in self.comparison.finished(method, task)])
            for task in self.tasks
        ]  # fmt: skip

    def solved(self, method: str) -> list[int]:
        """Return how many runs ever solved the task, task by task."""
        return [
            sum(bool((run.score >= self.threshold).any()) for run in self.comparison.finished(method, task))
            for task in self.tasks
        ]

    def primary_mean(self, method: str) -> float:
        """Return a method's mean over tasks by the study's primary criterion, higher being better."""
        if self.results.study.criterion == "steps-to-threshold":
            return -float(np.mean([table.mean() for table in self.solving_steps(method)]))
        scores = self.analysis.methods[method].aggregates.get("final-score")
        assert scores is not None
        return scores["mean"].value

    def label(self, method: str) -> str:
        """Return how a method is called, without the algorithm."""
        return self.comparison.label(method).removeprefix("PPO+ADEPT").replace("(", "").replace(")", "")

    def compute(self, method: str) -> float:
        """Return a method's FLOPs relative to the baseline's."""
        return self.analysis.methods[method].compute

    def config(self, method: str) -> Config:
        """Return a method's configuration on the first task."""
        config = self.comparison.method(method).config
        assert config is not None
        return config

    def shares(self, method: str, task: str, last: int = 0) -> Array:
        """Return, for each finished run, the share of its (last) updates that each arm got, in the arms' order."""
        runs = self.comparison.finished(method, task)
        return shares([run.epochs[-last:] for run in runs], self.config(method).arms)


@contextmanager
def copied(results: Path, names: Iterable[str]) -> Iterator[dict[str, Path]]:
    """Give folders that hold the packed records of studies alone, by name.

    They are read apart from the run folders beside them, which a study under way is changing.
    """
    with tempfile.TemporaryDirectory() as alone:
        found = {name: Path(alone) / name for name in names}
        for name, folder in found.items():
            folder.mkdir()
            for file in ("study.toml", PACKED):
                shutil.copy(results / name / file, folder)
        yield found


def packed(name: str) -> bool:
    """Say whether a study of results/ has packed records."""
    return (RESULTS / name / PACKED).exists()


@cache
def load(name: str) -> Evidence:
    """Read the packed records of a study of results/."""
    with copied(RESULTS, [name]) as directories:
        comparison = load_comparison([directories[name]])
        return Evidence(load_results(directories[name]), comparison, analyze(comparison))
