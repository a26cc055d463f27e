"""Any environment registered with Gymnasium."""

from __future__ import annotations

from typing import Any

from adept.config import Config
from adept.envs.backend import Backend
from adept.envs.base import Environments
from adept.envs.single import SingleEnvironments
from adept.extras import require
from adept.names import unknown_name


class Gymnasium(Backend):
    """Environments by Gymnasium's id; `module:Id-v0` imports the module first."""

    name = "gymnasium"
    about = "any id of Gymnasium"
    tasks = ("CartPole-v1", "Acrobot-v1", "Pendulum-v1")

    def make(self, config: Config, count: int, *, render: bool, **_: object) -> Environments:
        """Return environments by Gymnasium's id."""
        gymnasium = require("gymnasium", "train")
        task, options = config.task, {"render_mode": "rgb_array"} if render else {}

        def make_one() -> Any:
            try:
                return gymnasium.make(task, **options)
            except gymnasium.error.UnregisteredEnv:
                raise unknown_name("Gymnasium environment", task, gymnasium.registry) from None
            except Exception as error:  # whatever a stranger's constructor, or Gymnasium's check of its spaces, raises
                raise ValueError(f"cannot make the Gymnasium environment {task!r}: {error}") from error

        return SingleEnvironments(task, make_one, count)

    def imports_code(self, task: str) -> bool:
        """Say whether the id has the form `module:Id-v0`."""
        return ":" in task
