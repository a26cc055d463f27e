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
from adept.runs.imports import named_environments
from adept.studies.results import Cell, StudyResults

UNKNOWN_RATE = (200.0, 10.0)
"""Microseconds per environment step of sampling, and per row and epoch of updating, where the backend knows none."""

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
    """What is left of one cell."""

    cell: Cell
    steps: int
    epochs: float
    """epochs of an iteration on average, if the arms are chosen equally often; with a target KL, at most"""
    flops: float | None
    """None where the environment, and so its network, cannot be had here"""
    seconds: float
    source: str


def estimate(results: StudyResults) -> list[Remaining]:
    """Estimate what the cells that are not done have left to do."""
    study = results.study
    measured = measured_rates(results, results.cells)
    forwards = {task: _forward(study.config(study.baseline, task, study.seeds[0])) for task in study.tasks}
    estimates = []
    for cell in results.cells:
        config = cell.config
        made = 0 if cell.state == "missing" else int(_last(results, cell))
        iterations = 0 if cell.state == "done" else max(0, study.iterations(cell.task) - made)
        epochs = expected_epochs(config)
        forward = forwards[cell.task]
        flops = None
        if forward is not None:
            flops = iterations * forward * cost.iteration(config, epochs)
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
    """Return the epochs of an iteration on average, if the arms are chosen equally often."""
    return sum(config.choices) / len(config.choices)


def sources(estimates: Iterable[Remaining]) -> list[str]:
    """Return where the rates of the cells that are left come from."""
    return sorted({each.source for each in estimates if each.steps})


def _forward(config: Config) -> int | None:
    if named_environments(config):  # an estimate imports nothing that a file names
        return None
    try:
        from adept.flops import build_network, forward_flops  # here, so that a rate can be had without PyTorch

        return forward_flops(*build_network(config))
    except MissingExtra:
        return None


def _last(results: StudyResults, cell: Cell) -> float:
    columns = results.curve(cell)
    return columns["iteration"][-1] if columns and len(columns["iteration"]) else 0.0
