"""ADEPT in Tianshou: `schedule_epochs(algorithm, scheduler)` chooses the repetitions of every PPO update."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from adept.integrations import contract
from adept.schedulers import Scheduler

contract.require_framework("tianshou", package="tianshou", at_least="2.0", below="2.1", extra="tianshou")

import torch  # noqa: E402
from tianshou.algorithm import PPO  # noqa: E402
from tianshou.algorithm.modelfree.a2c import A2CTrainingStats  # noqa: E402


def schedule_epochs(algorithm: PPO, scheduler: Scheduler[int]) -> PPO:
    """Let a scheduler choose how often each update of this PPO repeats over its batch; return the algorithm.

    `update_step_num_repetitions` of the trainer is then without effect. The reward is the mean of `batch.returns`,
    with `return_scaling` undone. The state is part of `algorithm.state_dict()`, and the trainer's logger gets
    `update/adept/…`. Call it once, before loading a checkpoint.
    """
    if not isinstance(algorithm, PPO):
        raise ValueError(
            f"got {type(algorithm).__name__}, whose updates are not made to be repeated; only PPO's are: build a "
            "tianshou.algorithm.PPO (inside a wrapper algorithm, schedule the wrapped one)"
        )
    if hasattr(algorithm, "adept"):
        raise ValueError("this algorithm has a scheduler already, one is allowed; build a new algorithm")
    algorithm.adept = _EpochScheduler(algorithm, contract.epoch_scheduler(scheduler))
    algorithm._preprocess_batch = algorithm.adept.preprocess_batch
    algorithm._update_with_batch = algorithm.adept.update_with_batch
    return algorithm


@dataclass(kw_only=True)
class AdeptTrainingStats(A2CTrainingStats):
    """The statistics of PPO with the numbers of the scheduler, which Tianshou's loggers write as `adept/…`."""

    _non_loss_fields = (*A2CTrainingStats._non_loss_fields, contract.PREFIX)

    adept: dict[str, float] = field(default_factory=dict)


class _EpochScheduler(torch.nn.Module):
    """Stand between PPO and its two steps of an update; a submodule, so that its state is saved with PPO's."""

    def __init__(self, algorithm: PPO, scheduler: Scheduler[int]) -> None:
        super().__init__()
        self.scheduler = scheduler
        self._owner = (algorithm,)  # in a tuple, or PPO would become a submodule of its own submodule
        self._reward: float | None = None

    def preprocess_batch(self, batch: Any, buffer: Any, indices: Any) -> Any:
        """Compute returns as PPO does, and note their mean in the environment's units."""
        (algorithm,) = self._owner
        # Returns are divided by the scale of the batches before this one; computing them changes the scale.
        scale = math.sqrt(float(algorithm.ret_rms.var) + algorithm._eps) if algorithm.return_scaling else 1.0
        batch = type(algorithm)._preprocess_batch(algorithm, batch, buffer, indices)
        self._reward = float(batch.returns.double().mean()) * scale
        return batch

    def update_with_batch(self, batch: Any, batch_size: int | None, repeat: int) -> AdeptTrainingStats:
        """Update as PPO does, with the scheduler's choice for the number of repetitions."""
        (algorithm,) = self._owner
        epochs = self.scheduler.step(self._reward)
        stats = type(algorithm)._update_with_batch(algorithm, batch, batch_size=batch_size, repeat=epochs)
        minibatches = max(1, len(batch) // (batch_size or len(batch)))
        numbers = contract.metrics(
            self.scheduler, epochs=epochs, epochs_done=stats.gradient_steps / minibatches, reward=self._reward
        )
        shortened = {name.removeprefix(f"{contract.PREFIX}/"): value for name, value in numbers.items()}
        return AdeptTrainingStats(**{each.name: getattr(stats, each.name) for each in fields(stats)}, adept=shortened)

    def get_extra_state(self) -> dict[str, Any]:
        """Return what `algorithm.state_dict()` keeps of the scheduler."""
        return self.scheduler.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from what `algorithm.load_state_dict()` found."""
        contract.restore(self.scheduler, state, forget="drop 'adept._extra_state' from the checkpoint")
