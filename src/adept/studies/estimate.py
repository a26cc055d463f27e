"""What a study will cost: FLOPs by the paper's formula with counted passes, and time from measured rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from adept import cost
from adept.algorithms import ALGORITHMS
from adept.config import Config, NetworkName
from adept.envs import backend_of
from adept.extras import MissingExtra
from adept.hindsight.estimates import Estimate
from adept.presets import preset
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


def estimate(results: StudyResults) -> list[Remaining]:
    """Estimate what the cells that are not done have left to do."""
    measured = measured_rates(results, results.cells)
    estimates = []
    for cell in results.cells:
        config, iterations = cell.config, 0
        if cell.state != "done":
            made = results.curve(cell).get("iteration", ())
            iterations = max(0, cell.iterations - int(max(made, default=0)))
        epochs, steps, rate = expected_epochs(config), iterations * config.batch_size, rate_for(config, measured)
        flops = _flops(config, epochs, iterations)
        estimates.append(Remaining(cell, steps, epochs, flops, steps * rate.step(epochs), rate.source))
    return estimates


Kind = tuple[str, str, str]
"""What runs of one rate have in common: the task or the backend, the algorithm and the network."""


def measured_rates(results: StudyResults, cells: Iterable[Cell]) -> dict[Kind, Rate]:
    """Return the rates of some runs of the folder, of their tasks and of their backends."""
    groups: dict[Kind, list[tuple[float, float, float, float]]] = {}
    for cell in cells:
        columns = results.curve(cell)
        if not columns.keys() >= NEEDED or not len(columns["step"]):
            continue
        config = cell.config
        sampling = float((columns["environment_seconds"] + columns["inference_seconds"]).sum())
        rows = float(len(columns["step"]) * config.batch_size)
        row_epochs = float(columns["epochs_done"].sum() * config.batch_size)
        sums = (sampling, rows, float(columns["update_seconds"].sum()), row_epochs)
        for name in (cell.task, config.backend):
            groups.setdefault((name, config.algo, config.network), []).append(sums)
    rates = {}
    for key, parts in groups.items():
        sampling, rows, update, row_epochs = (math.fsum(part) for part in zip(*parts, strict=True))
        rates[key] = Rate(sampling / rows, update / row_epochs, f"measured in {len(parts)} runs of {key[0]} here")
    return rates


def rate_for(config: Config, measured: Mapping[Kind, Rate]) -> Rate:
    """Return the best known rate: measured on this task, else on this backend, else a rough one.

    Rough rates are of the preset's network. Another one takes the time of its FLOPs: an epoch is three passes of a row
    (times those of the algorithm), and one more is part of sampling.
    """
    for name in (config.env, config.backend):
        if found := measured.get((name, config.algo, config.network)):
            return found
    source = f"rough rate of {config.backend} on one CPU core, not measured here"
    passes = ALGORITHMS[config.algo].passes
    sampling, update = backend_of(config).microseconds.get(passes, UNKNOWN_RATE)
    if config.network != (usual := preset(config.env, config.algo).network):
        own, other = _forward_flops(config.env, config.network), _forward_flops(config.env, usual)
        if own and other:
            sampling += (own[0] / other[0] - 1) * update / (3 * passes)
            update *= own[0] / other[0]
            source += f", scaled to the FLOPs of {config.network}"
    return Rate(sampling * 1e-6, update * 1e-6, source)


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


def _flops(config: Config, epochs: float, iterations: int) -> float | None:
    """Return the FLOPs of so many iterations, with their share of what the run spends on monitoring."""
    if (forward := _forward_flops(config.env, config.network)) is None:
        return None
    whole, policy, values = forward
    policy_rows, values_rows = cost.measured_passes(config)
    monitoring = (policy_rows * policy + values_rows * values) / config.iterations
    return iterations * (whole * cost.iteration(config, epochs) + monitoring)


@cache
def _forward_flops(env: str, network: NetworkName) -> tuple[int, int, int] | None:
    """Return the FLOPs of an observation's pass: whole, of the policy, and of the critic; None if not known here."""
    config = replace(preset(env), network=network)
    if named_environments(config):  # an estimate imports nothing that a file names
        return None
    try:
        from adept.flops import build_network, pass_flops

        return pass_flops(*build_network(config))
    except MissingExtra:
        return None
