"""The robots of PyBullet, on the lean backend."""

from __future__ import annotations

from adept.config import Config
from adept.envs.backend import Backend
from adept.envs.base import Environments
from adept.envs.single import SingleEnvironments
from adept.names import unknown_name


class PyBullet(Backend):
    """Four walkers, each in a physics client of its own."""

    name = "pybullet"
    about = "the walkers of PyBullet"
    tasks = ("Ant", "HalfCheetah", "Hopper", "Walker2D")
    evaluation_environments = 1
    microseconds = {1: (270.0, 6.0)}  # noqa: RUF012

    def make(self, config: Config, count: int, **_: object) -> Environments:
        """Return environments of one robot."""
        if config.task not in self.tasks:
            raise unknown_name("PyBullet robot", config.task, self.tasks)
        from adept.envs import bullet  # here, since it loads PyBullet

        return SingleEnvironments(config.task, lambda: bullet.Walker(config.task), count)
