"""rlox: its PPO class, on EnvPool's environments or, `rlox-rust`, on its own CartPole in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from rlox.algorithms.ppo import PPO
from rlox.collectors import RolloutCollector
from rlox.vec_normalize import VecNormalize

from benchmarks.rivals.pool import Pool
from benchmarks.rivals.tasks import CLIP_RANGE, DISCOUNT, GAE_COEFFICIENT, MAX_GRADIENT_NORM, Task

Array = np.ndarray[Any, np.dtype[Any]]


class Environments:
    """EnvPool's environments as rlox's collector asks for them."""

    def __init__(self, task: Task) -> None:
        self.pool = Pool(task)
        self.action_space = self.pool.action_space
        self.observation_space = spaces.Box(-np.inf, np.inf, self.pool.shape, np.float32)

    def num_envs(self) -> int:
        return self.pool.count

    def reset_all(self, seed: int | None = None) -> Array:
        return self.pool.reset()

    def step_all(self, actions: Any) -> dict[str, Any]:
        step = self.pool.step(np.asarray(actions))
        return {
            "obs": step.observations,
            "rewards": step.rewards.astype(np.float64),
            "terminated": step.terminated.astype(np.uint8),
            "truncated": step.truncated.astype(np.uint8),
            "terminal_obs": [step.final.get(index) for index in range(self.pool.count)],
        }


class Spaces(gymnasium.Env[Array, Any]):
    """What the constructor of rlox's PPO looks up by name; it is never stepped."""

    def __init__(self, like: Environments) -> None:
        self.observation_space, self.action_space = like.observation_space, like.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        return np.zeros(self.observation_space.shape or (), np.float32), {}


def trainer(env_id: str, task: Task) -> Any:
    """Return rlox's PPO."""
    return PPO(
        env_id, n_envs=task.environments, seed=1, n_steps=task.rollout_length, n_epochs=task.epochs,
        batch_size=task.minibatch_size, learning_rate=task.learning_rate, clip_eps=CLIP_RANGE,
        ent_coef=task.entropy_coefficient, max_grad_norm=MAX_GRADIENT_NORM, gamma=DISCOUNT,
        gae_lambda=GAE_COEFFICIENT, anneal_lr=False,
    )  # fmt: skip


def looped(ppo: Any, task: Task) -> Callable[[], int]:
    """Return what runs one iteration and tells its steps."""

    def iterate() -> int:
        ppo.train(task.batch_size)
        return task.batch_size

    return iterate


def make_rust(task: Task) -> Callable[[], int]:
    """Return an iteration on rlox's own environment."""
    return looped(trainer(task.env_id, task), task)


def make(task: Task) -> Callable[[], int]:
    """Return an iteration on EnvPool's environments."""
    envs = Environments(task)
    gymnasium.register("Spaces-v0", entry_point=lambda: Spaces(envs), disable_env_checker=True)  # type: ignore[arg-type]
    ppo = trainer("Spaces-v0", task)
    normalized = VecNormalize(envs, gamma=DISCOUNT, obs_dim=envs.pool.shape[0]) if task.normalize else envs
    ppo.collector = RolloutCollector(
        "Spaces-v0", task.environments, 1, gamma=DISCOUNT, gae_lambda=GAE_COEFFICIENT, env=normalized
    )
    return looped(ppo, task)
