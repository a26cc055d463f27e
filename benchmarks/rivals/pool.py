"""EnvPool's environments for the other sides: float32, ended episodes reset at once where a side needs that."""

from __future__ import annotations

from typing import Any, NamedTuple

import envpool
import numpy as np

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
    """One kind of environment, several at a time, on one thread."""

    def __init__(self, task: Task, seed: int = 1) -> None:
        self.count = task.environments
        self.pool = envpool.make(task.env_id, env_type="gymnasium", num_envs=self.count, num_threads=1, seed=seed)
        space, self.action_space = self.pool.observation_space, self.pool.action_space
        self._image = space["image"].shape if task.env_id.startswith("MiniGrid") else None
        self._planes = task.convolutions
        shape = space.shape if self._image is None else self._image
        self.shape = (shape[2], *shape[:2]) if self._planes else (int(np.prod(shape)),)
        self.discrete = hasattr(self.action_space, "n")
        self.action_dtype = self.action_space.dtype
        self._ids = np.arange(self.count, dtype=np.int32)

    def reset(self) -> Array:
        """Start all episodes."""
        return self._observed(self.pool.reset()[0])

    def step(self, actions: Array) -> Step:
        """Take one action in each environment; start ended episodes again at once."""
        raw, rewards, terminated, truncated, _ = self.send(actions)
        truncated = truncated & ~terminated
        observations, done = self._observed(raw), np.flatnonzero(terminated | truncated)
        final = {int(index): observations[index].copy() for index in done}
        if len(done):
            observations = observations.copy()
            observations[done] = self._observed(self.pool.reset(done.astype(np.int32))[0])
        return Step(observations, rewards, terminated, truncated, final)

    def next(self, actions: Array) -> tuple[Array, Array, Array, Array]:
        """Take one action in each environment as EnvPool does it: an ended episode is reset by the next step."""
        raw, rewards, terminated, truncated, _ = self.send(actions)
        return self._observed(raw), rewards, terminated, truncated

    def send(self, actions: Array) -> Any:
        """Step the pool with actions of its type, within their bounds."""
        if not self.discrete:
            actions = np.clip(actions, self.action_space.low, self.action_space.high)
        return self.pool.step(np.asarray(actions).astype(self.action_dtype, copy=False), self._ids)

    def _observed(self, raw: Any) -> Array:
        if self._image is None:
            return raw.astype(np.float32, copy=False)
        image = raw["image"]
        image = image.transpose(0, 3, 1, 2) if self._planes else image.reshape(len(image), -1)
        return image.astype(np.float32)
