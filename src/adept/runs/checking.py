"""What can be known to be wrong before anything runs: made small, or counted."""

from __future__ import annotations

import dataclasses
import os

from adept.config import Config, Execution
from adept.runs.machine import memory_bytes
from adept.training import Trainer

LARGE_SHARE = 0.5
"""Share of the machine's memory beyond which a run is warned of."""


def check_run(config: Config, execution: Execution | None = None) -> list[str]:
    """Make everything that a run needs, with one environment and one row; return warnings.

    What a run would stumble over at its start is raised here, before a folder exists: names, shapes that do not fit the
    network or the algorithm, the device, threads, and rollouts that the memory cannot hold.
    """
    execution = execution or Execution()
    check_threads(execution)
    smallest = dataclasses.replace(config, environments=1, rollout_length=1, minibatch_size=1, steps=1)
    trainer = Trainer(smallest, execution)
    try:
        environments = trainer.environments
        row = environments.observation_dtype.itemsize
        for size in environments.observation_shape:
            row *= size
    finally:
        trainer.close()
    return check_memory(config, row)


def check_threads(execution: Execution) -> None:
    """Refuse more threads than this machine has cores: PyTorch breaks down over thousands of them."""
    cores = os.cpu_count() or 1
    for name, given in (("threads", execution.threads), ("env_threads", execution.env_threads)):
        if given > cores:
            raise ValueError(f"{name} must be at most {cores}, the cores of this machine, got {given}")


def check_memory(config: Config, row: int) -> list[str]:
    """Refuse a rollout that cannot fit into this machine's memory; return a warning where it is large.

    Counted are the observations of one rollout, of `row` bytes each; a run needs somewhat more.
    """
    needed, memory = config.batch_size * row, memory_bytes()
    size = f"a rollout of {config.environments:,} environments × {config.rollout_length:,} steps takes {gib(needed)}"
    if needed > memory:
        raise ValueError(f"{size}, this machine has {gib(memory)}; lower --environments or --rollout-length")
    return [f"{size} of this machine's {gib(memory)}"] if needed > LARGE_SHARE * memory else []


def gib(size: float) -> str:
    """Return a number of bytes as people say it."""
    return f"{size / 2**30:,.1f} GiB"
