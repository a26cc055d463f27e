"""PPO's gradients by hand, for the small networks on the CPU: several times as fast as autograd.

The loss is a mean over B rows, so that every gradient below carries 1/B. As a function for autograd it is
`adept.algorithms.ppo.PPO.surrogate`, the reference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from adept.algorithms import ALGORITHMS
from adept.algorithms.learner import Adam, Gradients
from adept.config import Config, Execution
from adept.fast.passes import DistinctPass, NetworkPass, SizedPasses, by_hand, distinct
from adept.networks import ActorCritic
from adept.rollout import Rollout
from adept.rules import Settings

GRAIN = 8
"""Distinct rows are filled up to a multiple of this: their number varies."""
METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "ratio_deviation")


def fast_gradients(config: Config, network: ActorCritic, execution: Execution) -> Gradients | None:
    """Return a faster way to the gradients of an update, or None."""
    return ByHand(config, network) if ALGORITHMS[config.algo].fast and by_hand(network, execution) else None


class Targets(NamedTuple):
    """What PPO knows of the rows of a minibatch; `costs` are the normalised advantages, negated."""

    actions: Tensor
    log_probs: Tensor
    values: Tensor
    returns: Tensor
    costs: Tensor


class Policy(Protocol):
    """A family of distributions on top of the actor's outputs, which are (outputs, rows)."""

    def forward(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each action, and the entropy of each row or the one of all."""

    def backward(self, by_log_prob: Tensor, by_entropy: float) -> Tensor:
        """Return the gradient of the outputs from those of each log-probability and of every entropy."""


class CategoricalPolicy:
    """Outputs are logits: ∂ ln p(a)/∂z = 1ₐ - p and ∂H/∂z = -p·(ln p + H)."""

    def forward(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return log softmax at the actions, and -Σ p·ln p."""
        self._actions, self._log = actions.unsqueeze(0), torch.log_softmax(outputs, 0)
        self._p = self._log.exp()
        self._entropy = (self._p * self._log).sum(0).neg_()
        return self._log.gather(0, self._actions).squeeze(0), self._entropy

    def backward(self, by_log_prob: Tensor, by_entropy: float) -> Tensor:
        """Return the gradient of the logits."""
        gradient = (self._log + self._entropy).mul_(-by_entropy).sub_(by_log_prob).mul_(self._p)
        return gradient.scatter_add_(0, self._actions, by_log_prob.unsqueeze(0))


class GaussianPolicy:
    """Outputs are means, ln σ a parameter: with z = (a-μ)/σ, ∂ ln p/∂μ = z/σ, ∂ ln p/∂ ln σ = z²-1, ∂H/∂ ln σ = 1."""

    def __init__(self, log_std: nn.Parameter, rows: int) -> None:
        self._log_std, self._log_std_gradient = log_std.detach(), log_std.grad
        self._rows = rows

    def forward(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return Σ -½z² - ln σ - ½ ln 2π, and Σ ln σ + ½ ln 2πe, the same for every row."""
        self._precision = self._log_std.neg().exp_().unsqueeze(1)
        self._z = (actions.T - outputs).mul_(self._precision)
        self._z_squared = self._z.square()
        spread, size = self._log_std.sum(), len(self._log_std)
        log_probs = self._z_squared.sum(0).mul_(-0.5).sub_(spread + 0.5 * size * math.log(2 * math.pi))
        return log_probs, spread + 0.5 * size * math.log(2 * math.pi * math.e)

    def backward(self, by_log_prob: Tensor, by_entropy: float) -> Tensor:
        """Return the gradient of the means; set that of ln σ."""
        torch.mv(self._z_squared.sub_(1), by_log_prob, out=self._log_std_gradient)
        if by_entropy:
            assert self._log_std_gradient is not None
            self._log_std_gradient.add_(by_entropy * self._rows)
        return self._z.mul_(self._precision).mul_(by_log_prob)


class Surrogate:
    """The loss's gradient; `metrics` holds the means of the last call, in the order of `METRICS`."""

    def __init__(self, config: Config, network: ActorCritic, rows: int) -> None:
        self._config, self._share = config, 1 / rows
        self._per_row = torch.empty(len(METRICS), rows)
        log_std = network.heads.log_std
        self._policy: Policy = CategoricalPolicy() if log_std is None else GaussianPolicy(log_std, rows)
        self.metrics = torch.empty(len(METRICS))

    def gradient(self, outputs: Tensor, values: Tensor, targets: Targets, settings: Settings) -> tuple[Tensor, Tensor]:
        """Return the gradients of the actor's outputs and of the values."""
        log_probs, entropy = self._policy.forward(outputs, targets.actions)
        self._per_row[2] = entropy
        by_log_prob = self._of_log_probs(log_probs, targets, settings.clip_range)
        by_entropy = -settings.entropy_coefficient * self._share
        actor, critic = (
            self._policy.backward(by_log_prob, by_entropy),
            self._of_values(values, targets, settings.clip_range),
        )
        torch.mean(self._per_row, 1, out=self.metrics)
        self.metrics[1] *= 0.5
        return actor, critic

    def _of_log_probs(self, log_probs: Tensor, targets: Targets, range_: float) -> Tensor:
        """Return the gradient of max(-A·ρ, -A·clip(ρ)): -A·ρ where the first is not the smaller one, else 0."""
        losses, _, _, kl, clipped, deviation = self._per_row
        log_ratio = log_probs - targets.log_probs
        ratio = log_ratio.exp()
        free = targets.costs * ratio
        bound = ratio.clamp(1 - range_, 1 + range_).mul_(targets.costs)
        torch.maximum(free, bound, out=losses)
        change = ratio.sub_(1)
        torch.sub(change, log_ratio, out=kl)
        torch.abs(change, out=deviation)
        clipped.copy_(deviation > range_)
        return torch.where(free >= bound, free, 0.0).mul_(self._share)

    def _of_values(self, values: Tensor, targets: Targets, range_: float) -> Tensor:
        """Return the gradient of ½·max((V-R)², (V_old + clip(V-V_old) - R)²), or of ½·(V-R)² without clipping."""
        errors = self._per_row[1]
        distance = values - targets.returns
        torch.mul(distance, distance, out=errors)
        if self._config.clip_value_loss:
            change = values - targets.values
            bounded = change.clamp(-range_, range_)
            inside = bounded == change
            bounded.add_(targets.values).sub_(targets.returns)
            squared = bounded.square()
            free = errors >= squared
            distance = torch.where(free, distance, torch.where(inside, bounded, 0.0))
            torch.maximum(errors, squared, out=errors)
        return distance.mul_(self._config.value_coefficient * self._share)


class ByHand(Gradients):
    """PPO's gradients of a small network, equal to autograd's up to rounding."""

    inference: ClassVar[bool] = True

    def __init__(self, config: Config, network: ActorCritic) -> None:
        super().__init__(network, Adam(network))
        self._config, self.names = config, METRICS
        self._sized: dict[int, tuple[NetworkPass | DistinctPass, Surrogate]] = {}
        """passes and loss by the size of a minibatch: the configuration's, or less where a rollout has less"""
        self._numbered: tuple[Rollout, Tensor, Tensor] | None = None
        """the rollout that was last asked for, its distinct observations and each row's number"""
        self._distinct: DistinctPass | None = None

    def minibatches(self, rollout: Rollout, order: Tensor, settings: Settings) -> Iterator[Tensor]:
        """Set the gradient of each minibatch in turn, a slice of rows that are shuffled once; yield its metrics."""
        count, size = order.shape
        if size not in self._sized:
            repeats, shape = self.network.repeats, tuple(rollout.observations.shape[1:])
            made = self._pass(rollout) if repeats else NetworkPass(self.network, shape, size)
            self._sized[size] = (made, Surrogate(self._config, self.network, size))
        network, loss = self._sized[size]
        rows = self._rows(network, rollout)
        order = order.view(-1)

        def shuffled(column: Tensor) -> Tensor:
            return column.index_select(0, order).view(count, size, *column.shape[1:])

        advantages = shuffled(rollout.advantages)
        costs = -advantages  # a single one has no spread
        if size > 1:
            costs = (advantages.mean(1, keepdim=True) - advantages) / (advantages.std(1, keepdim=True) + 1e-8)
        columns = (rows, rollout.actions, rollout.log_probs, rollout.values, rollout.returns)
        for chosen, *targets in zip(*map(shuffled, columns), costs, strict=True):
            outputs, values = network.forward(chosen)
            actor, critic = loss.gradient(outputs, values.squeeze(0), Targets(*targets), settings)
            network.backward(actor, critic.unsqueeze(0))
            yield loss.metrics

    def _pass(self, rollout: Rollout) -> DistinctPass:
        if self._distinct is None:
            self._distinct = DistinctPass(SizedPasses(self.network, tuple(rollout.observations.shape[1:]), GRAIN))
        return self._distinct

    def _rows(self, network: NetworkPass | DistinctPass, rollout: Rollout) -> Tensor:
        """Return what a pass takes rows of; distinct observations are found once per rollout."""
        if isinstance(network, NetworkPass):
            return network.prepare(rollout.observations)
        if self._numbered is None or self._numbered[0] is not rollout:
            self._numbered = (rollout, *distinct(rollout.observations))
        return network.number(*self._numbered[1:])

    def policy(self, rollout: Rollout, rows: Tensor | None) -> Tensor:
        """Return the parameters of the policy's distributions; equal observations are computed once."""
        if not self.network.repeats:
            return super().policy(rollout, rows)
        return self.network.heads.parameters_of(self._outputs(rollout, rows)[0].T)

    def values(self, rollout: Rollout, rows: Tensor | None) -> Tensor:
        """Return the critic's values; equal observations are computed once."""
        return self._outputs(rollout, rows)[1].squeeze(0) if self.network.repeats else super().values(rollout, rows)

    def _outputs(self, rollout: Rollout, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        network = self._pass(rollout)
        numbers = self._rows(network, rollout)
        return network.forward(numbers if rows is None else numbers[rows])
