"""ADEPT in TRL: `schedule_epochs(trainer, scheduler)` chooses how often GRPO or RLOO reuses each generation batch.

What counts as a step: TRL plans `num_iterations` passes over every generation batch, and counts the optimiser steps of
that plan in `global_step`, `max_steps`, the learning-rate schedule, and the intervals of logging, saving and
evaluation. The plan stays as it is, with `num_iterations` equal to the largest arm. A choice of K does the first K
passes of it; the other steps of the plan pass without a forward pass, a gradient or a change of the weights. So a run
has the same generations, the same learning rate at each of them, and the same checkpoints, whatever the choices.
"""

from __future__ import annotations

from typing import Any

from adept.integrations import contract
from adept.schedulers import Scheduler

contract.require_framework("trl", package="trl", at_least="1.16", below="1.17", extra="trl")

import torch  # noqa: E402
from transformers import TrainerCallback  # noqa: E402
from trl import GRPOTrainer, RLOOTrainer  # noqa: E402


def schedule_epochs(trainer: Any, scheduler: Scheduler[int]) -> Any:
    """Let a scheduler choose the passes over each generation batch of this trainer; return the trainer.

    `num_iterations` of the trainer's configuration must be the largest arm. The reward is the mean, over the
    generation and all processes, of the weighted reward functions, without completions that none of them scored.
    The state is in the `trainer_state.json` of each checkpoint, and the trainer's logs get `adept/…`.

    Of skipped steps the logs tell the mean loss of the passes done, and a gradient norm of 0.

    Call it once, before `trainer.train`.
    """
    if not isinstance(trainer, GRPOTrainer | RLOOTrainer):
        raise ValueError(
            f"got {type(trainer).__name__}, which does not reuse generations; GRPOTrainer and RLOOTrainer of trl do: "
            "build one of these"
        )
    if contract.PREFIX in vars(trainer):
        raise ValueError("this trainer has a scheduler already, one is allowed; build a new trainer")
    _check_plan(trainer, contract.epoch_scheduler(scheduler))
    trainer.adept = _EpochScheduler(trainer, scheduler)
    trainer.training_step = trainer.adept.training_step
    trainer._calculate_rewards = trainer.adept.calculate_rewards
    trainer.add_callback(trainer.adept)
    return trainer


def _check_plan(trainer: Any, scheduler: Scheduler[int]) -> None:
    args = trainer.args
    if trainer.num_iterations != max(scheduler.arms):
        raise ValueError(
            f"num_iterations is {trainer.num_iterations}, the arms are {scheduler.arms!r}; the plan must hold the "
            f"largest choice: set num_iterations={max(scheduler.arms)} in the trainer's configuration"
        )
    if args.steps_per_generation % args.gradient_accumulation_steps:
        raise ValueError(
            f"steps_per_generation is {args.steps_per_generation}, gradient_accumulation_steps is "
            f"{args.gradient_accumulation_steps}; a pass must end with an optimiser step: make the first a multiple "
            "of the second"
        )
    if args.fp16 or trainer.is_deepspeed_enabled:
        raise ValueError(
            "fp16 or DeepSpeed is on, which cannot pass a step without gradients; bf16 and full precision without "
            "DeepSpeed can: set bf16=True"
        )


class _EpochScheduler(TrainerCallback):
    """Choose when a generation is scored, let the first K passes through, and carry the state."""

    def __init__(self, trainer: Any, scheduler: Scheduler[int]) -> None:
        self.trainer = trainer
        self.scheduler = scheduler
        self._epochs = max(scheduler.arms)
        self._reward: float | None = None
        self._losses: list[Any] = []

    @property
    def _position(self) -> int:
        """The step within the plan for one generation batch."""
        return int(self.trainer._step % (self.trainer.num_iterations * self.trainer.args.steps_per_generation))

    def calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        """Score completions as ever; where a generation batch begins, choose what to do with it."""
        trainer = self.trainer
        rewards = type(trainer)._calculate_rewards(trainer, *args, **kwargs)
        if trainer.model.training and self._position == 0:
            weighted = (rewards * trainer.reward_weights.to(rewards.device)).nansum(dim=1)
            scored = weighted[~torch.isnan(rewards).all(dim=1)]
            self._reward = float(scored.double().mean()) if len(scored) else None
            self._epochs = self.scheduler.step(self._reward)
            self._keep_state()
        return rewards

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Train as ever in the first K passes; afterwards let the steps of the plan go by."""
        trainer, steps = self.trainer, self.trainer.args.steps_per_generation
        if self._position == 0:
            self._losses = []
        elif self._position >= self._epochs * steps:
            trainer._step += 1
            done = self._losses or [torch.zeros((), device=trainer.accelerator.device)]
            return torch.stack(done).mean()
        loss = type(trainer).training_step(trainer, model, inputs, num_items_in_batch)
        self._losses.append(loss.detach())
        if len(self._losses) == self._epochs * steps:
            numbers = contract.metrics(
                self.scheduler, epochs=self._epochs, epochs_done=len(self._losses) / steps, reward=self._reward
            )
            for name, value in numbers.items():
                trainer._metrics["train"][name].append(value)
        return loss

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Continue from the checkpoint, if there was one, at its place in the plan."""
        saved = state.stateful_callbacks.get(contract.PREFIX)
        if saved is not None:
            forget = f"drop {contract.PREFIX!r} from stateful_callbacks in trainer_state.json"
            contract.restore(self.scheduler, saved["scheduler"], forget=forget)
            self._epochs = saved["epochs"]
        # TRL counts its steps from 0 after a resume, while the data go on in the middle of a generation batch.
        if state.global_step and not args.ignore_data_skip:
            self.trainer._step = state.global_step * args.gradient_accumulation_steps
        self._losses = []

    def _keep_state(self) -> None:
        saved = {"scheduler": self.scheduler.state_dict(), "epochs": self._epochs}
        self.trainer.state.stateful_callbacks[contract.PREFIX] = saved
