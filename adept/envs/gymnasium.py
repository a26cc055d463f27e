"""Any environment registered with Gymnasium."""

from __future__ import annotations

from typing import Any

from adept.envs.base import Environments
from adept.envs.single import SingleEnvironments
from adept.extras import require
from adept.names import unknown_name


def make(task: str, count: int, *, render: bool = False) -> Environments:
    """Return environments by Gymnasium's id; `module:Id-v0` imports the module first."""
    gymnasium = require("gymnasium", "train")
    options = {"render_mode": "rgb_array"} if render else {}

    def make_one() -> Any:
        try:
            return gymnasium.make(task, **options)
        except gymnasium.error.UnregisteredEnv:
            raise unknown_name("Gymnasium environment", task, gymnasium.registry) from None
        except (gymnasium.error.Error, ImportError) as error:
            raise ValueError(f"cannot make the Gymnasium environment {task!r}: {error}") from error

    return SingleEnvironments(task, make_one, count)
