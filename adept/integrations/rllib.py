"""ADEPT in RLlib: `attach(config)` judges every PPO update, `attach(config, "hindsight")` also chooses the next one.

Each learner judges its own rows and has its own copy of the scheduler or controller. Rewards and verdicts are pooled
over all learners before anyone chooses, and a choice follows from a seed and what was pooled alone, so that all
learners make the same choice and none waits for another. How an epoch's end is seen: by the rows of the minibatches
that the learner took from its iterator.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

from adept.controllers import Evidence
from adept.hindsight.advice import Advice
from adept.hindsight.estimates import time_groups
from adept.hindsight.judge import ModuleWeights
from adept.integrations import contract
from adept.integrations.pilot import Pilot, Rows, chosen_rows

contract.require_framework("ray.rllib", package="ray", at_least="2.60", below="2.61", extra="rllib")

import torch  # noqa: E402
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner  # noqa: E402
from ray.rllib.core.columns import Columns  # noqa: E402
from ray.rllib.evaluation.postprocessing import Postprocessing  # noqa: E402
from ray.rllib.utils.metrics import ALL_MODULES  # noqa: E402

SCHEDULER = "adept_scheduler"
"""The entry of `learner_config_dict` with what chooses, and the entry of a learner's state with its state."""


def attach(config: PPOConfig, scheduler: Any = None, **options: Any) -> PPOConfig:
    """Judge the updates of the algorithm that this config builds, and choose them if told to; return the config.

    Without a scheduler nothing about the training changes; with one, `num_epochs` is without effect beyond being a
    controller's starting point. `advice(algorithm)` says what the updates were worth. `options` are those of
    `adept.integrations.pilot.Pilot`.

    The reward of schedulers is the mean value target over the steps that count for the loss, of all modules that are
    trained and all learners. The state is part of every learner's, and so of the algorithm's checkpoints; results have
    `learners/__all_modules__/adept/…`.

    A learner class of your own is taken if it derives from `AdeptLearner`. Call it before `config.build_algo`.
    """
    if not isinstance(config, PPOConfig):
        raise ValueError(
            f"got {type(config).__name__}, whose updates have no epochs over one batch to choose; PPOConfig of "
            "ray.rllib.algorithms.ppo is needed: build one"
        )
    if not config.enable_rl_module_and_learner or config.framework_str != "torch":
        raise ValueError(
            f"this config is of the old API stack or of framework {config.framework_str!r}; the new one on torch is "
            "needed: leave out config.api_stack(...) and config.framework(...)"
        )
    chosen = config.learner_class
    if chosen is PPOTorchLearner:
        chosen = AdeptLearner
    if not issubclass(chosen, AdeptLearner):
        raise ValueError(
            f"the learner class is {chosen.__name__}, which does not take a scheduler; derive it from "
            "adept.integrations.rllib.AdeptLearner, a PPOTorchLearner that does"
        )
    Pilot(scheduler, **options)  # what is wrong with them is said here, not on the learners
    entries = {**config.learner_config_dict, SCHEDULER: {"given": scheduler, **options}}
    return config.learners(learner_class=chosen, learner_config_dict=entries)


def advice(algorithm: Any) -> Advice:
    """Return what the updates of an algorithm so far say of its epochs and learning rate, seen by its first learner."""
    found = algorithm.learner_group.foreach_learner(lambda learner: learner.pilot.advice())
    result = next(iter(found))
    first: Advice = result.get() if hasattr(result, "get") else result
    return first


class AdeptLearner(PPOTorchLearner):
    """The PPO learner, except that it judges its updates, and chooses once the returns of a batch are known."""

    def build(self) -> None:
        """Build as ever, with a pilot of this learner's own."""
        super().build()
        settings = copy.deepcopy(self.config.learner_config_dict[SCHEDULER])
        self.pilot = Pilot(settings.pop("given"), call='attach(config, "hindsight")', pool=self._pooled, **settings)
        self._judged_modules = torch.nn.ModuleList(
            module.unwrapped() for _, module in self.module.items() if isinstance(module.unwrapped(), torch.nn.Module)
        )
        self.pilot.attach(self.config.num_epochs, ModuleWeights(self._judged_modules))
        self._strides = [contract.Stride(optimizer) for optimizer in self._named_optimizers.values()]
        self._made: Any = None
        self._minibatches: Any = None

    def _make_batch_if_necessary(self, training_data: Any) -> Any:
        made, self._made = self._made, None
        return super()._make_batch_if_necessary(training_data) if made is None else made

    def _create_iterator_if_necessary(
        self, *, training_data: Any, num_total_minibatches: int = 0, num_epochs: int = 1, **kwargs: Any
    ) -> Any:
        """Iterate as ever, for as many epochs as are chosen."""
        batch = self._made = self._make_batch_if_necessary(training_data)
        pilot = self.pilot
        rows = self._rows(batch) if pilot.wants_rows or pilot.kl_stop is not None else None
        reward = self._mean_return(batch) if pilot.wants_reward else None
        choice = pilot.step(reward=reward, rows=rows if pilot.wants_rows else None)
        epochs = choice.epochs if pilot.controls else num_epochs
        for stride in self._strides:
            stride.factor = choice.stride
        if num_total_minibatches and epochs != num_epochs:
            # With several learners RLlib fixes the number of minibatches for its own number of epochs; 0 means open.
            num_total_minibatches = max(1, round(num_total_minibatches * epochs / num_epochs))
        self._minibatches = super()._create_iterator_if_necessary(
            training_data=training_data, num_total_minibatches=num_total_minibatches, num_epochs=epochs, **kwargs
        )
        return self._watched(self._minibatches, rows)

    def _watched(self, minibatches: Any, rows: Rows | None) -> Iterator[Any]:
        """Yield the minibatches, take note of each epoch's end, and keep the controller's guard."""
        ended = 0
        for minibatch in minibatches:
            yield minibatch  # the learner comes back for the next one when this one's step is done
            epochs = math.floor(self._epochs_done() + 1e-9)
            if epochs > ended:
                ended = epochs
                self.pilot.mark(epochs)
                if rows is not None and self.pilot.kl_stop is not None and self.pilot.stops(self._kl(rows)):
                    return

    def _kl(self, rows: Rows) -> float:
        with torch.no_grad():
            found = torch.tensor([rows.divergence(), 1.0], dtype=torch.float64, device=self._device)
        if self.distributed:
            torch.distributed.all_reduce(found)
        return float(found[0] / found[1])

    def _rows(self, batch: Any) -> Rows | None:
        """Return the steps that count for the loss, of all modules that are trained, in order of time."""
        parts = [
            (self.module[module_id].unwrapped(), columns)
            for module_id, columns in batch.policy_batches.items()
            if self.should_module_be_updated(module_id, batch) and Postprocessing.ADVANTAGES in columns
        ]
        if not parts:
            return None
        masks = [columns.get(Columns.LOSS_MASK) for _, columns in parts]

        def counted(values: Any, mask: Any) -> Any:
            return values.flatten() if mask is None else values[mask.bool()]

        def column(name: str) -> Any:
            return torch.cat([counted(part[1][name], mask) for part, mask in zip(parts, masks, strict=True)])

        advantages = column(Postprocessing.ADVANTAGES)
        chosen = chosen_rows(len(advantages), self.pilot.most_rows)
        taken = torch.as_tensor(chosen)

        def passes() -> Any:
            found = []
            for (module, columns), mask in zip(parts, masks, strict=True):
                logits = module.forward_train(dict(columns))[Columns.ACTION_DIST_INPUTS]
                distribution = module.get_train_action_dist_cls().from_logits(logits)
                found.append(counted(distribution.logp(columns[Columns.ACTIONS]), mask))
            return torch.cat(found)[taken]

        groups = time_groups(len(advantages), 1)[chosen]
        return Rows(
            passes, advantages[torch.as_tensor(chosen)], groups, column(Columns.ACTION_LOGP)[torch.as_tensor(chosen)]
        )

    def _pooled(self, evidence: Evidence) -> Evidence:
        """Make one of the evidence of all learners: z of independent rows adds up as Σz/√n."""
        if not self.distributed:
            return evidence
        known = [evidence.slope_z, evidence.worth, evidence.worth_error, evidence.kl]
        sums = torch.tensor(
            [*(0.0 if value is None else value for value in known), *(float(value is not None) for value in known)],
            dtype=torch.float64,
            device=self._device,
        )
        torch.distributed.all_reduce(sums)
        z, worth, error, divergence = (
            float(total) / count if count else None for total, count in zip(sums[:4], sums[4:].tolist(), strict=True)
        )
        root = math.sqrt(float(sums[4])) if sums[4] else 1.0
        return Evidence(
            slope_z=None if z is None else z * root,
            worth=worth,
            worth_error=None if error is None else error / root,
            kl=divergence,
            epochs_done=evidence.epochs_done,
        )

    def _mean_return(self, batch: Any) -> float | None:
        """Return the mean value target of what counts for the loss, over all learners."""
        total = torch.zeros(2, dtype=torch.float64, device=self._device)
        for module_id, columns in batch.policy_batches.items():
            if self.should_module_be_updated(module_id, batch) and Postprocessing.VALUE_TARGETS in columns:
                targets = columns[Postprocessing.VALUE_TARGETS].double()
                mask = columns.get(Columns.LOSS_MASK)
                valid = targets if mask is None else targets[mask.bool()]
                total += torch.tensor([float(valid.sum()), valid.numel()], dtype=torch.float64, device=self._device)
        if self.distributed:
            torch.distributed.all_reduce(total)
        return float(total[0] / total[1]) if total[1] else None

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        """Finish as ever, and log what was judged, asked for and done."""
        super().after_gradient_based_update(timesteps=timesteps)
        for stride in self._strides:
            stride.factor = 1.0
        self.pilot.finished(self._epochs_done())
        for name, value in (self.pilot.metrics() | self.pilot.update_metrics()).items():
            self.metrics.log_value((ALL_MODULES, name), value, window=1)

    def _epochs_done(self) -> float:
        """Return the rows that went through the update, over the rows of the batch: 1 where it went through whole."""
        minibatches = self._minibatches
        if not hasattr(minibatches, "_minibatch_count"):
            return 1.0
        rows = max(len(columns) for columns in minibatches._batch.policy_batches.values())
        return float(minibatches._minibatch_count * minibatches._minibatch_size / rows)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> Any:
        """Return the learner's state, with the chooser's among it."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self.pilot.controls and self._check_component(SCHEDULER, components, not_components):
            state[SCHEDULER] = self.pilot.state_dict()
        return state

    def set_state(self, state: Any) -> None:
        """Continue from a state; one without a chooser's leaves it as it is."""
        super().set_state(state)
        if SCHEDULER in state:
            self.pilot.load_state_dict(state[SCHEDULER], forget=f"drop {SCHEDULER!r} from the learner's state")
