"""Environments of Python, one object each, stepped in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adept.envs.base import Array, Discrete, Environments, Step
from adept.envs.spaces import action_space, channels_last


class SingleEnvironments(Environments):
    """Step several Gymnasium environments in turn, each restarted at once when it ends."""

    def __init__(self, name: str, make: Callable[[], Any], count: int) -> None:
        self.count = count
        self._make = make
        self._environments = [make() for _ in range(count)]
        observation_space = self._environments[0].observation_space
        for env in self._environments[1:]:
            if (env.observation_space, env.action_space) != (observation_space, self._environments[0].action_space):
                raise ValueError(f"{name} has other spaces each time that it is made; they must stay the same")
        self._encode, self.observation_shape, dtype = _encoder(name, observation_space)
        self.observation_dtype: np.dtype[Any] = np.dtype(dtype)
        self.actions, self._start = action_space(name, self._environments[0].action_space)

    def _restart(self, seed: int) -> Array:
        """Reset every environment with a seed of its own."""
        seeds = np.random.SeedSequence(seed).generate_state(self.count)
        pairs = zip(self._environments, seeds, strict=True)
        return self._stack([env.reset(seed=int(own) & 0x7FFF_FFFF)[0] for env, own in pairs])

    def _step(self, actions: Array) -> Step:
        """Take one action in each environment; reset those that ended at once."""
        observations, finals = [], []
        rewards = np.empty(self.count, np.float32)
        terminated = np.zeros(self.count, np.bool_)
        truncated = np.zeros(self.count, np.bool_)
        # As Gymnasium's spaces sample them: whole numbers of Python, or one array per environment.
        chosen = (actions + self._start).tolist() if isinstance(self.actions, Discrete) else actions
        for index, (env, action) in enumerate(zip(self._environments, chosen, strict=True)):
            raw, reward, ended, cut, _ = env.step(action)
            if isinstance(reward, str | bytes):
                raise ValueError(f"the reward {reward!r} is no number")
            if ended not in (True, False) or cut not in (True, False):
                raise ValueError(f"terminated is {ended!r} and truncated {cut!r}; both must be true or false")
            rewards[index] = reward
            if ended or cut:
                terminated[index], truncated[index] = ended, cut and not ended
                finals.append(raw)
                raw = env.reset()[0]
            observations.append(raw)
        final_observations = self._stack(finals) if finals else None
        return Step(self._stack(observations), rewards, terminated, truncated, final_observations)

    def _render(self) -> Array:
        """Return a picture of the first environment."""
        return np.asarray(self._environments[0].render())

    def _close(self) -> None:
        """Close every environment."""
        for env in self._environments:
            env.close()

    def _stack(self, raw: list[Any]) -> Array:
        stacked = np.empty((len(raw), *self.observation_shape), self.observation_dtype)
        for row, observation in zip(stacked, raw, strict=True):
            encoded = np.asarray(self._encode(observation))
            if encoded.shape != row.shape:
                raise ValueError(f"an observation of shape {encoded.shape}, where {row.shape} is declared")
            if encoded.dtype != row.dtype and not _fits(encoded, row.dtype):
                raise ValueError(f"an observation of {encoded.dtype}, where {row.dtype} is declared")
            row[...] = encoded
        return stacked


def _fits(observation: Array, dtype: np.dtype[Any]) -> bool:
    """Say whether numbers of another type than the declared one can stand for it; a pixel is a whole one below 256."""
    if dtype != np.uint8:
        return observation.dtype.kind in "biuf"
    return observation.dtype.kind in "biu" and bool(((observation >= 0) & (observation < 256)).all())


def _encoder(name: str, space: Any) -> tuple[Callable[[Any], Any], tuple[int, ...], type]:
    """Return how an observation becomes a vector or an image, its shape and its type."""
    from gymnasium import spaces

    if not getattr(space, "is_np_flattenable", False) and not isinstance(space, spaces.Box):
        raise ValueError(f"{name} has observations of {space}; only what Gymnasium can flatten, and images, fit")
    length = spaces.flatdim(space)
    if not length:
        raise ValueError(f"{name} has observations of {space}, which hold no number; there is nothing to act on")
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return (lambda observation: observation), space.shape, np.float32
    if isinstance(space, spaces.Box) and len(space.shape) in (2, 3) and space.dtype == np.uint8:
        if len(space.shape) == 2:
            return (lambda image: image[None]), (1, *space.shape), np.uint8
        if channels_last(space.shape):
            height, width, channels = space.shape
            return (lambda image: np.moveaxis(image, -1, 0)), (channels, height, width), np.uint8
        return (lambda image: image), space.shape, np.uint8
    return (lambda observation: spaces.flatten(space, observation)), (length,), np.float32
