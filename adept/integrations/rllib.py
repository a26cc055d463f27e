"""ADEPT in RLlib: `schedule_epochs(config, scheduler)` chooses the epochs of every PPO update, on every learner alike.

Each learner has the scheduler. The reward is summed over all of them before it is credited, and a scheduler's choice
follows from its seed and its rewards alone, so that all learners make the same choice and none waits for another.
"""

from __future__ import annotations

import copy
from typing import Any

from adept.integrations import contract
from adept.schedulers import Scheduler

contract.require_framework("ray.rllib", package="ray", at_least="2.60", below="2.61", extra="rllib")

import torch  # noqa: E402
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner  # noqa: E402
from ray.rllib.core.columns import Columns  # noqa: E402
from ray.rllib.evaluation.postprocessing import Postprocessing  # noqa: E402
from ray.rllib.utils.metrics import ALL_MODULES  # noqa: E402

SCHEDULER = "adept_scheduler"
"""The entry of `learner_config_dict` with the scheduler, and the entry of a learner's state with its state."""


def schedule_epochs(config: PPOConfig, scheduler: Scheduler[int]) -> PPOConfig:
    """Let a scheduler choose the epochs of each update of the algorithm that this config builds; return the config.

    `num_epochs` is then without effect. The reward is the mean value target over the steps that count for the loss,
    of all modules that are trained and all learners. The state is part of every learner's, and so of the algorithm's
    checkpoints; results have `learners/__all_modules__/adept/…`.

    A learner class of your own is taken if it derives from `EpochSchedulerLearner`. Call it before `config.build_algo`.
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
        chosen = EpochSchedulerLearner
    if not issubclass(chosen, EpochSchedulerLearner):
        raise ValueError(
            f"the learner class is {chosen.__name__}, which does not take a scheduler; derive it from "
            "adept.integrations.rllib.EpochSchedulerLearner, a PPOTorchLearner that does"
        )
    entries = {**config.learner_config_dict, SCHEDULER: contract.epoch_scheduler(scheduler)}
    return config.learners(learner_class=chosen, learner_config_dict=entries)


class EpochSchedulerLearner(PPOTorchLearner):
    """The PPO learner, except that a scheduler chooses the epochs once the returns of a batch are known."""

    def build(self) -> None:
        """Build as ever, with a scheduler of this learner's own."""
        super().build()
        self.scheduler: Scheduler[int] = copy.deepcopy(self.config.learner_config_dict[SCHEDULER])
        self._made: Any = None
        self._asked = 0
        self._reward: float | None = None
        self._minibatches: Any = None

    def _make_batch_if_necessary(self, training_data: Any) -> Any:
        made, self._made = self._made, None
        return super()._make_batch_if_necessary(training_data) if made is None else made

    def _create_iterator_if_necessary(
        self, *, training_data: Any, num_total_minibatches: int = 0, num_epochs: int = 1, **kwargs: Any
    ) -> Any:
        """Iterate as ever, for as many epochs as the scheduler chooses."""
        self._made = self._make_batch_if_necessary(training_data)
        self._reward = self._mean_return(self._made)
        epochs = self._asked = self.scheduler.step(self._reward)
        if num_total_minibatches:
            # With several learners RLlib fixes the number of minibatches for its own number of epochs; 0 means open.
            num_total_minibatches = max(1, round(num_total_minibatches * epochs / num_epochs))
        self._minibatches = super()._create_iterator_if_necessary(
            training_data=training_data, num_total_minibatches=num_total_minibatches, num_epochs=epochs, **kwargs
        )
        return self._minibatches

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
        """Finish as ever, and log what was asked for and done."""
        super().after_gradient_based_update(timesteps=timesteps)
        numbers = contract.metrics(
            self.scheduler, epochs=self._asked, epochs_done=self._epochs_done(), reward=self._reward
        )
        for name, value in numbers.items():
            self.metrics.log_value((ALL_MODULES, name), value, window=1)

    def _epochs_done(self) -> float:
        """Return the rows that went through the update, over the rows of the batch: 1 where it went through whole."""
        minibatches = self._minibatches
        if not hasattr(minibatches, "_minibatch_count"):
            return 1.0
        rows = max(len(columns) for columns in minibatches._batch.policy_batches.values())
        return float(minibatches._minibatch_count * minibatches._minibatch_size / rows)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> Any:
        """Return the learner's state, with the scheduler's among it."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(SCHEDULER, components, not_components):
            state[SCHEDULER] = self.scheduler.state_dict()
        return state

    def set_state(self, state: Any) -> None:
        """Continue from a state; one without a scheduler's leaves the scheduler as it is."""
        super().set_state(state)
        if SCHEDULER in state:
            contract.restore(self.scheduler, state[SCHEDULER], forget=f"drop {SCHEDULER!r} from the learner's state")
