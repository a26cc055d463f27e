"""ADEPT in TorchRL: `schedule_epochs(trainer, scheduler)` chooses the epochs of every batch of a PPO trainer."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

from adept.integrations import contract
from adept.schedulers import Scheduler

contract.require_framework("torchrl", package="torchrl", at_least="0.14", below="0.15", extra="torchrl")

import torch  # noqa: E402
from torchrl.objectives import PPOLoss  # noqa: E402
from torchrl.trainers import LRSchedulerHook, Trainer, TrainerHookBase  # noqa: E402


def schedule_epochs(trainer: Trainer, scheduler: Scheduler[int]) -> Trainer:
    """Let a scheduler choose the epochs of each batch of this trainer; return the trainer.

    The reward is the mean value target of the valid steps, from a pass of the trainer's own value estimator before
    the epochs begin (TorchRL computes it again in each of them). The state is the trainer's module `adept`, and the
    trainer's logger gets `adept/…`.

    A learning rate that steps with the optimiser (`LRSchedulerHook(interval="optim")`) makes, after each batch, the
    steps that the trainer's own `num_epochs` would have made, whatever the choice.

    Call it once, after the other hooks are registered and before loading a checkpoint.
    """
    if not isinstance(trainer, Trainer) or not isinstance(trainer.loss_module, PPOLoss):
        raise ValueError(
            f"got {type(trainer).__name__} with {type(getattr(trainer, 'loss_module', None)).__name__}, whose batches "
            "are not made for several epochs; a trainer with a PPOLoss is needed: build a PPOTrainer"
        )
    if trainer.async_collection or trainer.learner_backend == "ray" or "value_estimator" not in trainer._modules:
        raise ValueError(
            "this trainer has no whole batch whose returns it estimates (asynchronous collection, a Ray learner, or "
            "no ValueEstimatorHook); one process that collects and learns in turn is needed: build PPOTrainer so"
        )
    if contract.PREFIX in trainer._modules:
        raise ValueError("this trainer has a scheduler already, one is allowed; build a new trainer")
    EpochSchedulerHook(contract.epoch_scheduler(scheduler)).register(trainer)
    return trainer


class EpochSchedulerHook(TrainerHookBase):
    """The hook behind `schedule_epochs`."""

    def __init__(self, scheduler: Scheduler[int]) -> None:
        self.scheduler = scheduler
        self._epochs_done = 0
        self._numbers: dict[str, float] = {}

    def register(self, trainer: Trainer, name: str = contract.PREFIX) -> None:
        """Join the trainer's modules and hooks, and stand before its optimisation of a batch."""
        trainer.register_module(name, self)
        trainer.register_op("post_epoch", self._count)
        trainer.register_op("post_steps_log", self._log)
        self._trainer = trainer
        self._configured = trainer.num_epochs
        trainer.optim_steps = self.optim_steps

    def optim_steps(self, batch: Any) -> None:
        """Optimise as ever, except for the number of epochs, and keep it out of the learning rate."""
        trainer = self._trainer
        reward = self.mean_return(batch)
        epochs = trainer.num_epochs = self.scheduler.step(reward)
        self._epochs_done = 0
        schedules = [
            hook.scheduler
            for hook in trainer._modules.values()
            if isinstance(hook, LRSchedulerHook) and hook.interval == "optim"
        ]
        try:
            with ExitStack() as stack:
                held = [stack.enter_context(contract.held_steps(schedule)) for schedule in schedules]
                type(trainer).optim_steps(trainer, batch)
        finally:
            trainer.num_epochs = self._configured
        for schedule, asked in zip(schedules, held, strict=True):
            for _ in range(round(len(asked) * self._configured / epochs)):
                schedule.step()
        self._numbers = contract.metrics(self.scheduler, epochs=epochs, epochs_done=self._epochs_done, reward=reward)

    def mean_return(self, batch: Any) -> float:
        """Return the mean value target over the steps that the collector's mask, if any, calls valid."""
        estimator = self._trainer._modules["value_estimator"].value_estimator
        with torch.no_grad():
            targets = estimator(batch.clone(recurse=False)).get(estimator.tensor_keys.value_target)
        mask = batch.get(("collector", "mask"), None)
        return float((targets if mask is None else targets[mask]).double().mean())

    def state_dict(self) -> dict[str, Any]:
        """Return the state as text, which each of TorchRL's checkpoint formats keeps whole."""
        return {"scheduler": json.dumps(self.scheduler.state_dict())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what the trainer's checkpoint holds."""
        state = json.loads(state_dict["scheduler"])
        contract.restore(self.scheduler, state, forget="drop 'adept' from the checkpoint")

    def _count(self) -> None:
        self._epochs_done += 1

    def _log(self, batch: Any) -> dict[str, float]:
        return self._numbers
