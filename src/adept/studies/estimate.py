"""What a study will cost: FLOPs by the paper's formula with counted passes, and time from measured rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from adept import cost
from adept.algorithms import ALGORITHMS
from adept.config import Config
from adept.envs import backend_of
from adept.extras import MissingExtra
from adept.hindsight.estimates import Estimate
from adept.rules import RULES, Feedback
from adept.runs.imports import named_environments
from adept.studies.results import Cell, StudyResults

UNKNOWN_RATE = (200.0, 10.0)
"""Microseconds per environment step of sampling, and per row and epoch of updating, where the backend knows none."""

SETTLED = 500
"""Updates after which a rule that learns nothing new has come to the epochs it stays at."""

NEEDED = {"step", "epochs_done", "environment_seconds", "inference_seconds", "update_seconds"}
"""Columns that tell a run's rates; a run of another version that lacks them tells none."""


@dataclass(frozen=True)
class Rate:
    """Seconds per environment step of sampling, and per row and epoch of updating; and where they are from."""

    sampling: float
    update: float
    source: str

    def step(self, epochs: float) -> float:
        """Return the seconds of an environment step and of its updates."""
        return self.sampling + self.update * epochs


@dataclass(frozen=True)
class Remaining:
    """The work that one cell still needs."""

    cell: Cell
    steps: int
    epochs: float
    """epochs of an iteration on average (see `expected_epochs`); with a target KL, at most"""
    flops: float | None
    """updates, sampling and monitoring; None where the environment, and so its network, cannot be had here"""
    seconds: float
    source: str


@dataclass(frozen=True)
class Passes:
    """FLOPs of one observation's forward pass."""

    whole: int
    policy: int
    values: int

    def iteration(self, config: Config, epochs: float) -> float:
        """Return the FLOPs of an iteration, with its share of what the run spends on monitoring."""
        policy_rows, values_rows = cost.measured_passes(config)
        monitoring = (policy_rows * self.policy + values_rows * self.values) / config.iterations
        return self.whole * cost.iteration(config, epochs) + monitoring


def estimate(results: StudyResults) -> list[Remaining]:
    """Estimate what the cells that are not done have left to do."""
    study = results.study
    measured = measured_rates(results, results.cells)
    passes_of = {task: _passes(study.config(study.baseline, task, study.seeds[0])) for task in study.tasks}
    estimates = []
    for cell in results.cells:
        config = cell.config
        made = 0 if cell.state == "missing" else int(_last(results, cell))
        iterations = 0 if cell.state == "done" else max(0, study.iterations(cell.task) - made)
        epochs = expected_epochs(config)
        passes = passes_of[cell.task]
        flops = None if passes is None else iterations * passes.iteration(config, epochs)
        rate = rate_for(config, measured)
        steps = iterations * config.batch_size
        seconds = steps * rate.step(epochs)
        estimates.append(Remaining(cell, steps, epochs, flops, seconds, rate.source))
    return estimates


def measured_rates(results: StudyResults, cells: Iterable[Cell]) -> dict[tuple[str, str], Rate]:
    """Return the rates of some runs of the folder, by task and algorithm, and by backend and algorithm."""
    groups: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    for cell in cells:
        if cell.state == "missing" or not (columns := results.curve(cell)).keys() >= NEEDED or not len(columns["step"]):
            continue
        sampling = float((columns["environment_seconds"] + columns["inference_seconds"]).sum())
        rows = float(len(columns["step"]) * cell.config.batch_size)
        row_epochs = float(columns["epochs_done"].sum() * cell.config.batch_size)
        sums = (sampling, rows, float(columns["update_seconds"].sum()), row_epochs)
        for name in (cell.task, cell.config.backend):
            groups.setdefault((name, cell.config.algo), []).append(sums)
    rates = {}
    for key, parts in groups.items():
        sampling, rows, update, row_epochs = (math.fsum(part[index] for part in parts) for index in range(4))
        rates[key] = Rate(sampling / rows, update / row_epochs, f"measured in {len(parts)} runs of {key[0]} here")
    return rates


def rate_for(config: Config, measured: dict[tuple[str, str], Rate]) -> Rate:
    """Return the best known rate: measured on this task, else on this backend, else a rough one."""
    for name in (config.env, config.backend):
        if (name, config.algo) in measured:
            return measured[name, config.algo]
    sampling, update = backend_of(config).microseconds.get(ALGORITHMS[config.algo].passes, UNKNOWN_RATE)
    return Rate(sampling * 1e-6, update * 1e-6, f"rough rate of {config.backend} on one CPU core, not measured here")


def expected_epochs(config: Config) -> float:
    """Return the epochs of an iteration on average.

    Arms are taken to be chosen equally often. A rule is asked for its epochs while updates neither stop short nor
    overshoot.
    """
    if config.scheduler not in RULES:
        return sum(config.choices) / len(config.choices)
    rule, just_right = config.rule(), Feedback(slope=Estimate(0.0, 1.0))
    rule.begin(config.learning_rate)
    asked = min(config.iterations, SETTLED)
    epochs = [rule.step(just_right if index else None).epochs for index in range(asked)]
    return (sum(epochs) + (config.iterations - asked) * epochs[-1]) / config.iterations


def sources(estimates: Iterable[Remaining]) -> list[str]:
    """Return where the rates of the cells that are left come from."""
    return sorted({each.source for each in estimates if each.steps})


def _passes(config: Config) -> Passes | None:
    if named_environments(config):  # an estimate imports nothing that a file names
        return None
    try:
        from adept.flops import build_network, pass_flops

        return Passes(*pass_flops(*build_network(config)))
    except MissingExtra:
        return None


def _last(results: StudyResults, cell: Cell) -> float:
    columns = results.curve(cell)
    return columns["iteration"][-1] if columns and len(columns["iteration"]) else 0.0
