"""Environments of EnvPool: native code, stepped in one call."""

from __future__ import annotations

import warnings
from operator import itemgetter
from typing import Any

import numpy as np

from adept.config import Config
from adept.envs.backend import Backend
from adept.envs.base import Array, Environments, Step
from adept.envs.spaces import action_space, channels_last
from adept.extras import require
from adept.names import unknown_name

ATARI_TRAINING = {"episodic_life": True, "reward_clip": True}
"""How PPO is trained on Atari everywhere: an episode is one life, and rewards are clipped to -1, 0 or 1."""
IN_CPP = ("_send", "_recv", "_reset", "_state_keys", "_spec")
"""What of EnvPool's classes in C++ is used here beside its public methods."""


class EnvPool(Backend):
    """Environments by EnvPool's id."""

    name = "envpool"
    about = "any id of EnvPool: MuJoCo, Box2D, classic control, Atari, …"
    tasks = ("HalfCheetah-v4", "LunarLander-v3", "CartPole-v1", "Pong-v5")

    def make(
        self, config: Config, count: int, *, threads: int, render: bool, evaluating: bool, **_: bool
    ) -> Environments:
        """Return environments by EnvPool's id; Atari's are whole games for evaluation, and lives for training."""
        envpool, task = require("envpool", "envpool"), config.task
        known = envpool.list_all_envs()
        if task not in known:
            raise unknown_name("EnvPool environment", task, known)
        training = not evaluating and ATARI_TRAINING.keys() <= set(envpool.make_spec(task).config._fields)
        return PoolEnvironments(task, count, threads=threads, render=render, **(ATARI_TRAINING if training else {}))


class PoolEnvironments(Environments):
    """Step one kind of EnvPool environment.

    EnvPool resets on the step after an end, and that step ignores the action: a row which is no data. Here ended
    environments are reset at once instead, by name, so that every row is data. Steps call what EnvPool's own `step`
    calls in C++, without its dictionaries of everything else, which took a third of the time of MiniGrid and MuJoCo.
    """

    def __init__(self, env_id: str, count: int, *, threads: int = 1, render: bool = False, **options: Any) -> None:
        self._envpool = require("envpool", "envpool")
        self.count, self._id = count, env_id
        self._options = {**options, "num_envs": count, "num_threads": min(threads, count), "env_type": "gymnasium"}
        if render:
            self._options["render_mode"] = "rgb_array"
        self._pool = self._make(0)
        if missing := [name for name in IN_CPP if not hasattr(self._pool, name)]:
            raise ValueError(
                f"EnvPool {self._envpool.__version__} has no {', '.join(missing)}, which stepping it needs; "
                "install a version that has: pip install envpool==1.2.5"
            )
        space, actions = self._pool.observation_space, self._pool.action_space
        observed = next(key for key in self._pool._state_keys if key.startswith("obs"))
        # Of MiniGrid's dictionary (image, direction, mission) the image is what the paper's agents see.
        if getattr(space, "shape", None) is None:
            if "image" not in getattr(space, "spaces", {}):
                raise ValueError(f"{env_id} has observations of {space}; only one array, or a dict with an image, fits")
            space, observed = space.spaces["image"], "obs:image"
        self._image = len(space.shape) == 3
        self._channels_last = self._image and channels_last(space.shape)
        shape = tuple(int(size) for size in space.shape)
        if self._channels_last:
            shape = (shape[2], shape[0], shape[1])
        self.observation_shape: tuple[int, ...] = shape if self._image else (int(np.prod(shape)),)
        uint8 = self._image and space.dtype == np.uint8
        self.observation_dtype: np.dtype[Any] = np.dtype(np.uint8 if uint8 else np.float32)
        self.actions, self._start = action_space(env_id, actions)
        self._action_dtype = self._pool._spec._action_spec[-1][0]
        self._ids = np.arange(count, dtype=np.int32)
        self._state = itemgetter(*map(self._pool._state_keys.index, (observed, "reward", "done", "trunc")))

    def _restart(self, seed: int) -> Array:
        """Make a new pool: EnvPool's seeds are fixed when it is made."""
        self._pool.close()
        self._pool = self._make(seed)
        return self._reset(self._ids)

    def _make(self, seed: int) -> Any:
        with warnings.catch_warnings():  # Gymnasium's, that bounds of float32 are declared in float64
            warnings.filterwarnings("ignore", message=".*precision lowered by casting")
            pool = self._envpool.make(self._id, seed=seed, **self._options)
            _ = pool.observation_space, pool.action_space  # made when first asked for
        return pool

    def _reset(self, ids: Array) -> Array:
        self._pool._reset(ids)
        return self._observed(self._state(self._pool._recv())[0])

    def _step(self, actions: Array) -> Step:
        """Take one action in each environment; reset those that ended at once."""
        if self._start:
            actions = actions + self._start
        self._pool._send([self._ids, self._ids, actions.astype(self._action_dtype, "C")])
        raw, rewards, ended, truncated = self._state(self._pool._recv())
        observations, terminated = self._observed(raw), ended & ~truncated
        done = np.flatnonzero(ended | truncated)
        if not len(done):
            return Step(observations, rewards, terminated, truncated, None)
        final = observations[done]
        observations = observations.copy()
        observations[done] = self._reset(done.astype(np.int32))
        return Step(observations, rewards, terminated, truncated, final)

    def _render(self) -> Array:
        """Return a picture of the first environment."""
        frame = np.asarray(self._pool.render())
        return frame[0] if frame.ndim == 4 else frame

    def _close(self) -> None:
        """Free the pool."""
        self._pool.close()

    def _observed(self, observations: Array) -> Array:
        if self._channels_last:
            observations = observations.transpose(0, 3, 1, 2)
        if not self._image:
            observations = observations.reshape(len(observations), -1)
        return observations.astype(self.observation_dtype, copy=False)
