"""ADEPT in Stable-Baselines3, sb3-contrib and sbx: a callback that sets `n_epochs` before every update."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from adept.integrations import contract
from adept.schedulers import Scheduler

contract.require_framework("stable_baselines3", package="stable-baselines3", at_least="2.4", below="3", extra="sb3")

from stable_baselines3.common.base_class import BaseAlgorithm  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402

STATE = "adept_state"
"""The attribute of the model that carries the scheduler's state through `model.save` and `load`."""


def mean_return(model: Any) -> float:
    """Return the mean GAE return of the rollout at hand, in the environment's own units of reward.

    `VecNormalize` divides rewards by a running scale; the mean is multiplied by its present value, so that
    rollouts of different ages compare.
    """
    mean = float(model.rollout_buffer.returns.mean(dtype="float64"))
    normalize = model.get_vec_normalize_env()
    if normalize is not None and normalize.norm_reward:
        mean *= math.sqrt(float(normalize.ret_rms.var) + normalize.epsilon)
    return mean


class AdeptCallback(BaseCallback):
    """Let a scheduler choose the number of epochs of every update: `model.learn(n, AdeptCallback(scheduler))`.

    Works with each on-policy algorithm that has `n_epochs`: PPO, MaskablePPO, RecurrentPPO and the PPO of sbx.
    The state travels with the model: a loaded model continues its scheduler, given a callback with a scheduler
    built like the first one. The model's own `n_epochs` is back in place outside the updates.

    Logged with each rollout: `adept/epochs` and `adept/epochs_done` of the update before it, asked and done (they
    differ where `target_kl` stops), and `adept/reward`, the reward of this rollout, which that choice is credited
    with. As with SB3's own `train/…`, the numbers of the last update of a `learn` are recorded, not dumped.

    Args:
        scheduler: whose arms are numbers of epochs.
        reward: of a rollout, from the model; `None` credits nobody.
        verbose: as for every callback.
    """

    def __init__(
        self,
        scheduler: Scheduler[int],
        reward: Callable[[Any], float | None] = mean_return,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.scheduler = contract.epoch_scheduler(scheduler)
        self._reward = reward
        self._default_epochs = 0
        self._asked: int | None = None
        self._counter: _UpdateCounter | None = None

    def _init_callback(self) -> None:
        _check_algorithm(self.model)

    def _on_training_start(self) -> None:
        if self.parent is not None:
            raise ValueError(
                f"AdeptCallback came as the child of {type(self.parent).__name__}, which hides rollouts from it; it "
                "works alone or in a list: pass model.learn(callback=[AdeptCallback(scheduler), other])"
            )
        model: Any = self.model
        state = getattr(model, STATE, None)
        if state is not None:
            contract.restore(self.scheduler, state, forget=f"`del model.{STATE}`")
        self._default_epochs = model.n_epochs
        self._asked = None
        self._counter = _UpdateCounter(model)

    def _on_rollout_start(self) -> None:
        self._log_update()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        reward = self._reward(model)
        epochs = self.scheduler.step(reward)
        setattr(model, STATE, self.scheduler.state_dict())
        for name, value in contract.metrics(self.scheduler, reward=reward).items():
            self.logger.record(name, value)
        self._asked = model.n_epochs = epochs
        if self._counter is not None:
            self._counter.restart()

    def _on_training_end(self) -> None:
        self._log_update()
        if self._counter is not None:
            self._counter.close()

    def _log_update(self) -> None:
        """Record what the update that just ended was asked to do and did, and give `n_epochs` back."""
        model: Any = self.model
        model.n_epochs = self._default_epochs
        if self._asked is not None and self._counter is not None:
            self.logger.record(f"{contract.PREFIX}/epochs", self._asked)
            self.logger.record(f"{contract.PREFIX}/epochs_done", self._counter.epochs())
        self._asked = None


class _UpdateCounter:
    """Count the epochs that an update really did, in gradient steps where the optimiser is one of PyTorch's.

    `model._n_updates` alone would count an epoch that `target_kl` cut in its first minibatch as a whole one. sbx
    has no optimiser to watch and never cuts an update short.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._before = 0
        optimizer = getattr(model.policy, "optimizer", None)
        self._steps = contract.GradientSteps(optimizer) if hasattr(optimizer, "register_step_post_hook") else None

    def restart(self) -> None:
        self._before = self._total()

    def epochs(self) -> float:
        done = self._total() - self._before
        if self._steps is None:
            return float(done)
        buffer = self._model.rollout_buffer
        return float(done / math.ceil(buffer.buffer_size * buffer.n_envs / self._model.batch_size))

    def close(self) -> None:
        if self._steps is not None:
            self._steps.remove()

    def _total(self) -> int:
        return int(self._model._n_updates) if self._steps is None else self._steps.count


def _check_algorithm(model: BaseAlgorithm) -> None:
    """Refuse what has no epochs, and what would let their number change the learning rate."""
    if not (hasattr(model, "n_epochs") and hasattr(model, "rollout_buffer")):
        raise ValueError(
            f"{type(model).__name__} has no update epochs to choose; AdeptCallback works with on-policy algorithms "
            "that have n_epochs: PPO, MaskablePPO, RecurrentPPO, sbx.PPO; train one of these, or leave the callback out"
        )
    if hasattr(model, "adaptive_lr"):
        raise ValueError(
            "this sbx model has a target_kl, which adapts the learning rate after every minibatch, so that the number "
            "of epochs would change the learning rate; AdeptCallback works with target_kl=None: build the model so"
        )
