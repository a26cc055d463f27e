"""ADEPT in TorchRL: `attach(trainer)` evaluates every PPO update, `attach(trainer, "hindsight")` also chooses the next.

How an epoch's end is seen: by the trainer's `post_epoch` hook. Where a rule's guard ends an update, the epochs
that are left get no minibatches.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, nullcontext
from functools import cache
from typing import Any

import numpy as np

from adept.engine import PREFIX, Engine
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import Rows, explained_variance
from adept.hindsight.weights import ModuleWeights
from adept.integrations import contract

contract.require_framework("torchrl", package="torchrl", at_least="0.14", below="0.15", extra="torchrl")

import torch  # noqa: E402
from torchrl.checkpoint import Checkpoint  # noqa: E402
from torchrl.objectives import PPOLoss  # noqa: E402
from torchrl.trainers import LRSchedulerHook, Trainer  # noqa: E402


def attach(trainer: Trainer, scheduler: Any = None, *, verbose: int = 1, **options: Any) -> Trainer:
    """Evaluate the updates of this trainer on the next rollout, and set them if asked to; return the trainer.

    docs/integrations.md lists what `scheduler` and `options` may be.

    `trainer.adept.advice()` returns the advice; `trainer.train` prints it at its end unless `verbose=0`. Advantages
    come from one extra pass of the trainer's value estimator before the epochs. The reward of bandits is the mean
    value target of the valid steps. The state is the trainer's module `adept`; the trainer's logger gets `adept/…`.

    A learning rate that steps with the optimiser (`LRSchedulerHook(interval="optim")`) makes, after each batch, the
    steps that the trainer's own `num_epochs` would have made.

    Call it once, after the other hooks are registered and before loading a checkpoint. If a rule's guard ends an
    update, the remaining `pre_epoch` hooks still run. `target_net_updater` depends on K.
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
    if trainer.optimizer is None:
        raise ValueError(
            "this trainer has no optimizer of its own, whose steps could be counted and scaled; one is needed: build "
            "Trainer(optimizer=…) instead of registering an OptimizerHook or a stepper with its own"
        )
    contract.refuse_second(trainer, "trainer")
    trainer.adept = _Attached(trainer, Engine(scheduler, host="torchrl", **options), verbose)
    return trainer


def _critic_parameters(loss: PPOLoss) -> list[Any]:
    """Return the parameters that only the critic of a loss has."""
    if loss.critic_network is None:
        return []
    if loss.critic_network_params is None:
        return contract.own_parameters(loss.critic_network, loss.actor_network)
    return contract.own_parameters(loss.critic_network_params, loss.actor_network_params)


class _Attached(contract.Adapter):
    """Stand before the trainer's optimisation of a batch, among its modules and behind its hooks."""

    def __init__(self, trainer: Trainer, engine: Engine, verbose: int) -> None:
        self._trainer, own = trainer, _critic_parameters(trainer.loss_module)
        self._epochs_done, self._stopped = 0, False
        self._numbers: dict[str, float] = {}
        self._lr_scale = contract.LRScale(trainer.optimizer, critic_params=own)
        super().__init__(engine, verbose, ModuleWeights(trainer.loss_module), own)
        engine.attach(trainer.num_epochs, self._weights, contract.learning_rate(trainer.optimizer))
        trainer.register_module(PREFIX, self)
        trainer.register_op("post_epoch", self._count)
        trainer.register_op("post_steps_log", lambda batch: self._numbers)
        trainer.optim_steps, trainer.train = self.optim_steps, self.train
        trainer.load_state_dict, trainer.load_from_file = self.load_trainer_state, self.load_from_file

    def train(self) -> None:
        """Train as usual, and print the advice at the end."""
        type(self._trainer).train(self._trainer)
        self.print_advice()

    def optim_steps(self, batch: Any) -> None:
        """Optimise as usual, except for the choice, and keep the number of epochs out of the learning rate."""
        trainer, configured = self._trainer, self._trainer.num_epochs
        estimated = cache(lambda: self._estimated(batch))
        target = self._estimator.tensor_keys.value_target
        settings = self.begin(
            lambda: self._rows(estimated()),
            lambda: float(estimated().get(target).double().mean()),
            learning_rate=contract.learning_rate(trainer.optimizer),
        )
        self._epochs_done, self._stopped = 0, False
        schedules = [
            hook.scheduler
            for hook in trainer._modules.values()
            if self.engine.controls and isinstance(hook, LRSchedulerHook) and hook.interval == "optim"
        ]
        with ExitStack() as stack:
            if self.engine.controls:
                own = {"num_epochs": settings.epochs, "_process_optim_batch_hook": self._minibatch}
                stack.enter_context(contract.replaced(trainer, **own))
                stack.enter_context(contract.replaced(self._lr_scale, settings=settings))
            held = [stack.enter_context(contract.held_steps(schedule)) for schedule in schedules]
            type(trainer).optim_steps(trainer, batch)
        for schedule, asked in zip(schedules, held, strict=True):
            for _ in range(round(len(asked) * configured / self._epochs_done)):
                schedule.step()
        self._numbers = self.finish(self._epochs_done)

    def _minibatch(self, batch: Any) -> Any:
        """Sample as usual, unless the guard ended the update: then there are no more minibatches."""
        return None if self._stopped else type(self._trainer)._process_optim_batch_hook(self._trainer, batch)

    def _count(self) -> None:
        if not self._stopped:
            self._epochs_done += 1
            self._stopped = self.epoch_ended(self._epochs_done)

    @property
    def _estimator(self) -> Any:
        return self._trainer._modules["value_estimator"].value_estimator

    def _estimated(self, batch: Any) -> Any:
        """Return the valid steps of the batch with advantages and targets, environment by environment, in order."""
        # The generators stay as they are, and so do the critic's buffers, which TorchRL keeps outside of its modules.
        buffers = [(each, each.clone()) for each in self._trainer.loss_module.buffers()]
        with self._weights.current():
            estimated = self._estimator(batch.clone(recurse=False))
            for each, value in buffers:
                each.copy_(value)
        mask = batch.get(("collector", "mask"), None)
        return estimated.reshape(-1) if mask is None else estimated[mask]

    def _rows(self, estimated: Any) -> Rows:
        loss, keys = self._trainer.loss_module, self._estimator.tensor_keys
        chosen = self.engine.choose_rows(len(estimated))
        part = estimated[torch.as_tensor(chosen)]

        def log_probs() -> Any:
            return loss._get_cur_log_prob(part)[0]

        advantages, now, returns = (part.get(key).flatten() for key in (keys.advantage, keys.value, keys.value_target))
        # Several agents have a row each, of the same step.
        groups = np.repeat(time_groups(len(estimated), 1)[chosen], len(advantages) // len(chosen))
        stored = part.get(loss.tensor_keys.sample_log_prob, None)
        if not isinstance(stored, torch.Tensor):  # of several parts of an action, or none
            stored = self.present(log_probs)
        explained = explained_variance(estimated.get(keys.value), estimated.get(keys.value_target))
        one_each = len(now) == len(advantages)  # not where a value serves several rows
        critic = self.critic_rows(lambda: self._critic_values(part), returns, now) if one_each else None
        return Rows(log_probs, advantages, groups, stored.flatten(), explained, critic)

    def _critic_values(self, part: Any) -> Any:
        loss = self._trainer.loss_module
        critic, params = loss.critic_network, loss.critic_network_params
        functional = nullcontext() if params is None else params.to_module(critic, preserve_module_state=False)
        with functional:
            return critic(part.select(*critic.in_keys)).get(loss.tensor_keys.value).flatten()

    def state_dict(self) -> dict[str, Any]:
        """Return the state as text, which each of TorchRL's checkpoint formats keeps whole."""
        return {"scheduler": json.dumps(self.engine.state_dict())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what the trainer's checkpoint holds."""
        state = json.loads(state_dict.get("scheduler", "{}"))
        self.engine.load_state_dict(state, forget="drop 'adept' from the checkpoint")

    def load_trainer_state(self, state_dict: dict[str, Any]) -> None:
        """Load the trainer as usual; a state made without ADEPT leaves the rule as it is."""
        type(self._trainer).load_state_dict(self._trainer, {PREFIX: {}, **state_dict})

    def load_from_file(self, file: Any, **kwargs: Any) -> Trainer:
        """Load the trainer as usual; a file made without ADEPT leaves the rule as it is."""
        trainer, entry = self._trainer, f"trainer_module.{PREFIX}"
        without = Checkpoint.is_checkpoint(file) and entry not in Checkpoint.manifest(file)["components"]
        if without:  # TorchRL refuses a file that lacks any of the trainer's modules
            self.load_state_dict({})
            del trainer._modules[PREFIX]
            if trainer.checkpoint is not None:
                trainer.checkpoint._components.pop(entry, None)
        try:
            loaded: Trainer = type(trainer).load_from_file(trainer, file, **kwargs)
        finally:
            if without:
                trainer.register_module(PREFIX, self)
        return loaded
