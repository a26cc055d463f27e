"""MiniGrid, in EnvPool's native version: the agent's view of 7 × 7 cells with 3 numbers each."""

from __future__ import annotations

from adept.config import Config
from adept.envs.backend import Backend
from adept.envs.base import Environments
from adept.envs.pool import PoolEnvironments
from adept.extras import require
from adept.names import unknown_name


class MiniGrid(Backend):
    """EnvPool's MiniGrid."""

    name = "minigrid"
    about = "MiniGrid in EnvPool's native version, by the name without MiniGrid- and version"
    tasks = ("DoorKey-6x6", "LavaGapS7", "Empty-16x16")
    microseconds = {1: (31.0, 4.0)}  # noqa: RUF012

    def make(self, config: Config, count: int, *, threads: int, render: bool, **_: bool) -> Environments:
        """Return MiniGrid environments by the name without `MiniGrid-` and version, for example DoorKey-6x6."""
        ids = [name for name in require("envpool", "envpool").list_all_envs() if name.startswith("MiniGrid-")]
        names = {name.removeprefix("MiniGrid-").rsplit("-v", 1)[0]: name for name in ids}
        if config.task not in names:
            raise unknown_name("MiniGrid task", config.task, names)
        return PoolEnvironments(names[config.task], count, threads=threads, render=render)
