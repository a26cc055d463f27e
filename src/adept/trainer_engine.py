"""The trainer's adapter of the engine: rows of its rollouts, its learning-rate schedule, augmentations, state."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import Tensor

from adept import cost
from adept.algorithms import ALGORITHMS
from adept.algorithms.learner import Learner, load_network
from adept.config import Config
from adept.engine import Engine
from adept.envs.base import Array
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import LENGTHS, CriticRows, Feedback, Rows
from adept.rollout import Rollout, arrays_of
from adept.rules import Settings
from adept.schedulers import Scheduler, make_scheduler
from adept.seeding import stream_seed


def preset_settings(config: Config, epochs: int, learning_rate: float) -> Settings:
    """Return the settings of a configuration for `epochs` epochs at a learning rate."""
    return Settings(
        epochs,
        learning_rate=learning_rate,
        clip_range=config.clip_range,
        entropy_coefficient=config.entropy_coefficient,
        augmentation=config.augmentation if ALGORITHMS[config.algo].augmentations else None,
    )


class TrainerEngine(Engine):
    """The engine of a run of the trainer.

    | setting | who sets it |
    | --- | --- |
    | epochs | the rule, or a bandit credited with the rollout's return |
    | learning_rate, critic_learning_rate | the preset × the schedule over iterations × the rule's scales |
    | clip_range, entropy_coefficient | the preset |
    | augmentation | the preset; or the augmentation scheduler, a second bandit credited alike (UCB-DrAC) |

    `adept.cost.measuring` says how often gains are measured if the run is monitored, slopes with them and where the
    rule needs them, and on how many rows.
    """

    sees_gradients: ClassVar[bool] = True

    def __init__(self, config: Config, learner: Learner) -> None:
        rule = config.rule(stream_seed(config.seed, "scheduler"))
        rows, interval = cost.measuring(config)
        super().__init__(
            rule, gains_every=interval if config.monitor else 0, rows=rows, every_slope=False, seed=config.seed
        )
        self.attach(max(config.choices), learner, config.learning_rate)
        self._config, self._learner = config, learner
        self._measures = config.monitor or rule.needs_slope
        self._augmentations = ALGORITHMS[config.algo].augmentations
        self._augmentation = config.augmentation if self._augmentations else None
        self.augmentation_scheduler: Scheduler[str] | None = None
        if self._augmentations and config.augmentation_scheduler:
            self.augmentation_scheduler = make_scheduler(
                config.augmentation_scheduler, self._augmentations,
                seed=stream_seed(config.seed, "scheduler", 1), **config.augmentation_scheduler_options,
            )  # fmt: skip
        self.policy_passes = 0
        """forward passes of the policy over `max_rows` rows, in the last call of `plan`"""
        self.values_passes = 0
        """the same of the critic"""
        self.monitor_seconds = 0.0

    def plan(self, rollout: Rollout) -> Settings:
        """Evaluate the last update on this rollout, credit the bandits, and return the settings of the next update."""
        config, reward = self._config, self.reward(rollout)
        decayed = 1 - self.updates / config.iterations if config.learning_rate_decay else 1.0
        scheduled = config.learning_rate * decayed
        self.policy_passes = self.values_passes = 0
        rows = self._rows(rollout) if self.needs_evaluation or self._gains_due else None
        chosen = self.begin(rows, reward=reward if self.rule.needs_reward else None, lr_decay=decayed)
        if self.augmentation_scheduler is not None:
            self._augmentation = self.augmentation_scheduler.step(reward)
        self.settings = replace(
            preset_settings(config, chosen.epochs, scheduled * chosen.lr_scale),
            lr_scale=chosen.lr_scale,
            critic_lr_scale=chosen.critic_lr_scale,
            augmentation=self._augmentation,
            critic_learning_rate=None if chosen.critic_lr_scale is None else chosen.critic_rate(scheduled),
        )
        return self.settings

    def reward(self, rollout: Rollout) -> float | None:
        """Return what the bandits' previous choices are credited with; None where no episode tells."""
        if self._config.reward_source == "gae-return":
            return rollout.mean_return
        returns = rollout.episode_returns
        return fmean(returns) if returns else None

    def _rows(self, rollout: Rollout) -> Rows:
        config = self._config
        rows = self.choose_rows(config.batch_size)
        chosen = None if len(rows) == config.batch_size else torch.from_numpy(rows).to(rollout.returns.device)
        columns = (rollout.advantages, rollout.log_probs, rollout.values)
        advantages, deployed, deployed_values = (column.cpu().numpy()[rows] for column in columns)

        def log_probs() -> Tensor:
            self.policy_passes += 1
            return self._learner.log_probs(rollout, chosen)

        def values() -> Tensor:
            self.values_passes += 1
            return self._learner.values(rollout, chosen)

        groups = time_groups(config.rollout_length, config.environments)[rows]
        critic = CriticRows(values, deployed_values, advantages)
        return Rows(log_probs, advantages, groups, deployed, rollout.explained_variance, critic)

    def _evaluate(self, rows: Rows | None, *, wanted: bool) -> Feedback | None:
        started = time.perf_counter()
        try:
            return super()._evaluate(rows, wanted=wanted)
        finally:
            self.monitor_seconds = time.perf_counter() - started

    def columns(self) -> dict[str, float]:
        """Return the numbers behind the present settings, always the same columns; NaN where nothing was measured."""
        columns = self.rule.columns(self.settings)
        if self._augmentation is not None:
            columns["augmentation"] = self._augmentations.index(self._augmentation)
        if self.augmentation_scheduler is not None:
            numbers = self.augmentation_scheduler.diagnostics()
            columns |= {f"augmentation_{name}": value for name, value in numbers.items()}
        if not self._measures:
            return columns
        gains = (*(f"gain/{epoch}" for epoch in self.marks), *(f"gain/x{length:g}" for length in LENGTHS))
        names = ("slope", "slope_z", "critic_slope", "critic_slope_z", "update_gain", *gains)
        found = self._measured()
        measured = {name: found.get(name, math.nan) for name in names}
        return {**columns, **measured, "monitor_seconds": self.monitor_seconds}

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state, and the parameters that the next rollout evaluates by the names of the network's."""
        values = self.state_dict()
        if self.augmentation_scheduler is not None:
            bandit = self.augmentation_scheduler.state_dict()
            values["augmenter"] = {"augmentation": self._augmentation, "scheduler": bandit}
        arrays: dict[str, Array] = {}
        evaluator, copies = self._evaluator, dict[str, Tensor]()
        if evaluator.start is not None:
            copies = {"start": evaluator.start, **{str(epoch): copied for epoch, copied in evaluator.marked.items()}}
        for key, copied in copies.items():
            with self._learner.at(copied):
                for name, parameter in self._learner.network.named_parameters():
                    arrays[f"{key}/network/{name}"] = parameter.detach().cpu().numpy().copy()
        return {**values, "copied": list(copies)}, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state, of whichever learner."""
        own = {name: value for name, value in values.items() if name not in ("augmenter", "copied")}
        self.load_state_dict(own, forget="start the run again")
        if self.augmentation_scheduler is not None:
            self.augmentation_scheduler.load_state_dict(values["augmenter"]["scheduler"])
            self._augmentation = values["augmenter"]["augmentation"]
        for key in values["copied"]:
            with self._learner.at(self._learner.parameters()):
                load_network(self._learner.network, arrays_of(key, arrays))
                copied = self._learner.parameters()
            if key == "start":
                self._evaluator.start = copied
            else:
                self._evaluator.marked[int(key)] = copied
