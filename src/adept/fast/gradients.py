"""PPO's gradients by hand, for the small networks on the CPU: several times as fast as autograd.

The loss is a mean over B rows, so that every gradient below carries 1/B. As a function for autograd it is
`adept.algorithms.ppo.PPO.surrogate`, the reference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from adept.algorithms import ALGORITHMS
from adept.algorithms.autograd import Autograd, Loss
from adept.algorithms.learner import Adam, Gradients
from adept.config import Config, Execution
from adept.envs.base import Array
from adept.fast.passes import DistinctPasses, Passes, by_hand
from adept.networks import ActorCritic
from adept.rollout import Rollout
from adept.rules import Settings

METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_deviation")

Floats = npt.NDArray[np.floating[Any]]


def make_gradients(config: Config, network: ActorCritic, loss: Loss, execution: Execution) -> Gradients:
    """Return the fastest way to the gradients of an update."""
    fast = ALGORITHMS[config.algo].fast and by_hand(network, execution)
    return ByHand(config, network) if fast else Autograd(config, network, loss)


class Targets(NamedTuple):
    """What PPO knows of the rows of a minibatch; `costs` are the normalised advantages, negated."""

    actions: Array
    log_probs: Floats
    values: Floats
    returns: Floats
    costs: Floats


class CategoricalPolicy:
    """Outputs, which are (outputs, rows), are logits: ∂ ln p(a)/∂z = 1ₐ - p and ∂H/∂z = -p·(ln p + H)."""

    def forward(self, outputs: Floats, actions: Array) -> tuple[Floats, Floats]:
        """Return the log-probability of each action, log softmax, and the entropy of each row, -Σ p·ln p."""
        shifted = outputs - outputs.max(0)
        weights = np.exp(shifted)
        total = weights.sum(0)
        self._taken = (actions, np.arange(len(actions)))
        self._p, self._log = weights / total, shifted - np.log(total)
        self._entropy = -(self._p * self._log).sum(0)
        return self._log[self._taken], self._entropy

    def backward(self, by_log_prob: Floats, by_entropy: float) -> Floats:
        """Return the gradient of the logits from those of each log-probability and of every entropy."""
        gradient: Floats = ((self._log + self._entropy) * -by_entropy - by_log_prob) * self._p
        gradient[self._taken] += by_log_prob
        return gradient


class GaussianPolicy:
    """Outputs are means, ln σ a parameter: with z = (a-μ)/σ, ∂ ln p/∂μ = z/σ, ∂ ln p/∂ ln σ = z²-1, ∂H/∂ ln σ = 1."""

    def __init__(self, log_std: nn.Parameter) -> None:
        assert log_std.grad is not None
        self._log_std, self._log_std_gradient = log_std.detach().numpy(), log_std.grad.numpy()

    def forward(self, outputs: Floats, actions: Array) -> tuple[Floats, Floats]:
        """Return Σ -½z² - ln σ - ½ ln 2π, and Σ ln σ + ½ ln 2πe, the same for every row."""
        self._precision = np.exp(-self._log_std)[:, None]
        self._z = (actions.T - outputs) * self._precision
        self._z_squared = self._z * self._z
        spread, size = self._log_std.sum(), len(self._log_std)
        log_probs = self._z_squared.sum(0) * -0.5 - (spread + 0.5 * size * math.log(2 * math.pi))
        return log_probs, spread + 0.5 * size * math.log(2 * math.pi * math.e)

    def backward(self, by_log_prob: Floats, by_entropy: float) -> Floats:
        """Return the gradient of the means; set that of ln σ."""
        gradient = np.einsum("kn,n->k", self._z_squared - 1, by_log_prob)
        self._log_std_gradient[...] = gradient + by_entropy * len(by_log_prob)
        by_mean: Floats = self._z * self._precision * by_log_prob
        return by_mean


class Surrogate:
    """The loss's gradient; `metrics` holds the means of the last call, in the order of `METRICS`.

    In NumPy: on the few numbers of a minibatch its calls take half the time of PyTorch's.
    """

    def __init__(self, config: Config, network: ActorCritic, rows: int) -> None:
        self._config, self._share = config, 1 / rows
        log_std = network.heads.log_std
        self._policy = CategoricalPolicy() if log_std is None else GaussianPolicy(log_std)
        self._per_row = torch.empty(len(METRICS), rows).numpy()
        self.metrics = torch.empty(len(METRICS))

    @np.errstate(all="ignore")
    def gradient(self, outputs: Tensor, values: Tensor, targets: Targets, settings: Settings) -> tuple[Tensor, Tensor]:
        """Return the gradients of the actor's outputs and of the values, the latter as (1, rows)."""
        log_probs, self._per_row[2] = self._policy.forward(outputs.numpy(), targets.actions)
        by_log_prob = self._of_log_probs(log_probs, targets, settings.clip_range)
        actor = self._policy.backward(by_log_prob, -settings.entropy_coefficient * self._share)
        critic = self._of_values(values.numpy()[0], targets, settings.clip_range)
        self.metrics = torch.from_numpy(self._per_row.mean(1))
        return torch.from_numpy(actor), torch.from_numpy(critic[None])

    def _of_log_probs(self, log_probs: Floats, targets: Targets, range_: float) -> Floats:
        """Return the gradient of max(-A·ρ, -A·clip(ρ)): -A·ρ where the first is not the smaller one, else 0."""
        losses, _, _, kl, clipped, deviation = self._per_row
        log_ratio = log_probs - targets.log_probs
        ratio = np.exp(log_ratio)
        free = targets.costs * ratio
        bound = np.minimum(np.maximum(ratio, 1 - range_), 1 + range_) * targets.costs
        np.maximum(free, bound, out=losses)
        ratio -= 1
        np.subtract(ratio, log_ratio, out=kl)
        np.abs(ratio, out=deviation)
        np.greater(deviation, range_, out=clipped)
        return np.where(free >= bound, free, 0.0) * self._share

    def _of_values(self, values: Floats, targets: Targets, range_: float) -> Floats:
        """Return the gradient of ½·max((V-R)², (V_old + clip(V-V_old) - R)²), or of ½·(V-R)² without clipping."""
        errors = self._per_row[1]
        distance = values - targets.returns
        np.multiply(distance, distance * 0.5, out=errors)
        if self._config.clip_value_loss:
            change = values - targets.values
            bounded = np.minimum(np.maximum(change, -range_), range_)
            inside = bounded == change
            bounded += targets.values
            bounded -= targets.returns
            squared = bounded * bounded * 0.5
            distance = np.where(errors >= squared, distance, np.where(inside, bounded, 0.0))
            np.maximum(errors, squared, out=errors)
        return distance * (self._config.value_coefficient * self._share)


class ByHand(Gradients):
    """PPO's gradients of a small network, equal to autograd's up to rounding."""

    inference: ClassVar[bool] = True

    def __init__(self, config: Config, network: ActorCritic) -> None:
        super().__init__(network, Adam(network))
        self._config, self.names = config, METRICS
        self._passes = (DistinctPasses if network.repeats else Passes)(network)
        self._losses: dict[int, Surrogate] = {}
        """by the size of a minibatch: the configuration's, or less where a rollout has less"""
        self._prepared: tuple[Rollout, Tensor] | None = None

    def minibatches(self, rollout: Rollout, order: Tensor, settings: Settings) -> Iterator[Tensor]:
        """Set the gradient of each minibatch in turn, a slice of rows that are shuffled once; yield its metrics."""
        count, size = order.shape
        if size not in self._losses:
            self._losses[size] = Surrogate(self._config, self.network, size)
        loss = self._losses[size]
        chosen = order.view(-1)
        rows = self._rows(rollout).index_select(0, chosen)

        def shuffled(column: Tensor) -> Array:
            values: Array = column.index_select(0, chosen).numpy()
            return values.reshape(count, size, *values.shape[1:])

        advantages = shuffled(rollout.advantages)
        costs = -advantages  # a single one has no spread
        if size > 1:
            deviation = advantages.std(1, keepdims=True, ddof=1)
            costs = (advantages.mean(1, keepdims=True) - advantages) / (deviation + 1e-8)
        columns = (rollout.actions, rollout.log_probs, rollout.values, rollout.returns)
        for own, *targets in zip(torch.split(rows, size), *map(shuffled, columns), costs, strict=True):
            outputs, values = self._passes.forward(own)
            self._passes.backward(*loss.gradient(outputs, values, Targets(*targets), settings))
            yield loss.metrics

    def _rows(self, rollout: Rollout) -> Tensor:
        """Return what a pass takes rows of, made once per rollout."""
        if self._prepared is None or self._prepared[0] is not rollout:
            self._prepared = (rollout, self._passes.prepare(rollout.observations))
        return self._prepared[1]

    def policy(self, rollout: Rollout, rows: Tensor | None) -> Tensor:
        """Return the parameters of the policy's distributions; equal observations are computed once."""
        if not self.network.repeats:
            return super().policy(rollout, rows)
        return self.network.heads.parameters_of(self._outputs(rollout, rows)[0].T)

    def values(self, rollout: Rollout, rows: Tensor | None) -> Tensor:
        """Return the critic's values; equal observations are computed once."""
        return self._outputs(rollout, rows)[1].squeeze(0) if self.network.repeats else super().values(rollout, rows)

    def _outputs(self, rollout: Rollout, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        numbers = self._rows(rollout)
        return self._passes.forward(numbers if rows is None else numbers[rows])
