"""What every side is given: the environments, how long a rollout is, how often it is used, and the network."""

from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    """One comparison; the sizes are the same for all sides."""

    name: str
    env_id: str
    """EnvPool's id"""
    ours: str
    """the same by our name"""
    environments: int
    rollout_length: int
    minibatch_size: int
    epochs: int
    learning_rate: float
    entropy_coefficient: float
    normalize: bool
    """whether observations and rewards are normalised by running moments"""
    sides: tuple[str, ...]
    convolutions: bool = False
    """whether the network has MiniGrid's three convolutions before two towers of 64; else two towers of 64 and 64"""
    twin: str | None = None
    """the task in JAX, by rejax's name"""

    @property
    def batch_size(self) -> int:
        """Steps of one rollout."""
        return self.environments * self.rollout_length

    @property
    def minibatches(self) -> int:
        """Gradient steps of one epoch."""
        return self.batch_size // self.minibatch_size


DISCOUNT, GAE_COEFFICIENT, CLIP_RANGE, MAX_GRADIENT_NORM = 0.99, 0.95, 0.2, 0.5

TASKS = {
    task.name: task
    for task in (
        Task(
            "cartpole", "CartPole-v1", "envpool/CartPole-v1", 8, 128, 256, 4, 2.5e-4, 0.01, False,
            ("cleanrl", "sb3", "sbx", "rlox", "rlox-rust", "sample_factory", "rejax"), twin="CartPole-v1",
        ),
        Task(
            "doorkey", "MiniGrid-DoorKey-6x6-v0", "minigrid/DoorKey-6x6", 16, 128, 256, 4, 1e-3, 0.01, False,
            ("cleanrl", "sb3", "sbx", "rlox", "sample_factory", "rejax"), twin="navix/Navix-DoorKey-6x6-v0",
        ),
        Task(
            "doorkey-cnn", "MiniGrid-DoorKey-6x6-v0", "minigrid/DoorKey-6x6", 16, 128, 256, 4, 1e-3, 0.01, False,
            ("cleanrl",), convolutions=True,
        ),
        Task(
            "halfcheetah", "HalfCheetah-v4", "envpool/HalfCheetah-v4", 1, 2048, 64, 10, 3e-4, 0.0, True,
            ("cleanrl", "sb3", "sbx", "rlox", "sample_factory"),
        ),
    )
}  # fmt: skip
