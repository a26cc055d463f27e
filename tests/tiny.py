"""Environments small enough to know every number of, registered with Gymnasium under `tiny/`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Identity(gymnasium.Env):  # type: ignore[type-arg]
    """Reward 1 for repeating the state, which changes at random; episodes of 8 steps."""

    def __init__(self, states: int = 3, continuous: bool = False) -> None:
        self.observation_space = spaces.Discrete(states)
        self.action_space = spaces.Discrete(states)
        if continuous:
            self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
            self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._continuous, self._left = continuous, 0

    def _observe(self) -> Any:
        self._state = self.observation_space.sample()
        return self._state

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._left = 8
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        error = float(np.abs(np.asarray(action) - self._state).sum())
        reward = -error if self._continuous else float(error == 0)
        self._left -= 1
        return self._observe(), reward, self._left == 0, False, {}


class Count(gymnasium.Env):  # type: ignore[type-arg]
    """The observation counts the steps of the episode; reward 1 each; ends, or is cut, after `length` steps."""

    observation_space = spaces.Box(0.0, 1e6, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 3, cut: bool = False, constant: bool = False, poison: int = -1) -> None:
        self._length, self._cut, self._constant, self._poison = length, cut, constant, poison
        self._count = self._total = 0

    def _observe(self) -> Any:
        self._total += 1
        value = np.nan if self._total == self._poison else 0.0 if self._constant else float(self._count)
        return np.array([value], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._count = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self._count += 1
        over = self._count >= self._length
        return self._observe(), 1.0, over and not self._cut, over and self._cut, {}


class Picture(gymnasium.Env):  # type: ignore[type-arg]
    """A random picture of 64 × 64 pixels, height and width first; reward 1 for action 0."""

    observation_space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def _observe(self) -> Any:
        return self.np_random.integers(0, 256, (64, 64, 3), dtype=np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._left = 5
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self._left -= 1
        return self._observe(), float(action == 0), self._left == 0, False, {}


def register() -> None:
    """Make the environments known."""
    for name, entry, options in (
        ("tiny/Identity-v0", Identity, {}),
        ("tiny/Follow-v0", Identity, {"continuous": True}),
        ("tiny/Ends-v0", Count, {}),
        ("tiny/Cut-v0", Count, {"cut": True}),
        ("tiny/Endless-v0", Count, {"length": 10**9, "constant": True}),
        ("tiny/CutConstant-v0", Count, {"length": 5, "cut": True, "constant": True}),
        ("tiny/Poison-v0", Count, {"length": 7, "poison": 300}),
        ("tiny/Picture-v0", Picture, {}),
    ):
        if name not in gymnasium.registry:
            gymnasium.register(name, entry, kwargs=options, disable_env_checker=True)
