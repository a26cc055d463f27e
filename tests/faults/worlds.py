"""Environments that fail in every way, while a file says so; registered with Gymnasium under `faults/`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SWITCH = "ADEPT_TESTS_FAULT"
"""The environment variable that names the file; it holds the kind of failure, and from which step on."""


class Sick(gymnasium.Env):  # type: ignore[type-arg]
    """Reward 1 for repeating the state; while the switch's file exists, it fails as that says."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self._steps = 0

    def _fails(self, kind: str) -> bool:
        file = Path(os.environ.get(SWITCH, "/nowhere"))
        if not file.exists():
            return False
        wanted, after = file.read_text().split()
        return kind == wanted and self._steps >= int(after)

    def _observe(self) -> Any:
        self._state = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
        if self._fails("shape"):
            return self._state[:1]
        return np.full(2, np.nan, np.float32) if self._fails("observation") else self._state

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if self._fails("reset"):
            raise RuntimeError("the simulator is gone")
        self._left = 7
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        self._left -= 1
        if self._fails("step"):
            raise RuntimeError("the simulator is gone")
        reward = float((self._state[0] > 0) == action)
        if self._fails("reward"):
            reward = float("nan")
        return self._observe(), reward, float("nan") if self._fails("terminated") else self._left == 0, False, {}


def register() -> None:
    """Make the environments known."""
    if "faults/Sick-v0" not in gymnasium.registry:
        gymnasium.register("faults/Sick-v0", Sick, disable_env_checker=True)
