"""Training: collect, plan, update for as many epochs as planned, record (the paper's Algorithm 1)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import torch

from adept import cost, fast
from adept.algorithms import ALGORITHMS
from adept.algorithms.learner import Epoch, Learner, ReferenceLearner, mean_metrics
from adept.algorithms.stopping import make_rules
from adept.config import Config, Execution
from adept.envs import Environments, make_environments
from adept.envs.base import Array
from adept.envs.checked import Guarded
from adept.flops import forward_flops, policy_flops, values_flops
from adept.monitoring import Monitor
from adept.networks import Actor, TorchActor, make_network
from adept.plan import Plan, Planner
from adept.rollout import Collector, Rollout
from adept.seeding import stream_seed

Record = dict[str, float]
"""One iteration as numbers by name, in a fixed order; NaN where there is nothing to say."""


class Stateful(Protocol):
    """A part of the trainer with a state of its own."""

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the state as JSON-safe values and named arrays."""

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""


def train(config: Config, execution: Execution | None = None) -> Iterator[Record]:
    """Train from scratch and yield one record per iteration. The caller stores and prints them."""
    trainer = Trainer(config, execution)
    try:
        yield from trainer
    finally:
        trainer.close()


class Update:
    """The epochs of one update: all that were made, and those that still stand."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        """the plan, at the learning rate of the last epoch"""
        self.made: list[Epoch] = []
        self.kept: list[Epoch] = []
        self.undone = False
        """whether the guard undid the last epoch, and it was not tried again"""

    def add(self, epoch: Epoch) -> None:
        """Take an epoch in; its number counts those that stand before it."""
        epoch.index = len(self.kept) + 1
        self.made.append(epoch)
        self.kept.append(epoch)

    def undo(self, factor: float | None) -> None:
        """Drop the last epoch, which is tried again at another learning rate; with None the update ends with it."""
        self.undone = factor is None
        if factor is not None:
            self.kept.pop()
            self._scale(factor)

    def restart(self, factor: float) -> None:
        """Drop all epochs, which are made again at another learning rate."""
        self.kept, self.undone = [], False
        self._scale(factor)

    def rest(self) -> Plan:
        """Return the plan of the epochs that are left."""
        return replace(self.plan, epochs=self.plan.epochs - len(self.kept))

    def _scale(self, factor: float) -> None:
        critic = self.plan.critic_learning_rate
        self.plan = replace(
            self.plan,
            learning_rate=self.plan.learning_rate * factor,
            critic_learning_rate=None if critic is None else critic * factor,
        )

    @property
    def last(self) -> Epoch:
        """The last epoch, undone or not."""
        return self.kept[-1]

    @property
    def shown(self) -> list[Epoch]:
        """The epochs that metrics are of."""
        return self.kept


class Trainer:
    """One run in the making. Iterate over it for records; between two of them its whole state can be taken."""

    def __init__(self, config: Config, execution: Execution | None = None) -> None:
        self.config, self.execution = config, execution or Execution()
        self.device = pick_device(self.execution.device)
        torch.set_num_threads(self.execution.threads)
        threads = self.execution.env_threads
        self.environments: Environments = Guarded(make_environments(config, threads=threads), config.env)
        shape = self.environments.observation_shape
        seed = stream_seed(config.seed, "network")
        network = make_network(config.network, shape, self.environments.actions, seed)
        self.forward_flops, self.policy_flops = forward_flops(network, shape), policy_flops(network, shape)
        self.values_flops = values_flops(network, shape)
        self.network = network.to(self.device)
        parts = (config, self.network, self.device, self.execution)
        self.actor: Actor = fast.actor(*parts) or TorchActor(self.network, self.device)
        self.collector = Collector(config, self.environments, self.network, self.actor, self.device)
        self.loss = ALGORITHMS[config.algo].make_loss(config, shape, self.device)
        self.learner: Learner = fast.learner(*parts) or ReferenceLearner(config, self.network, self.loss, self.device)
        self.planner = Planner(config)
        self.rules = make_rules(config.stopping)
        self.monitor = Monitor(config, self.learner, slopes=self.planner.needs_slope)
        self.iteration = 0
        self._episodes = self._gradient_steps = self._flops = 0
        self._seconds = self._processor_seconds = 0.0

    def __iter__(self) -> Iterator[Record]:
        """Run the iterations that remain, yielding the record of each."""
        while self.iteration < self.config.iterations:
            started, spent = time.perf_counter(), time.process_time()
            if self.iteration % self.config.restart_every == 0:
                self.collector.restart(self.iteration)
            rollout = self.collector.collect()
            collected = time.perf_counter()
            verdict = self.monitor.judge(self.iteration, rollout, slope=self.planner.wants_slope)
            judged = time.perf_counter()
            plan = self.planner.plan(self.iteration, rollout, verdict)
            update = self._update(rollout, plan)
            metrics = self._metrics(update)
            updated = time.perf_counter()
            self._count(rollout, update.made)
            self._seconds += updated - started
            self._processor_seconds += time.process_time() - spent
            yield {
                **self._progress(rollout, update.plan, update.made),
                **metrics,
                "flops": self._flops,
                "seconds": self._seconds,
                "processor_seconds": self._processor_seconds,
                "environment_seconds": rollout.environment_seconds,
                "inference_seconds": rollout.inference_seconds,
                "update_seconds": updated - judged,
                **self.planner.record(),
                **({**self.monitor.columns(verdict), "monitor_seconds": judged - collected} if self.monitor.on else {}),
            }

    def _count(self, rollout: Rollout, epochs: list[Epoch]) -> None:
        """Add an iteration to what is counted over the run."""
        self.iteration += 1
        self._episodes += len(rollout.episode_returns)
        self._gradient_steps += sum(epoch.gradient_steps for epoch in epochs)
        rows = sum(epoch.rows for epoch in epochs)
        passes = cost.sampling(self.config) + cost.update(self.config, rows) + sum(r.forward_rows for r in self.rules)
        judging = self.policy_flops * self.monitor.passes + self.values_flops * self.monitor.values_passes
        self._flops += self.forward_flops * passes + judging * self.monitor.rows

    def _progress(self, rollout: Rollout, plan: Plan, epochs: list[Epoch]) -> Record:
        """Return where the run stands, and how it does."""
        reward = self.planner.reward(rollout)
        return {
            "iteration": self.iteration,
            "step": self.iteration * self.config.batch_size,
            "epochs": plan.epochs,
            "epochs_done": len(epochs),
            "gradient_steps": self._gradient_steps,
            "reward": math.nan if reward is None else reward,
            "gae_return": rollout.mean_return,
            "episode_return": _mean(rollout.episode_returns),
            "episode_length": _mean(rollout.episode_lengths),
            "episodes": self._episodes,
            "score": _mean(tuple(self.collector.recent_returns)),
            "explained_variance": rollout.explained_variance,
            "learning_rate": epochs[-1].learning_rate,
        }

    def _update(self, rollout: Rollout, plan: Plan) -> Update:
        """Carry out a plan, to its end or to the first epoch after which a rule says stop.

        A controller may have the whole update undone and made again at another learning rate.
        """
        seed = stream_seed(self.config.seed, "held-out", self.iteration) if self.rules else 0
        start = self.learner.snapshot() if self.planner.guards else None
        update = Update(plan)
        while True:
            rows = rollout
            for rule in self.rules:
                rows = rule.start(self.learner, rows, plan, seed)
            self.monitor.begin(self.iteration)
            self._attempt(rows, update)
            factor = self.planner.repeats(update.last)
            if factor is None or start is None:
                break
            self.learner.restore(start)
            update.restart(factor)
        self.planner.finish(update.last)
        return update

    def _attempt(self, rollout: Rollout, update: Update) -> None:
        """Make the epochs of an update; one that the controller's guard undoes is tried again if it says so."""
        before = self.learner.snapshot() if self.planner.guards else None
        epochs = self.learner.epochs(rollout, update.plan, self.planner.controller)
        while (epoch := next(epochs, None)) is not None:
            update.add(epoch)
            if before is not None:
                if self.planner.stops(epoch):
                    self.learner.restore(before)
                    factor = self.planner.retries(epoch)
                    update.undo(factor)
                    if factor is None:
                        return
                    epochs = self.learner.epochs(rollout, update.rest(), self.planner.controller)
                    continue
                before = self.learner.snapshot()
            self.monitor.mark(self.iteration, epoch.index, update.plan.epochs)
            if any(rule.stop(epoch) for rule in self.rules) or self.planner.passes(epoch):
                return

    def _metrics(self, update: Update) -> Record:
        """Return the update's mean metrics; the deviation of the ratio where a rule goes by it."""
        metrics = mean_metrics(update.shown, undone=update.undone)
        asked = {rule.metric for rule in self.rules}
        return {name: value for name, value in metrics.items() if name != "ratio_deviation" or name in asked}

    def _parts(self) -> dict[str, Stateful]:
        return {"collector": self.collector, "learner": self.learner, "monitor": self.monitor}

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return everything that the rest of the run depends on, as JSON-safe values and named arrays."""
        values: dict[str, Any] = {
            "iteration": self.iteration,
            "episodes": self._episodes,
            "gradient_steps": self._gradient_steps,
            "flops": self._flops,
            "seconds": self._seconds,
            "processor_seconds": None if math.isnan(self._processor_seconds) else self._processor_seconds,
            **self.planner.state(),
        }
        values["loss"], arrays = self.loss.state()
        for name, part in self._parts().items():
            values[name], own = part.state()
            arrays |= {f"{name}/{key}": value for key, value in own.items()}
        return values, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state; what follows equals the uninterrupted run number for number."""
        self.planner.load(values)
        self.loss.load(values.get("loss", {}), arrays)
        for name, part in self._parts().items():
            prefix = f"{name}/"
            own = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
            if name in values or name != "monitor":  # runs of before monitoring have none of it
                part.load(values[name], own)
        self.iteration, self._episodes = values["iteration"], values["episodes"]
        self._gradient_steps, self._flops = values["gradient_steps"], values["flops"]
        self._seconds = values["seconds"]
        spent = values.get("processor_seconds")  # older runs did not count it
        self._processor_seconds = math.nan if spent is None else spent

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
    return math.fsum(values) / len(values) if values else math.nan
