"""ADEPT in TRL: `attach(trainer)` evaluates every update of GRPO or RLOO, `attach(trainer, "hindsight")` also chooses.

What counts as a step: TRL plans `num_iterations` passes over every generation batch, and counts the optimiser steps of
that plan in `global_step`, `max_steps`, the learning-rate schedule, and the intervals of logging, saving and
evaluation. The plan stays as it is. A choice of K does the first K passes of it; the other steps of the plan pass
without a forward pass, a gradient or a change of the weights. So a run has the same generations, the same scheduled
learning rate at each of them, and the same checkpoints, whatever the choices.

How an update is evaluated: a row is a completion, its log-probability that of all its tokens, its advantage the
trainer's. Completions of one prompt depend on each other and make a group, unless there is but one prompt. KL is that
of whole completions, too: for long ones raise the distance and the limit, for example
`{"name": "hindsight", "distance": 0.2, "kl_stop": 2}`. Completions with images are not evaluated. How a pass's end is
seen: the next step of the plan begins, whose place in it is known.

Resuming inside a generation batch goes on at its place in the plan; as without ADEPT its completions are made again,
and no choice is credited with them. Refused: FSDP and DeepSpeed ZeRO-3, control with fp16 or any DeepSpeed, rules in
several processes, and a `steps_per_generation` that is no multiple of `gradient_accumulation_steps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adept.engine import PREFIX, Engine
from adept.hindsight.evaluation import Rows, as_numpy
from adept.hindsight.weights import ModuleWeights
from adept.integrations import contract
from adept.rules import BanditRule, Settings

contract.require_framework("trl", package="trl", at_least="1.16", below="1.17", extra="trl")

import torch  # noqa: E402
from transformers import TrainerCallback  # noqa: E402
from trl import GRPOTrainer, RLOOTrainer  # noqa: E402

COMPLETIONS = 64
"""Completions of a generation that are evaluated at most, unless told otherwise."""


def attach(trainer: Any, scheduler: Any = None, *, verbose: int = 1, rows: int = COMPLETIONS, **options: Any) -> Any:
    """Evaluate the updates of this trainer on the next generation, and set them if asked to; return the trainer.

    docs/integrations.md lists what `scheduler` and `options` may be.

    `trainer.adept.advice()` returns the advice; it is printed at the end of training unless `verbose=0`. At most
    `rows` completions of a generation are used. Copies of the trainable parameters are kept on the host: one at all
    times, and one for each pass of the updates that are evaluated pass by pass (`gains_every`).

    `num_iterations` must be a bandit's largest arm; a rule chooses up to it. The reward of bandits is the mean
    of the weighted reward functions over the generation and all processes, without unscored completions. The state is
    in the `trainer_state.json` of each checkpoint; the logs get `adept/…`, and for skipped steps the mean loss of the
    passes done and a gradient norm of 0.

    Call it once, before `trainer.train`.
    """
    if not isinstance(trainer, GRPOTrainer | RLOOTrainer):
        raise ValueError(
            f"got {type(trainer).__name__}, which does not reuse generations; GRPOTrainer and RLOOTrainer of trl do: "
            "build one of these"
        )
    contract.refuse_second(trainer, "trainer")
    engine = Engine(scheduler, rows=rows, host="trl", **options)
    _check_parameters(trainer)
    weights = ModuleWeights(trainer.accelerator.unwrap_model(trainer.model), host_copy=True)
    engine.attach(trainer.num_iterations, weights, trainer.args.learning_rate)
    if engine.controls:
        _check_plan(trainer, engine)
    trainer.adept = _Attached(trainer, engine, weights, verbose)
    trainer.training_step = trainer.adept.training_step
    trainer._calculate_rewards = trainer.adept.calculate_rewards
    trainer._generate_and_score_completions = trainer.adept.generate_and_score_completions
    trainer.add_callback(trainer.adept)
    return trainer


def _check_parameters(trainer: Any) -> None:
    """Refuse parameters that no process holds whole: a copy of them could be neither taken nor put in place."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None) if trainer.is_deepspeed_enabled else None
    if plugin is not None and plugin.zero_stage == 3:
        how = "DeepSpeed ZeRO-3"
    elif trainer.is_fsdp_enabled or getattr(trainer, "is_fsdp_xla_enabled", False):
        how = "FSDP"
    else:
        return
    raise ValueError(
        f"{how} shards the parameters, so that updates cannot be evaluated: no process holds them whole; one process, "
        "DDP and DeepSpeed ZeRO-1 and 2 (for advice alone) are supported: use one of these, or leave attach out"
    )


def _check_plan(trainer: Any, engine: Engine) -> None:
    args = trainer.args
    if isinstance(engine.rule, BanditRule) and trainer.num_iterations != engine.rule.epochs:
        raise ValueError(
            f"num_iterations is {trainer.num_iterations}, the arms are {engine.rule.scheduler.arms!r}; the plan must "
            f"hold the largest choice: set num_iterations={engine.rule.epochs} in the trainer's configuration"
        )
    if not isinstance(engine.rule, BanditRule) and trainer.accelerator.num_processes > 1:
        raise ValueError(
            f"{engine.rule!r} would choose for each of {trainer.accelerator.num_processes} processes by itself; "
            "rules other than bandits work in one process: start one, or attach without a scheduler for advice"
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


class _Attached(contract.Adapter, TrainerCallback):
    """Evaluate and choose when a generation is scored, let the first K passes through, and carry the state."""

    def __init__(self, trainer: Any, engine: Engine, weights: ModuleWeights, verbose: int) -> None:
        super().__init__(engine, verbose, weights)
        self.trainer, self._epochs = trainer, trainer.num_iterations
        self._reward: float | None = None
        self._losses: list[Any] = []
        self._lr_scale: contract.LRScale | None = None

    @property
    def _position(self) -> int:
        """The step within the plan for one generation batch."""
        return int(self.trainer._step % (self.trainer.num_iterations * self.trainer.args.steps_per_generation))

    def calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        """Score completions as usual, and note their mean."""
        trainer = self.trainer
        rewards = type(trainer)._calculate_rewards(trainer, *args, **kwargs)
        weighted = (rewards * trainer.reward_weights.to(rewards.device)).nansum(dim=1)
        scored = weighted[~torch.isnan(rewards).all(dim=1)]
        self._reward = float(scored.double().mean()) if len(scored) else None
        return rewards

    def generate_and_score_completions(self, inputs: Any) -> Any:
        """Generate and score as usual; where a generation batch begins, evaluate the last update and set the next."""
        trainer = self.trainer
        generated = type(trainer)._generate_and_score_completions(trainer, inputs)
        if trainer.model.training and self._position == 0:
            settings = self.begin(
                lambda: None if "pixel_values" in generated else self._rows(generated),
                lambda: self._reward,
                learning_rate=trainer.lr_scheduler.get_last_lr()[0],
                score=self._reward,
            )
            if self.engine.controls:
                self._epochs = min(settings.epochs, trainer.num_iterations)
                if self._lr_scale is not None:
                    self._lr_scale.settings = settings
                self._keep_state()
        return generated

    def _rows(self, generated: Any) -> Rows:
        trainer = self.trainer
        chosen = torch.as_tensor(self.engine.choose_rows(len(generated["advantages"])))
        names = ("prompt_ids", "completion_ids", "prompt_mask", "completion_mask", "advantages")
        prompts, completions, prompt_mask, mask, advantages = (generated[name][chosen] for name in names)
        counted = mask * generated["tool_mask"][chosen] if "tool_mask" in generated else mask
        ids, attention = torch.cat([prompts, completions], dim=1), torch.cat([prompt_mask, mask], dim=1)

        def passes() -> Any:
            trainer.model.eval()  # without dropout; the evaluation restores the mode
            log_probs = trainer._get_per_token_logps_and_entropies(
                trainer.model, ids, attention, completions.size(1), batch_size=trainer.args.per_device_train_batch_size
            )[0]
            return (log_probs.double() * counted).sum(dim=1)

        _, prompted = torch.unique(prompts * prompt_mask, dim=0, return_inverse=True)
        groups = prompted.cpu().numpy()
        if not groups.any():  # of one prompt alone completions are independent
            groups = np.arange(len(groups))
        guards = self.engine.rule.kl_stop is not None
        return Rows(passes, advantages.flatten(), groups, as_numpy(self.present(passes)) if guards else None)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Train as usual in the first K passes; afterwards let the steps of the plan go by."""
        trainer, steps, position = self.trainer, self.trainer.args.steps_per_generation, self._position
        done, rest = divmod(position, steps)
        if position == 0:
            self._losses = []
        elif rest == 0 and done <= self._epochs and self.epoch_ended(done):  # the rest of those chosen goes by
            self._epochs = done
            self._keep_state()
            self._finish()
        if done >= self._epochs:
            trainer._step += 1
            return torch.stack(self._losses or [torch.zeros((), device=trainer.accelerator.device)]).mean()
        loss = type(trainer).training_step(trainer, model, inputs, num_items_in_batch)
        self._losses.append(loss.detach())
        if len(self._losses) == self._epochs * steps:
            self._finish()
        return loss

    def _finish(self) -> None:
        for name, value in self.finish(len(self._losses) / self.trainer.args.steps_per_generation).items():
            self.trainer._metrics["train"][name].append(value)

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        """Continue from the checkpoint, if there was one, at its place in the plan."""
        controls = self.engine.controls
        saved = (state.stateful_callbacks.get(PREFIX) if controls else None) or {}
        if saved or state.global_step or args.load_best_model_at_end:
            # Parameters were loaded, if only at the end of the last training, so that its last update is not evaluated.
            forget = f"drop {PREFIX!r} from stateful_callbacks in trainer_state.json"
            self.engine.load_state_dict(saved.get("scheduler", {}), forget=forget)
        self._epochs = saved.get("epochs", self._epochs)
        if self._lr_scale is not None:
            self._lr_scale.remove()  # of a training that broke off
        if optimizer is not None and controls:
            self._lr_scale = contract.LRScale(getattr(optimizer, "optimizer", optimizer))
            self._lr_scale.settings = Settings(self._epochs, saved.get("lr_scale", 1.0))
        # TRL counts its steps from 0 after a resume, while the data go on in the middle of a generation batch.
        if state.global_step and not args.ignore_data_skip and controls:
            self.trainer._step = state.global_step * args.gradient_accumulation_steps
        self._losses = []

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the optimiser alone, and print the advice."""
        if self._lr_scale is not None:
            self._lr_scale.remove()
        if state.is_world_process_zero:
            self.print_advice()

    def _keep_state(self) -> None:
        lr_scale = self.engine.settings.lr_scale
        saved = {"scheduler": self.engine.state_dict(), "epochs": self._epochs, "lr_scale": lr_scale}
        self.trainer.state.stateful_callbacks[PREFIX] = saved
