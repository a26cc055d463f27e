"""The epoch loop: passes over a rollout in shuffled minibatches, each of them one gradient step on a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from adept.config import Config
from adept.envs.base import Array
from adept.networks import ActorCritic, ImpalaNetwork
from adept.rollout import Rollout
from adept.seeding import generator, generator_state, set_generator_state

IMAGE_CHUNK = 64
"""Rows of one forward and backward pass of an image network on the CPU: more only costs memory and cache."""

METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


class Minibatch(NamedTuple):
    """Rows of a rollout; the advantages are normalised over the whole minibatch."""

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


Loss = Callable[[ActorCritic, Minibatch], tuple[Tensor, dict[str, Tensor]]]
"""From a minibatch to what is minimised, a mean over its rows, and to metrics without gradients."""

Stop = Callable[[Mapping[str, float]], bool]
"""A rule asked after each epoch, with the epoch's mean metrics, whether the update should stop there."""


@dataclass(frozen=True)
class UpdateStats:
    """What an update did: epochs asked for and done, and means over every minibatch of every epoch."""

    epochs: int
    epochs_done: int
    gradient_steps: int
    metrics: dict[str, float]


class Learner:
    """Hold the network and its optimiser, and update them from rollouts."""

    def __init__(self, config: Config, network: ActorCritic, loss: Loss, device: torch.device) -> None:
        self.network = network
        self._config, self._loss, self._device = config, loss, device
        self._optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        self._rng = generator(config.seed, "minibatches")
        on_cpu = device.type == "cpu" and isinstance(network, ImpalaNetwork)
        self._chunk = IMAGE_CHUNK if on_cpu else config.minibatch_size

    def update(self, rollout: Rollout, epochs: int, stop: Stop | None = None, *, learning_rate: float) -> UpdateStats:
        """Make so many passes over the rollout, or fewer where the rule says stop."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        means: list[Tensor] = []
        for _ in range(epochs):
            means.append(self._epoch(rollout))
            if stop is not None and stop(self._named(means[-1])):
                break
        metrics = self._named(torch.stack(means).mean(0))
        last = self._named(means[-1])
        metrics["approx_kl_last_epoch"] = last["approx_kl"]
        if not all(np.isfinite(value) for value in metrics.values()):
            raise ValueError(f"the loss is no longer a finite number ({metrics}); lower the learning rate")
        return UpdateStats(epochs, len(means), len(means) * self._config.minibatches, metrics)

    def _epoch(self, rollout: Rollout) -> Tensor:
        """Make one pass over the rollout; return the mean metrics in the order of their names."""
        # One stack per epoch, averaged on the device: nothing waits for the numbers until they are asked for.
        return torch.stack([self._gradient_step(rollout, rows) for rows in self._minibatches()]).mean(0)

    def _minibatches(self) -> tuple[Tensor, ...]:
        order = torch.from_numpy(self._rng.permutation(self._config.batch_size))
        return torch.split(order.to(self._device, non_blocking=True), self._config.minibatch_size)

    def _gradient_step(self, rollout: Rollout, rows: Tensor) -> Tensor:
        """Make one gradient step on some rows; return the metrics in the order of their names."""
        minibatch = take_rows(rollout, rows)
        self._optimizer.zero_grad(set_to_none=True)
        totals: dict[str, Tensor] = {}
        chunks = zip(*(torch.split(column, self._chunk) for column in minibatch), strict=True)
        for chunk in map(Minibatch._make, chunks):
            share = len(chunk.returns) / len(rows)
            loss, metrics = self._loss(self.network, chunk)
            (loss * share).backward()  # type: ignore[no-untyped-call]
            for name, value in metrics.items():
                totals[name] = totals.get(name, torch.zeros((), device=self._device)) + value * share
        totals["gradient_norm"] = nn.utils.clip_grad_norm_(self.network.parameters(), self._config.max_gradient_norm)
        self._optimizer.step()
        self._names = tuple(totals)
        return torch.stack(list(totals.values()))

    def _named(self, values: Tensor) -> dict[str, float]:
        return dict(zip(self._names, values.tolist(), strict=True))

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the network, the optimiser's moments and the generator, as JSON-safe values and arrays."""
        arrays: dict[str, Array] = {}
        for name, parameter in self.network.named_parameters():
            arrays[f"network/{name}"] = parameter.detach().cpu().numpy()
            for key, value in self._optimizer.state.get(parameter, {}).items():
                arrays[f"adam/{key}/{name}"] = value.detach().cpu().numpy()
        return {"rng": generator_state(self._rng)}, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""
        load_network(self.network, arrays)
        set_generator_state(self._rng, values["rng"])
        for name, parameter in self.network.named_parameters():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                saved = arrays.get(f"adam/{key}/{name}")
                if saved is not None:
                    self._optimizer.state[parameter][key] = torch.from_numpy(saved.copy()).to(self._device)


def load_network(network: ActorCritic, arrays: dict[str, Array]) -> None:
    """Set a network's parameters from the arrays of a checkpoint."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            saved = arrays.get(f"network/{name}")
            if saved is None or saved.shape != parameter.shape:
                shape = None if saved is None else saved.shape
                raise ValueError(f"the checkpoint's {name} has shape {shape}, the network's {tuple(parameter.shape)}")
            parameter.copy_(torch.from_numpy(saved))


def take_rows(rollout: Rollout, rows: Tensor) -> Minibatch:
    """Return some rows of a rollout, their advantages normalised."""
    advantages = rollout.advantages[rows]
    return Minibatch(
        rollout.observations[rows],
        rollout.actions[rows],
        rollout.log_probs[rows],
        rollout.values[rows],
        (advantages - advantages.mean()) / (advantages.std() + 1e-8),
        rollout.returns[rows],
    )
