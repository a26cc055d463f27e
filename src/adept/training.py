"""Training: collect, evaluate the last update, set the next one, update, record (the paper's Algorithm 1)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import torch

from adept import cost
from adept.algorithms import ALGORITHMS
from adept.algorithms.learner import Epoch, Learner, mean_metrics
from adept.algorithms.stopping import make_rules
from adept.config import Config, Execution
from adept.envs import make_environments
from adept.envs.base import Array
from adept.fast.actors import make_actor
from adept.fast.gradients import make_gradients
from adept.flops import pass_flops
from adept.networks import make_network
from adept.rollout import Collector, Rollout, arrays_of
from adept.rules import Settings
from adept.seeding import stream_seed
from adept.trainer_engine import TrainerEngine

Record = dict[str, float]
"""One iteration as numbers by name, in a fixed order; NaN where there is nothing to say."""
PARTS = ("collector", "learner", "engine")
"""Parts of a trainer that have a state of their own."""
RATES = ("lr_scale", "critic_lr_scale", "learning_rate", "critic_learning_rate")
"""Settings that follow the learning rate."""


def train(config: Config, execution: Execution | None = None) -> Iterator[Record]:
    """Train from scratch and yield one record per iteration. The caller stores and prints them."""
    trainer = Trainer(config, execution)
    try:
        yield from trainer
    finally:
        trainer.close()


@dataclass
class Update:
    """The epochs of one update: all that were made, and those that still stand."""

    settings: Settings
    """at the learning rate of the last epoch"""
    made: list[Epoch] = field(default_factory=list)
    kept: list[Epoch] = field(default_factory=list)
    undone: bool = False
    """whether the guard undid the last epoch, and it was not tried again"""

    def again(self, factor: float, *, keep: int) -> None:
        """Drop all epochs but the first ones; the others are made again at another learning rate."""
        del self.kept[keep:]
        self.undone = False
        rates = {name: getattr(self.settings, name) for name in RATES}
        self.settings = replace(
            self.settings, **{name: rate * factor for name, rate in rates.items() if rate is not None}
        )


class Trainer:
    """One run in the making. Iterate over it for records; between two of them its whole state can be taken."""

    def __init__(self, config: Config, execution: Execution | None = None) -> None:
        self.config, self.execution = config, execution or Execution()
        self.device = pick_device(self.execution.device)
        torch.set_num_threads(self.execution.threads)
        self.environments = make_environments(config, threads=self.execution.env_threads)
        shape = self.environments.observation_shape
        seed = stream_seed(config.seed, "network")
        network = make_network(config.network, shape, self.environments.actions, seed)
        self.forward_flops, self.policy_flops, self.values_flops = pass_flops(network, shape)
        self.network = network.to(self.device)
        self.loss = ALGORITHMS[config.algo].make_loss(config, shape, self.device)
        self.learner = Learner(config, make_gradients(config, self.network, self.loss, self.execution))
        self.actor = make_actor(self.network, self.device, self.execution)
        self.collector = Collector(config, self.environments, self.network, self.actor, self.device)
        self.engine = TrainerEngine(config, self.learner)
        self.stopping = make_rules(config.stopping)
        self.iteration = 0
        self._totals = dict.fromkeys(("episodes", "gradient_steps", "flops", "monitor_flops"), 0)
        self._seconds = {"seconds": 0.0, "processor_seconds": 0.0}

    def __iter__(self) -> Iterator[Record]:
        """Run the iterations that remain, yielding the record of each."""
        while self.iteration < self.config.iterations:
            started, spent = time.perf_counter(), time.process_time()
            if self.iteration % self.config.restart_every == 0:
                self.collector.restart(self.iteration)
            rollout = self.collector.collect()
            collected = time.perf_counter()
            update = self._update(rollout, self.engine.plan(rollout))
            metrics = self._metrics(update)
            updated = time.perf_counter()
            self._count(rollout, update.made)
            self._seconds["seconds"] += updated - started
            self._seconds["processor_seconds"] += time.process_time() - spent
            columns = self.engine.columns()
            if "monitor_seconds" in columns:
                columns["monitor_flops"] = self._totals["monitor_flops"]
            yield {
                **self._progress(rollout, update),
                **metrics,
                "flops": self._totals["flops"],
                **self._seconds,
                "environment_seconds": rollout.environment_seconds,
                "inference_seconds": rollout.inference_seconds,
                "update_seconds": updated - collected - self.engine.monitor_seconds,
                **columns,
            }

    def _count(self, rollout: Rollout, epochs: list[Epoch]) -> None:
        """Add an iteration to what is counted over the run."""
        self.iteration += 1
        rows = sum(epoch.rows for epoch in epochs)
        passes = (
            cost.sampling(self.config) + cost.update(self.config, rows) + sum(r.forward_rows for r in self.stopping)
        )
        evaluating = self.policy_flops * self.engine.policy_passes + self.values_flops * self.engine.values_passes
        monitoring = evaluating * self.engine.max_rows
        self._totals["episodes"] += len(rollout.episode_returns)
        self._totals["gradient_steps"] += sum(epoch.gradient_steps for epoch in epochs)
        self._totals["monitor_flops"] += monitoring
        self._totals["flops"] += self.forward_flops * passes + monitoring

    def _progress(self, rollout: Rollout, update: Update) -> Record:
        """Return where the run stands, and how it does."""
        reward = self.engine.reward(rollout)
        return {
            "iteration": self.iteration,
            "step": self.iteration * self.config.batch_size,
            "epochs": update.settings.epochs,
            "epochs_done": len(update.made),
            "gradient_steps": self._totals["gradient_steps"],
            "reward": math.nan if reward is None else reward,
            "gae_return": rollout.mean_return,
            "episode_return": _mean(rollout.episode_returns),
            "episode_length": _mean(rollout.episode_lengths),
            "episodes": self._totals["episodes"],
            "score": _mean(tuple(self.collector.recent_returns)),
            "explained_variance": rollout.explained_variance,
            "learning_rate": update.made[-1].learning_rate,
        }

    def _update(self, rollout: Rollout, settings: Settings) -> Update:
        """Update with these settings, to the last epoch or to the first one after which a stopping rule says stop.

        The engine's rule may have the whole update undone and made again at another learning rate.
        """
        seed = stream_seed(self.config.seed, "held-out", self.iteration) if self.stopping else 0
        start = self.learner.snapshot() if self.engine.rule.kl_stop is not None else None
        update = Update(settings)
        while True:
            rows = rollout
            for rule in self.stopping:
                rows = rule.start(self.learner, rows, settings, seed)
            self._attempt(rows, update)
            last = update.kept[-1].metrics
            factor = self.engine.repeat(last["approx_kl"])
            if factor is None or start is None:
                break
            self.learner.restore(start)
            update.again(factor, keep=0)
        self.engine.settings = update.settings
        self.engine.finished(
            len(update.kept), kl=last["approx_kl"], clip_fraction=last["clip_fraction"], undone=update.undone
        )
        return update

    def _attempt(self, rollout: Rollout, update: Update) -> None:
        """Make the epochs of an update; one that the rule's guard undoes is tried again if it says so."""
        before = self.learner.snapshot() if self.engine.rule.kl_stop is not None else None
        epochs = self.learner.epochs(rollout, update.settings, self.engine.rule)
        while (epoch := next(epochs, None)) is not None:
            update.made.append(epoch)
            update.kept.append(epoch)
            if before is not None:
                if self.engine.stops(kl := epoch.metrics["approx_kl"]):
                    self.learner.restore(before)
                    factor = self.engine.rule.retry(kl)
                    if factor is None:
                        update.undone = True
                        return
                    update.again(factor, keep=len(update.kept) - 1)
                    left = replace(update.settings, epochs=update.settings.epochs - len(update.kept))
                    epochs = self.learner.epochs(rollout, left, self.engine.rule)
                    continue
                before = self.learner.snapshot()
            self.engine.mark(len(update.kept))
            if any(rule.stop(epoch.metrics) for rule in self.stopping):
                return

    def _metrics(self, update: Update) -> Record:
        """Return the update's mean metrics; the deviation of the ratio where a rule goes by it."""
        metrics = mean_metrics(update.kept, undone=update.undone)
        asked = {rule.metric for rule in self.stopping}
        return {name: value for name, value in metrics.items() if name != "ratio_deviation" or name in asked}

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return everything that the rest of the run depends on, as JSON-safe values and named arrays."""
        values: dict[str, Any] = {"iteration": self.iteration, **self._totals, **self._seconds}
        values["loss"], arrays = self.loss.state()
        for name in PARTS:
            values[name], own = getattr(self, name).state()
            arrays |= {f"{name}/{key}": value for key, value in own.items()}
        return values, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state; what follows equals the uninterrupted run number for number."""
        if "engine" not in values:
            raise ValueError("this checkpoint is of an earlier version of ADEPT; continue it with that, or start again")
        self.loss.load(values.get("loss", {}), arrays)
        for name in PARTS:
            getattr(self, name).load(values[name], arrays_of(name, arrays))
        self.iteration = values["iteration"]
        for counted in (self._totals, self._seconds):
            counted.update({name: values[name] for name in counted})

    def close(self) -> None:
        """Free the environments."""
        self.environments.close()


def pick_device(name: str) -> torch.device:
    """Return the device asked for; auto takes CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # a device that holds no numbers, such as meta, fails here
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}; try cpu") from error
    return device


def _mean(values: tuple[float, ...] | tuple[int, ...]) -> float:
    return fmean(values) if values else math.nan
