"""Lean inference on the CPU: a step's few rows through a small network, without a framework's cost per call."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from adept.config import Execution
from adept.envs.base import Array
from adept.fast.passes import GRAIN, Passes, Tower, by_hand, filled, row_bytes
from adept.networks import Actor, ActorCritic, Decision, TorchActor

Floats = npt.NDArray[np.float32]

VECTOR_LIMIT, MATRIX_LIMIT = 9216, 262_144
"""Multiply-adds of one product with one row, with several, beyond which NumPy's BLAS would start threads of its own."""


def make_actor(network: ActorCritic, device: torch.device, execution: Execution) -> Actor:
    """Return the fastest way of running the policy during a rollout."""
    return FastActor(network) if by_hand(network, execution) else TorchActor(network, device)


class FastActor:
    """Run a small network by hand and sample in NumPy; equal to `TorchActor` up to rounding.

    Where observations repeat, each is computed once per rollout. Where actor and critic share nothing, only the actor
    runs: values come cheaper in one batch after the rollout.
    """

    def __init__(self, network: ActorCritic) -> None:
        self._network, self._log_std = network, network.heads.log_std
        linear = [layer for layer in network.heads.actor if isinstance(layer, nn.Linear)]
        self._layers = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()[:, None]) for layer in linear]
        self._largest = max(weight.size for weight, _ in self._layers)
        self._tower: Tower | None = None
        self._passes = Passes(network)
        self._numbers: dict[bytes, int] = {}
        """the observations of this rollout, numbered as they come"""
        self._found: Floats = np.empty((0, 0), np.float32)
        """what sampling needs for each of them, and its value in the last column"""
        self._deviation: Floats = np.ones(1, np.float32)
        self._log_density = 0.0

    def refresh(self) -> None:
        """Forget the last rollout, made with other parameters."""
        self._numbers.clear()
        if self._log_std is not None:
            log_std = self._log_std.detach().numpy()
            self._deviation = np.exp(log_std)
            self._log_density = -float(log_std.sum()) - 0.5 * len(log_std) * math.log(2 * math.pi)

    def act(self, observations: Tensor, noise: Array) -> Decision:
        """Sample actions."""
        outputs, values = self._looked_up(observations) if self._network.repeats else (self._run(observations), None)
        if self._log_std is None:
            choices = outputs.shape[1] // 2
            actions = (outputs[:, :choices] <= noise[:, None]).sum(1)
            return Decision(actions, outputs[np.arange(len(actions)), choices + actions], values)
        log_probs = np.einsum("nk,nk->n", noise, noise) * np.float32(-0.5) + np.float32(self._log_density)
        return Decision(outputs + self._deviation * noise, log_probs, values)

    def _run(self, observations: Tensor) -> Floats:
        """Return what sampling needs for some rows, through the actor's layers alone."""
        rows = len(observations)
        if self._largest * rows >= (VECTOR_LIMIT if rows == 1 else MATRIX_LIMIT):
            self._tower = self._tower or Tower(self._network.heads.actor, rows, inner=False)
            return self._prepared(self._tower.forward(observations.view(rows, -1).T).numpy())
        x: Floats = observations.numpy().reshape(rows, -1).T
        for index, (weight, bias) in enumerate(self._layers):
            if index:
                np.tanh(x, out=x)
            x = weight @ x
            x += bias
        return self._prepared(x)

    def _looked_up(self, observations: Tensor) -> tuple[Floats, Floats]:
        """Return what sampling needs for some rows, and their values; run the network on those not yet seen."""
        numbers, keys = self._numbers, row_bytes(observations)
        known, new = len(numbers), []
        for row, key in enumerate(keys):
            if key not in numbers:
                numbers[key] = len(numbers)
                new.append(row)
        if new:
            rows = self._passes.prepare(observations).index_select(0, filled(np.array(new)))
            outputs, values = (each.numpy()[:, : len(new)] for each in self._passes.forward(rows))
            found = np.column_stack([self._prepared(outputs), values.T])
            while known + len(new) > len(self._found):  # twice as long, so that all copies together stay linear
                more = np.empty((len(self._found) + GRAIN, found.shape[1]), found.dtype)
                self._found = np.concatenate([self._found, more]) if len(self._found) else more
            self._found[known : len(numbers)] = found
        chosen = self._found[[numbers[key] for key in keys]]
        return chosen[:, :-1], chosen[:, -1]

    def _prepared(self, outputs: Floats) -> Floats:
        """Return a Gaussian's means, or of logits cumulated and log-probabilities, by row; given (outputs, rows)."""
        if self._log_std is not None:
            return outputs.T
        shifted = outputs - outputs.max(0)
        weights = np.exp(shifted)
        total = weights.sum(0)
        cumulated = (weights / total).cumsum(0)
        cumulated[-1] = 1.0  # which rounding may leave just under the noise
        return np.concatenate([cumulated, shifted - np.log(total)]).T
