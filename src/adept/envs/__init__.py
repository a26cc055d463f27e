"""Environments by `backend/name`: one file per backend, one line in `BACKENDS`."""

from __future__ import annotations

from adept.config import Config
from adept.envs.backend import Backend
from adept.envs.base import Array, Continuous, Discrete, Environments, Step
from adept.envs.gymnasium import Gymnasium
from adept.envs.minigrid import MiniGrid
from adept.envs.pool import EnvPool
from adept.envs.procgen import Procgen
from adept.envs.pybullet import PyBullet
from adept.extras import MissingExtra
from adept.names import unknown_name

__all__ = [
    "BACKENDS", "Array", "Backend", "Continuous", "Discrete", "Environments", "Step", "backend_of", "make_environments",
    "summary",
]  # fmt: skip

BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Procgen(),
        MiniGrid(),
        PyBullet(),
        Gymnasium(),
        EnvPool(),
    )
}


def backend_of(config: Config) -> Backend:
    """Return the backend that a configuration names."""
    if config.backend not in BACKENDS:
        raise unknown_name("backend", config.backend, BACKENDS)
    return BACKENDS[config.backend]


def make_environments(
    config: Config,
    *,
    count: int | None = None,
    threads: int = 1,
    render: bool = False,
    evaluating: bool = False,
    test_levels: bool = False,
) -> Environments:
    """Return the environments of a run, or, for evaluation, another number of them and the levels of the test."""
    count = config.environments if count is None else count
    backend = backend_of(config)
    try:
        made = backend.make(
            config, count, threads=threads, render=render, evaluating=evaluating, test_levels=test_levels
        )
        made.name = config.env
        made.check_spaces()
        return made
    except (ValueError, MissingExtra):
        raise
    except Exception as error:  # whatever a stranger's constructor, or its spaces, raise
        raise ValueError(f"cannot make {config.env}: {type(error).__name__}: {error}") from error


def summary() -> str:
    """Return the backends, one line each, for help."""
    return "\n".join(f"- {one.name}/NAME: {one.about}; for example {', '.join(one.tasks)}" for one in BACKENDS.values())
