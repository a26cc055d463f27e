"""EnvPool's environments for the other sides: stepped by the code that steps them for ours, in float32."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from adept.envs.base import Discrete
from adept.envs.pool import PoolEnvironments
from benchmarks.rivals.tasks import Task

Array = np.ndarray[Any, np.dtype[Any]]


class Step(NamedTuple):
    """What one step gives; where episodes ended, `final` has the last observation of each, by its number."""

    observations: Array
    rewards: Array
    terminated: Array
    truncated: Array
    final: dict[int, Array]


class Pool:
    """One kind of environment, several at a time, on one thread; ended episodes are reset at once."""

    def __init__(self, task: Task) -> None:
        self.count = task.environments
        self._environments = PoolEnvironments(task.env_id, self.count)
        shape, actions = self._environments.observation_shape, self._environments.actions
        self.shape = shape if task.convolutions else (math.prod(shape),)
        self.discrete = isinstance(actions, Discrete)
        self.action_space: Any = (
            spaces.Discrete(actions.n)
            if isinstance(actions, Discrete)
            else spaces.Box(np.array(actions.low, np.float32), np.array(actions.high, np.float32))
        )

    def reset(self) -> Array:
        """Start all episodes."""
        return self._observed(self._environments.restart(1))

    def step(self, actions: Array) -> Step:
        """Take one action in each environment, within its bounds."""
        if not self.discrete:
            actions = np.clip(actions, self.action_space.low, self.action_space.high)
        observations, rewards, terminated, truncated, last = self._environments.step(actions)
        final = {}
        if last is not None:
            final = dict(zip(np.flatnonzero(terminated | truncated).tolist(), self._observed(last), strict=True))
        return Step(self._observed(observations), rewards, terminated, truncated, final)

    def close(self) -> None:
        """Free the environments."""
        self._environments.close()

    def _observed(self, observations: Array) -> Array:
        return observations.reshape(len(observations), *self.shape).astype(np.float32)
