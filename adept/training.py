"""Training: collect, estimate advantages, let the scheduler choose the epochs, update (the paper's Algorithm 1)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any, Protocol

import torch

from adept.algorithms import drac, ppo
from adept.config import Config, Execution
from adept.envs import Environments, make_environments
from adept.envs.base import Array
from adept.fast import choose_actor, choose_learner
from adept.flops import forward_flops, iteration_flops
from adept.networks import make_network
from adept.rollout import Collector, Rollout
from adept.schedulers import Scheduler, paper_scheduler
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
    """Train from scratch and yield one record per iteration; storing and showing them is the caller's."""
    trainer = Trainer(config, execution)
    try:
        yield from trainer
    finally:
        trainer.close()


class Trainer:
    """One run in the making. Iterate over it for records; between two of them its whole state can be taken."""

    def __init__(self, config: Config, execution: Execution | None = None) -> None:
        self.config, self.execution = config, execution or Execution()
        self.device = pick_device(self.execution.device)
        torch.set_num_threads(self.execution.threads)
        self.environments: Environments = make_environments(config, threads=self.execution.env_threads)
        shape = self.environments.observation_shape
        seed = stream_seed(config.seed, "network")
        network = make_network(config.network, shape, self.environments.actions, seed)
        self.forward_flops = forward_flops(network, shape)
        self.network = network.to(self.device)
        self.actor = choose_actor(config, self.network, self.device, self.execution)
        self.collector = Collector(config, self.environments, self.network, self.actor, self.device)
        self.augmenter = drac.Augmenter(config, shape, self.device) if config.algo == "drac" else None
        loss = ppo.make_loss(config) if self.augmenter is None else drac.make_loss(config, self.augmenter)
        self.learner = choose_learner(config, self.network, loss, self.device, self.execution)
        self.scheduler: Scheduler[int] = paper_scheduler(
            config.scheduler, config.arms, seed=stream_seed(config.seed, "scheduler"), **config.scheduler_options
        )
        self._stop = None if config.target_kl is None else ppo.target_kl_rule(config.target_kl)
        self.iteration = 0
        self._episodes = self._gradient_steps = self._flops = 0
        self._seconds = 0.0

    def __iter__(self) -> Iterator[Record]:
        """Run the iterations that remain, yielding the record of each."""
        config = self.config
        while self.iteration < config.iterations:
            started = time.perf_counter()
            if self.iteration % config.restart_every == 0:
                self.collector.restart(self.iteration)
            rollout = self.collector.collect()
            reward = self._reward(rollout)
            epochs = self.scheduler.step(reward)
            if self.augmenter is not None:
                self.augmenter.step(reward)
            updating = time.perf_counter()
            rate = self._learning_rate()
            stats = self.learner.update(rollout, epochs, self._stop, learning_rate=rate)
            finished = time.perf_counter()
            self.iteration += 1
            self._gradient_steps += stats.gradient_steps
            self._episodes += len(rollout.episode_returns)
            self._flops += iteration_flops(self.forward_flops, config, stats.epochs_done)
            self._seconds += finished - started
            yield {
                "iteration": self.iteration,
                "step": self.iteration * config.batch_size,
                "epochs": stats.epochs,
                "epochs_done": stats.epochs_done,
                "gradient_steps": self._gradient_steps,
                "reward": math.nan if reward is None else reward,
                "gae_return": rollout.mean_return,
                "episode_return": _mean(rollout.episode_returns),
                "episode_length": _mean(rollout.episode_lengths),
                "episodes": self._episodes,
                "score": _mean(tuple(self.collector.recent_returns)),
                "explained_variance": explained_variance(rollout),
                "learning_rate": rate,
                **stats.metrics,
                "flops": self._flops,
                "seconds": self._seconds,
                "environment_seconds": rollout.environment_seconds,
                "inference_seconds": rollout.inference_seconds,
                "update_seconds": finished - updating,
                **{f"arm_{name}": value for name, value in self.scheduler.diagnostics().items()},
                **({} if self.augmenter is None else self.augmenter.record()),
            }

    def _reward(self, rollout: Rollout) -> float | None:
        """Return what the previous choice is credited with; None where no episode tells."""
        if self.config.reward_source == "gae-return":
            return rollout.mean_return
        return _mean(rollout.episode_returns) if rollout.episode_returns else None

    def _learning_rate(self) -> float:
        decayed = 1 - self.iteration / self.config.iterations if self.config.learning_rate_decay else 1.0
        return self.config.learning_rate * decayed

    def _parts(self) -> dict[str, Stateful]:
        parts: dict[str, Stateful] = {"collector": self.collector, "learner": self.learner}
        return parts if self.augmenter is None else {**parts, "augmenter": self.augmenter}

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return everything that the rest of the run depends on, as JSON-safe values and named arrays."""
        values: dict[str, Any] = {
            "iteration": self.iteration,
            "episodes": self._episodes,
            "gradient_steps": self._gradient_steps,
            "flops": self._flops,
            "seconds": self._seconds,
            "scheduler": self.scheduler.state_dict(),
        }
        arrays: dict[str, Array] = {}
        for name, part in self._parts().items():
            values[name], own = part.state()
            arrays |= {f"{name}/{key}": value for key, value in own.items()}
        return values, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state; what follows equals the uninterrupted run number for number."""
        self.scheduler.load_state_dict(values["scheduler"])
        for name, part in self._parts().items():
            prefix = f"{name}/"
            own = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
            part.load(values[name], own)
        self.iteration, self._episodes = values["iteration"], values["episodes"]
        self._gradient_steps, self._flops = values["gradient_steps"], values["flops"]
        self._seconds = values["seconds"]

    def close(self) -> None:
        """Free the environments."""
        self.environments.close()


def pick_device(name: str) -> torch.device:
    """Return the device asked for; auto takes CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}; try cpu") from error
    return device


def explained_variance(rollout: Rollout) -> float:
    """Return 1 - Var(R - V)/Var(R): 1 for a critic that foresees the returns, 0 for one that says nothing."""
    variance = float(rollout.returns.var())
    return math.nan if variance == 0 else 1 - float((rollout.returns - rollout.values).var()) / variance


def _mean(values: tuple[float, ...] | tuple[int, ...]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
