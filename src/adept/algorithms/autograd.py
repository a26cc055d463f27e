"""Gradients by autograd, of any network and any loss, on any device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adept.algorithms.learner import Adam, Gradients
from adept.config import Config
from adept.envs.base import Array
from adept.networks import ActorCritic
from adept.rollout import Rollout
from adept.rules import Settings


class Minibatch(NamedTuple):
    """Rows of a rollout; the advantages are normalised over the whole minibatch."""

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


class Loss(ABC):
    """Map a minibatch to (loss, metrics): a mean over its rows, and named numbers without gradients."""

    @abstractmethod
    def __call__(
        self, network: ActorCritic, minibatch: Minibatch, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and its metrics."""

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what the next call depends on, as JSON-safe values and named arrays; nothing unless overridden."""
        return {}, {}

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:  # noqa: B027
        """Continue from a saved state."""


class Autograd(Gradients):
    """The reference: PyTorch's gradients of a loss, and PyTorch's Adam."""

    def __init__(self, config: Config, network: ActorCritic, loss: Loss) -> None:
        super().__init__(network, Adam(network))
        self._loss = loss
        self._chunk = self.rows_at_once or config.minibatch_size

    def minibatches(self, rollout: Rollout, order: Tensor, settings: Settings) -> Iterator[Tensor]:
        """Set the gradient of each minibatch in turn; yield its metrics."""
        for rows in order:
            metrics = self._gradient(take_rows(rollout, rows), settings)
            self.names = tuple(metrics)
            yield torch.stack(list(metrics.values()))

    def _gradient(self, minibatch: Minibatch, settings: Settings) -> dict[str, Tensor]:
        """Set the gradient of a minibatch, in chunks that fit memory; return its metrics."""
        self.adam.gradient.zero_()
        totals: dict[str, Tensor] = {}
        chunks = zip(*(torch.split(column, self._chunk) for column in minibatch), strict=True)
        for chunk in map(Minibatch._make, chunks):
            share = len(chunk.returns) / len(minibatch.returns)
            loss, metrics = self._loss(self.network, chunk, settings)
            (loss * share).backward()  # type: ignore[no-untyped-call]
            for name, value in metrics.items():
                totals[name] = totals.get(name, torch.zeros((), device=value.device)) + value * share
        return totals


def take_rows(rollout: Rollout, rows: Tensor) -> Minibatch:
    """Return some rows of a rollout, their advantages normalised; a single one has no spread, and stays as it is."""
    advantages = rollout.advantages[rows]
    if len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return Minibatch(
        rollout.observations[rows],
        rollout.actions[rows],
        rollout.log_probs[rows],
        rollout.values[rows],
        advantages,
        rollout.returns[rows],
    )
