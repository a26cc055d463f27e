"""Lean inference on the CPU: a step's few rows through a small network, without a framework's cost per call."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from adept.config import Config, Execution
from adept.envs.base import Array
from adept.fast.passes import NetworkPass, by_hand
from adept.networks import Actor, ActorCritic, Decision

Floats = npt.NDArray[np.float32]

VECTOR_LIMIT, MATRIX_LIMIT = 9216, 262_144
"""Multiply-adds of one product with one row, with several, beyond which NumPy's BLAS would start threads of its own."""


def fast_actor(config: Config, network: ActorCritic, execution: Execution) -> Actor | None:
    """Return a faster way of running the policy during a rollout, or None."""
    if not by_hand(network, execution):
        return None
    largest = max(math.prod(parameter.shape) for parameter in network.parameters())
    rows = config.environments
    alone = not len(network.encoder) and largest * rows < (VECTOR_LIMIT if rows == 1 else MATRIX_LIMIT)
    return VectorActor(network) if alone else FastActor(network)


class FastActor:
    """Run a network's written-out forward pass and sample in NumPy; equal to `TorchActor` up to rounding."""

    def __init__(self, network: ActorCritic) -> None:
        self._network, self._log_std = network, network.heads.log_std
        self._pass: NetworkPass | None = None
        self._rows = 0
        self._deviation: Floats = np.ones(1, np.float32)
        self._log_density = 0.0

    def refresh(self) -> None:
        """Find the parameters where they now are, and what follows from them for every step of the rollout."""
        self._pass = None
        if self._log_std is not None:
            log_std = self._log_std.detach().numpy()
            self._deviation = np.exp(log_std)
            self._log_density = -float(log_std.sum()) - 0.5 * len(log_std) * math.log(2 * math.pi)

    def act(self, observations: Tensor, noise: Array) -> Decision:
        """Sample actions."""
        outputs, values = self._forward(observations)
        if self._log_std is None:
            return Decision(*sample_categorical(outputs, noise), values)
        log_probs = np.einsum("nk,nk->n", noise, noise) * np.float32(-0.5) + np.float32(self._log_density)
        return Decision(outputs.T + self._deviation * noise, log_probs, values)

    @torch.inference_mode()
    def _forward(self, observations: Tensor) -> tuple[Floats, Floats | None]:
        """Return the actor's outputs as (outputs, rows), and the values."""
        if self._pass is None or len(observations) != self._rows:
            self._rows = len(observations)
            self._pass = NetworkPass(self._network, tuple(observations.shape[1:]), self._rows)
        outputs, values = self._pass.forward(self._pass.prepare(observations))
        return outputs.numpy(), values[0].numpy()


class VectorActor(FastActor):
    """Run the actor alone, in NumPy, where it shares no encoder; values come cheaper in one batch after the rollout."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__(network)
        self._layers: list[tuple[Floats, Floats]] = []
        self._linear = [layer for layer in network.heads.actor if isinstance(layer, nn.Linear)]

    def refresh(self) -> None:
        """Find the parameters where they now are."""
        super().refresh()
        self._layers = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()[:, None]) for layer in self._linear]

    def _forward(self, observations: Tensor) -> tuple[Floats, Floats | None]:
        """Return the actor's outputs as (outputs, rows), and no values."""
        x: Floats = observations.numpy().reshape(len(observations), -1).T
        *hidden, (weight, bias) = self._layers
        for own_weight, own_bias in hidden:
            x = own_weight @ x
            x += own_bias
            np.tanh(x, out=x)
        x = weight @ x
        x += bias
        return x, None


def sample_categorical(logits: Floats, noise: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the first actions whose cumulative probability passes the noise, from logits as (actions, rows)."""
    shifted = logits - logits.max(0)
    weights = np.exp(shifted)
    total = weights.sum(0)
    weights /= total
    passed = (weights.cumsum(0) <= noise).sum(0)
    actions = np.minimum(passed, len(logits) - 1)  # rounding may leave the last sum just under 1
    return actions, shifted[actions, np.arange(len(actions))] - np.log(total)
