"""The runs of a study's folder that a probe reads, as columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from adept.config import Config
from adept.report.statistics import Estimate, aggregate
from adept.runs.records import Columns
from adept.studies.grid import Study
from adept.studies.results import StudyResults

Array = npt.NDArray[np.float64]


def configs(study: Study) -> dict[str, Config]:
    """Return the configuration of each method on the first task."""
    return {method.name: study.config(method.name, study.tasks[0], study.seeds[0]) for method in study.methods}


def finished_runs(results: StudyResults, method: str, task: str) -> list[Columns]:
    """Return all columns of a method's finished runs on a task, up to the study's budget."""
    cells = [cell for cell in results.cells if (cell.method, cell.task, cell.state) == (method, task, "done")]
    budget = results.study.budget[task]
    return [columns.take(columns["step"] <= budget) for columns in map(results.curve, cells)]


def unchanged(results: StudyResults) -> str:
    """Return the method whose runs serve as placebo: its epochs never change. The baseline, if it is one."""
    methods = configs(results.study)
    fixed = [name for name, config in methods.items() if config.scheduler == "fixed" and not config.stopping]
    if not fixed:
        raise ValueError(
            f"{results.directory} has no method with a fixed number of epochs, got {', '.join(methods)}; "
            "a placebo needs rewards that no choice has changed: add one with scheduler = 'fixed' and one arm"
        )
    baseline = results.study.baseline
    return baseline if baseline in fixed else fixed[0]


def mean_interval(values: npt.ArrayLike) -> Estimate:
    """Return a mean with its bootstrap interval; none for a single value."""
    return aggregate([values], resamples=10_000)["mean"]


def shares(choices: Iterable[npt.ArrayLike], arms: tuple[int, ...]) -> Array:
    """Return, for each run's choices, the share that each arm got: one row per run, one column per arm."""
    return np.array([[float(np.mean(np.asarray(chosen) == arm)) for arm in arms] for chosen in choices])
