"""Environments by `backend/name`: one file per backend, one line in `make_environments`."""

from __future__ import annotations

from adept.config import Config
from adept.envs import gymnasium, minigrid, pool, procgen, pybullet
from adept.envs.base import Array, Continuous, Discrete, Environments, Step
from adept.names import unknown_name

__all__ = ["BACKENDS", "Array", "Continuous", "Discrete", "Environments", "Step", "make_environments"]

BACKENDS = ("procgen", "minigrid", "pybullet", "gymnasium", "envpool")


def make_environments(
    config: Config, *, count: int | None = None, threads: int = 1, levels: int | None = None, render: bool = False,
    evaluating: bool = False,
) -> Environments:  # fmt: skip
    """Return the environments of a run, or, for evaluation, another number of them or other Procgen levels."""
    task, count = config.task, config.environments if count is None else count
    match config.backend:
        case "procgen":
            levels = config.levels if levels is None else levels
            return procgen.make(task, count, levels=levels, threads=threads, render=render)
        case "minigrid":
            return minigrid.make(task, count, threads=threads, render=render)
        case "pybullet":
            return pybullet.make(task, count)
        case "gymnasium":
            return gymnasium.make(task, count, render=render)
        case "envpool":
            return pool.make(task, count, threads=threads, render=render, evaluating=evaluating)
    raise unknown_name("backend", config.backend, BACKENDS)
