"""Our trainer: K fixed, updates monitored as by default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from adept.config import Config, Execution
from adept.presets import preset
from adept.training import Trainer
from benchmarks.rivals.tasks import CLIP_RANGE, DISCOUNT, GAE_COEFFICIENT, MAX_GRADIENT_NORM, Task


def configure(task: Task) -> Config:
    """Return the configuration of a task."""
    return replace(
        preset(task.ours, scheduler="fixed"),
        epochs=task.epochs, environments=task.environments, rollout_length=task.rollout_length,
        minibatch_size=task.minibatch_size, learning_rate=task.learning_rate, discount=DISCOUNT,
        gae_coefficient=GAE_COEFFICIENT, clip_range=CLIP_RANGE, clip_value_loss=True, value_coefficient=0.5,
        entropy_coefficient=task.entropy_coefficient, max_gradient_norm=MAX_GRADIENT_NORM,
        normalize_observations=task.normalize, normalize_rewards=task.normalize,
        network="minigrid" if task.convolutions else "mlp", steps=10_000 * task.batch_size,
    )  # fmt: skip


def make(task: Task) -> Callable[[], int]:
    """Return what runs one iteration and tells its steps."""
    records = iter(Trainer(configure(task), Execution(device="cpu")))

    def iterate() -> int:
        next(records)
        return task.batch_size

    return iterate
