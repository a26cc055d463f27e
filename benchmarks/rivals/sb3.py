"""Stable-Baselines3 and sbx, its sister in JAX: their classes, with EnvPool as their vectorised environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, VecNormalize

from benchmarks.rivals.pool import Pool
from benchmarks.rivals.tasks import CLIP_RANGE, DISCOUNT, GAE_COEFFICIENT, MAX_GRADIENT_NORM, Task

Array = np.ndarray[Any, np.dtype[Any]]


class PoolVecEnv(VecEnv):
    """EnvPool's environments as Stable-Baselines3 asks for them."""

    def __init__(self, task: Task) -> None:
        self._pool = Pool(task)
        high = 255.0 if task.env_id.startswith("MiniGrid") else np.inf
        observations = spaces.Box(-np.inf, high, self._pool.shape, np.float32)
        super().__init__(task.environments, observations, self._pool.action_space)

    def reset(self) -> Array:
        return self._pool.reset()

    def step_async(self, actions: Array) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        step = self._pool.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index, observation in step.final.items():
            infos[index] = {"terminal_observation": observation, "TimeLimit.truncated": bool(step.truncated[index])}
        return step.observations, step.rewards, step.terminated | step.truncated, infos

    def close(self) -> None:
        self._pool.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> Sequence[bool]:
        return [False] * self.num_envs


def make_with(ppo: Any, task: Task) -> Callable[[], int]:
    """Return what runs one iteration of a PPO class and tells its steps."""
    envs: VecEnv = VecMonitor(PoolVecEnv(task))
    if task.normalize:
        envs = VecNormalize(envs, gamma=DISCOUNT)
    model = ppo(
        "MlpPolicy", envs, learning_rate=task.learning_rate, n_steps=task.rollout_length,
        batch_size=task.minibatch_size, n_epochs=task.epochs, gamma=DISCOUNT, gae_lambda=GAE_COEFFICIENT,
        clip_range=CLIP_RANGE, ent_coef=task.entropy_coefficient, max_grad_norm=MAX_GRADIENT_NORM, seed=1,
        device="cpu", policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
    )  # fmt: skip

    def iterate() -> int:
        model.learn(task.batch_size, reset_num_timesteps=False)
        return task.batch_size

    return iterate


def make(task: Task) -> Callable[[], int]:
    """Return what runs one iteration of Stable-Baselines3."""
    from stable_baselines3 import PPO

    return make_with(PPO, task)


def make_jax(task: Task) -> Callable[[], int]:
    """Return what runs one iteration of sbx."""
    from sbx import PPO

    return make_with(PPO, task)
