"""Plans: what one update is made with, and who chooses each field."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from adept.algorithms import ALGORITHMS
from adept.config import Config
from adept.controllers import CONTROLLERS, Choice, Controller, Evidence, make_controller
from adept.schedulers import Scheduler, paper_scheduler
from adept.seeding import stream_seed

if TYPE_CHECKING:
    from adept.algorithms.learner import Epoch
    from adept.rollout import Rollout


@dataclass(frozen=True)
class Plan:
    """What one update is made with."""

    epochs: int
    learning_rate: float
    clip_range: float
    entropy_coefficient: float
    augmentation: str | None = None
    """image augmentation; None where the algorithm augments nothing"""
    critic_learning_rate: float | None = None
    """learning rate of what only the critic has; None: the same"""


def preset_plan(config: Config, epochs: int, learning_rate: float) -> Plan:
    """Return the plan of a configuration with so many epochs at a learning rate, where nobody else chooses."""
    augmentation = config.augmentation if ALGORITHMS[config.algo].augmentations else None
    return Plan(epochs, learning_rate, config.clip_range, config.entropy_coefficient, augmentation)


class Verdict(Protocol):
    """What the next rollout says of the last update, as `adept.hindsight` judges it."""

    def evidence(self, *, kl: float, clip_fraction: float | None, epochs_done: int, stopped: bool = False) -> Evidence:
        """Return it as a controller takes it, with what the update itself left behind."""


class Planner:
    """Make the plan of every update.

    | field | who chooses it |
    | --- | --- |
    | epochs | the scheduler, a bandit credited with the rollout's return; or a controller |
    | learning_rate, critic_learning_rate | the preset × the schedule over iterations × a controller's scales |
    | clip_range, entropy_coefficient | the preset |
    | augmentation | the preset; or the augmentation scheduler, a second bandit credited alike (UCB-DrAC) |
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        options = config.scheduler_options
        seed = stream_seed(config.seed, "scheduler")
        self.scheduler: Scheduler[int] | None = None
        self.controller: Controller | None = None
        if config.scheduler in CONTROLLERS:
            self.controller = make_controller(config.scheduler, max(config.choices), seed=seed, **options)
            self.controller.begin(config.learning_rate)
        else:
            self.scheduler = paper_scheduler(config.scheduler, config.choices, seed=seed, **options)
        self._augmentations = ALGORITHMS[config.algo].augmentations
        self.augmentation_scheduler: Scheduler[str] | None = None
        if self._augmentations and config.augmentation_scheduler:
            self.augmentation_scheduler = paper_scheduler(
                config.augmentation_scheduler, self._augmentations,
                seed=stream_seed(config.seed, "scheduler", 1), **config.augmentation_scheduler_options,
            )  # fmt: skip
        self._augmentation = config.augmentation if self._augmentations else None
        self._choice = Choice(max(config.choices))
        self._last: dict[str, Any] | None = None
        """what the last epoch left behind, JSON-safe: None for a number that was not finite"""

    def plan(self, iteration: int, rollout: Rollout, verdict: Verdict | None = None) -> Plan:
        """Credit the previous choices with what this rollout tells of them, and make the next plan."""
        config, reward = self._config, self.reward(rollout)
        decayed = 1 - iteration / config.iterations if config.learning_rate_decay else 1.0
        if self.scheduler is not None:
            self._choice = Choice(self.scheduler.step(reward))
        elif self.controller is not None:
            evidence = self._evidence(rollout, verdict)
            self._choice = self.controller.step(evidence and replace(evidence, decayed=decayed))
        if self.augmentation_scheduler is not None:
            self._augmentation = self.augmentation_scheduler.step(reward)
        scheduled, choice = config.learning_rate * decayed, self._choice
        return replace(
            preset_plan(config, choice.epochs, scheduled * choice.lr_scale),
            augmentation=self._augmentation,
            critic_learning_rate=None if choice.critic_lr_scale is None else choice.critic_rate(scheduled),
        )

    def reward(self, rollout: Rollout) -> float | None:
        """Return what the bandits' previous choices are credited with; None where no episode tells."""
        if self._config.reward_source == "gae-return":
            return rollout.mean_return
        returns = rollout.episode_returns
        return math.fsum(returns) / len(returns) if returns else None

    @property
    def needs_slope(self) -> bool:
        """Whether the controller goes by the slopes of updates."""
        return self.controller is not None and self.controller.needs_slope

    @property
    def wants_slope(self) -> bool:
        """Whether the slope of the last update would count in the next plan."""
        return self.controller is not None and self.controller.wants_slope

    @property
    def guards(self) -> bool:
        """Whether the controller may end an update and undo its last epoch."""
        return self.controller is not None and self.controller.guards

    def stops(self, epoch: Epoch) -> bool:
        """Return whether the controller's guard ends the update with this epoch undone."""
        return self.controller is not None and self.controller.stops(epoch["approx_kl"])

    def retries(self, epoch: Epoch) -> float | None:
        """Return the factor of the learning rate with which an undone epoch is tried again; None: the update ends."""
        return None if self.controller is None else self.controller.retry(epoch["approx_kl"])

    def repeats(self, epoch: Epoch) -> float | None:
        """Return the factor of the learning rate with which the whole update is made again; None: it stays."""
        return None if self.controller is None else self.controller.repeat(epoch["approx_kl"])

    def passes(self, epoch: Epoch) -> bool:
        """Return whether the controller ends the update after this epoch, which stands."""
        return self.controller is not None and self.controller.passes(epoch["approx_kl"])

    def finish(self, epoch: Epoch) -> None:
        """Take note of the last epoch of an update, part of the evidence for the next plan."""
        if self.controller is not None:
            left = {"kl": epoch["approx_kl"], "clip_fraction": epoch["clip_fraction"]}
            self._last = {name: value if math.isfinite(value) else None for name, value in left.items()}
            self._last["epochs_done"] = epoch.index
            self._last["stopped"] = bool(self._config.stopping) and epoch.index < self._choice.epochs

    def _evidence(self, rollout: Rollout, verdict: Verdict | None) -> Evidence | None:
        if self._last is None:
            return None
        last = {**self._last, "kl": math.inf if self._last["kl"] is None else self._last["kl"]}
        evidence = Evidence(**last) if verdict is None else verdict.evidence(**last)
        if not self.wants_slope:  # monitoring may have measured one all the same: it changes no number of a run
            evidence = replace(evidence, slope_z=None, critic_slope=None, critic_slope_z=None)
        return replace(evidence, explained_variance=rollout.explained_variance)

    def record(self) -> dict[str, float]:
        """Return the numbers behind the present plan, as columns of a record."""
        columns: dict[str, float] = {}
        if self.scheduler is not None:
            columns |= {f"arm_{name}": value for name, value in self.scheduler.diagnostics().items()}
        if self.controller is not None:
            columns |= {f"controller_{name}": value for name, value in self.controller.diagnostics().items()}
            columns["lr_scale"] = self._choice.lr_scale
            own = self._choice.critic_lr_scale
            columns["critic_lr_scale"] = self._choice.lr_scale if own is None else own
        if self._augmentation is not None:
            columns["augmentation"] = self._augmentations.index(self._augmentation)
        if self.augmentation_scheduler is not None:
            numbers = self.augmentation_scheduler.diagnostics()
            columns |= {f"augmentation_{name}": value for name, value in numbers.items()}
        return columns

    def state(self) -> dict[str, Any]:
        """Return everything that the next plans depend on, as JSON-safe values."""
        values: dict[str, Any] = {}
        if self.scheduler is not None:
            values["scheduler"] = self.scheduler.state_dict()
        if self.controller is not None:
            values["controller"] = {"state": self.controller.state_dict(), "last": self._last}
        if self.augmentation_scheduler is not None:
            bandit = self.augmentation_scheduler.state_dict()
            values["augmenter"] = {"augmentation": self._augmentation, "scheduler": bandit}
        return values

    def load(self, values: dict[str, Any]) -> None:
        """Continue from a saved state."""
        if self.scheduler is not None:
            self.scheduler.load_state_dict(values["scheduler"])
        if self.controller is not None:
            self.controller.load_state_dict(values["controller"]["state"])
            self._last = values["controller"]["last"]
        if self.augmentation_scheduler is not None:
            self.augmentation_scheduler.load_state_dict(values["augmenter"]["scheduler"])
            self._augmentation = values["augmenter"]["augmentation"]
