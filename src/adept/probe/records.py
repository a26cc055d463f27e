"""The runs of a study's folder that a probe reads, as columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from adept.config import Config
from adept.report.statistics import Estimate, aggregate
from adept.studies.results import StudyResults

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Records:
    """A study's finished runs."""

    results: StudyResults

    @property
    def tasks(self) -> tuple[str, ...]:
        """The study's tasks."""
        return self.results.study.tasks

    @property
    def methods(self) -> dict[str, Config]:
        """The study's methods, each with its configuration on the first task."""
        study = self.results.study
        return {method.name: study.config(method.name, study.tasks[0], study.seeds[0]) for method in study.methods}

    def runs(self, method: str, task: str) -> list[dict[str, Array]]:
        """Return all columns of a method's finished runs on a task, up to the study's budget."""
        budget = self.results.study.budget[task]
        found = []
        for cell in self.results.cells:
            if (cell.method, cell.task, cell.state) == (method, task, "done"):
                columns = self.results.curve(cell)
                inside = columns["step"] <= budget
                found.append({name: values[inside] for name, values in columns.items()})
        return found

    def unchanged(self) -> str:
        """Return the method whose runs serve as placebo: its epochs never change. The baseline, if it is one."""
        fixed = [name for name, config in self.methods.items() if config.scheduler == "fixed" and not config.stopping]
        if not fixed:
            raise ValueError(
                f"{self.results.directory} has no method with a fixed number of epochs, got {', '.join(self.methods)}; "
                "a placebo needs rewards that no choice has changed: add one with scheduler = 'fixed' and one arm"
            )
        baseline = self.results.study.baseline
        return baseline if baseline in fixed else fixed[0]


def mean_interval(values: npt.ArrayLike) -> Estimate:
    """Return a mean with its bootstrap interval; none for a single value."""
    return aggregate([values], resamples=10_000)["mean"]


def shares(choices: Iterable[npt.ArrayLike], arms: tuple[int, ...]) -> Array:
    """Return, for each run's choices, the share that each arm got: one row per run, one column per arm."""
    return np.array([[float(np.mean(np.asarray(chosen) == arm)) for arm in arms] for chosen in choices])
