"""MiniGrid, in EnvPool's native version: the agent's view of 7 × 7 cells with 3 numbers each."""

from __future__ import annotations

from adept.envs.base import Environments
from adept.envs.pool import PoolEnvironments
from adept.extras import require
from adept.names import unknown_name

TASKS = ("DoorKey-6x6", "LavaGapS7", "Empty-16x16")
"""The tasks of the paper; any other of EnvPool's MiniGrid environments works as well."""


def make(task: str, count: int, *, threads: int = 1, render: bool = False) -> Environments:
    """Return MiniGrid environments by the name without `MiniGrid-` and version, for example DoorKey-6x6."""
    ids = [name for name in require("envpool", "envpool").list_all_envs() if name.startswith("MiniGrid-")]
    names = {name.removeprefix("MiniGrid-").rsplit("-v", 1)[0]: name for name in ids}
    if task not in names:
        raise unknown_name("MiniGrid task", task, names)
    return PoolEnvironments(names[task], count, threads=threads, render=render)
