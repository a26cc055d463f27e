"""The learner: epochs of gradient steps on one vector of parameters, with gradients by autograd or by hand."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from adept.config import Config
from adept.envs.base import Array
from adept.networks import ActorCritic
from adept.rollout import VALUE_CHUNK, Rollout
from adept.rules import Settings
from adept.seeding import generator

if TYPE_CHECKING:
    from adept.rules import Rule

BETAS, EPSILON = (0.9, 0.999), 1e-5
"""Adam's constants."""
ALIGNMENT = 16
"""Numbers of float32 in 64 bytes: where vector instructions like a tensor to begin."""


class Adam:
    """Move the parameters of a network into one vector, of which they become views, and optimise that.

    The network stays usable as it is. Gradients are the views `.grad` of a second vector; moments are kept likewise.
    The arithmetic is PyTorch's. Parameters that only the critic has may have a learning rate of their own.
    """

    def __init__(self, network: ActorCritic) -> None:
        critic = set(map(id, network.critic_parameters()))
        named = sorted(network.named_parameters(), key=lambda each: id(each[1]) in critic)  # the critic's own come last
        self.names, self.parameters = [name for name, _ in named], [parameter for _, parameter in named]
        starts = [0]
        for parameter in self.parameters:
            starts.append(starts[-1] + math.ceil(parameter.numel() / ALIGNMENT) * ALIGNMENT)
        self._starts, self.critic_start = starts, starts[len(named) - len(critic)]
        like = self.parameters[0]
        self.values, self.gradient, self.mean, self.square = (like.new_zeros(starts[-1]) for _ in range(4))
        self.steps = 0
        self._count = like.new_zeros((), dtype=torch.float32)
        pairs = zip(self.views(self.values), self.views(self.gradient), strict=True)
        for parameter, (values, gradient) in zip(self.parameters, pairs, strict=True):
            values.copy_(parameter.detach())
            parameter.data, parameter.grad = values, gradient

    def views(self, vector: Tensor) -> list[Tensor]:
        """Return the part of a vector that belongs to each parameter, in its shape."""
        starts = zip(self._starts, self.parameters, strict=False)
        return [vector[start : start + each.numel()].view_as(each) for start, each in starts]

    def clip(self, limit: float) -> Tensor:
        """Shorten the gradient to a length; return the length it had."""
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((limit / (norm + 1e-6)).clamp_(max=1.0))  # nothing waits for a device
        return norm

    def step(self, learning_rate: float, critic: float | None = None) -> None:
        """Follow the gradient: θ -= α·(m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + ε), with another α for the critic if given."""
        self.steps += 1
        self._count.fill_(self.steps)
        parts = [(slice(None), learning_rate)]
        if critic is not None:
            parts = [(slice(self.critic_start), learning_rate), (slice(self.critic_start, None), critic)]
        for part, rate in parts:
            torch._fused_adam_(
                [self.values[part]], [self.gradient[part]], [self.mean[part]], [self.square[part]], [], [self._count],
                lr=rate, beta1=BETAS[0], beta2=BETAS[1], weight_decay=0.0, eps=EPSILON, amsgrad=False, maximize=False,
            )  # fmt: skip

    def direction(self) -> Tensor | None:
        """Return the last step over its learning rate, -(m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + ε); None before the first."""
        if not self.steps:
            return None
        first, second = (1 - beta**self.steps for beta in BETAS)
        return -(self.mean / first) / ((self.square / second).sqrt_() + EPSILON)


class Gradients(ABC):
    """A way to the gradient of a loss over a minibatch, and to what the network gives for the rows of a rollout."""

    inference: ClassVar[bool] = False
    """whether PyTorch need not record what a gradient step does"""

    def __init__(self, network: ActorCritic, adam: Adam) -> None:
        self.network, self.adam = network, adam
        self.names: tuple[str, ...] = ()
        """names of the metrics, known with the first minibatch"""
        self.rows_at_once = network.rows_at_once if adam.values.device.type == "cpu" else None

    @abstractmethod
    def minibatches(self, rollout: Rollout, order: Tensor, settings: Settings) -> Iterator[Tensor]:
        """Set the gradient of each minibatch, whose rows are a row of `order`, in turn; yield its metrics.

        The next minibatch may overwrite the metrics.
        """

    def policy(self, rollout: Rollout, rows: Tensor | None) -> Tensor:
        """Return the parameters of the policy's distributions for a rollout's observations, or for some rows."""
        return self._passed(self.network.policy, rollout, rows)

    def values(self, rollout: Rollout, rows: Tensor | None) -> Tensor:
        """Return the critic's values of a rollout's observations, or of some rows."""
        return self._passed(self.network.values, rollout, rows)

    def _passed(self, call: Callable[[Tensor], Tensor], rollout: Rollout, rows: Tensor | None) -> Tensor:
        observations = rollout.observations if rows is None else rollout.observations[rows]
        return torch.cat([call(chunk) for chunk in torch.split(observations, self.rows_at_once or VALUE_CHUNK)])


@dataclass(frozen=True, eq=False)
class Epoch:
    """One pass over a rollout."""

    gradient_steps: int
    rows: int
    """of all gradient steps"""
    names: tuple[str, ...]
    """of the metrics"""
    means: Tensor
    """of the metrics over the gradient steps; reading `metrics` is the first to wait for a GPU"""
    learning_rate: float = math.nan
    """of the last gradient step"""

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The mean metrics by name."""
        return dict(zip(self.names, self.means.tolist(), strict=True))


class Snapshot(NamedTuple):
    """A learner's parameters and Adam's state, copied."""

    parameters: Tensor
    mean: Tensor
    square: Tensor
    steps: int


class Learner:
    """Update a network from rollouts. Its state is complete between two epochs: the caller may stop there.

    Its parameters are the `adept.hindsight.weights.Weights` that an evaluator copies and exchanges.
    """

    def __init__(self, config: Config, gradients: Gradients) -> None:
        self.network, self.gradients, self._adam = gradients.network, gradients, gradients.adam
        self._config, self._rng = config, generator(config.seed, "minibatches")

    def epochs(self, rollout: Rollout, settings: Settings, rule: Rule | None = None) -> Iterator[Epoch]:
        """Make at most `settings.epochs` passes over the rollout, one each time the iterator is advanced.

        A rule may set the learning rate of every gradient step, or Adam's step count to 0 before the first.
        """
        if rule is not None and rule.resets_steps:
            self._adam.steps = 0
        adapts = rule if rule is not None and rule.adapts_minibatches else None
        rate, size = settings.learning_rate, min(self._config.minibatch_size, len(rollout))
        for _ in range(settings.epochs):
            order = torch.from_numpy(self._rng.permutation(len(rollout)))
            # Whole minibatches: of rows that are left over, each epoch leaves out others.
            order = order[: len(order) // size * size].view(-1, size).to(rollout.returns.device, non_blocking=True)
            means, rate = self._epoch(rollout, order, settings, rate, adapts)
            yield Epoch(len(order), order.numel(), (*self.gradients.names, "gradient_norm"), means, rate)

    def _epoch(
        self, rollout: Rollout, order: Tensor, settings: Settings, rate: float, rule: Rule | None
    ) -> tuple[Tensor, float]:
        """Make a gradient step on each minibatch; return their mean metrics and the last learning rate.

        Metrics are averaged on the device: nothing waits for the numbers until they are asked for.
        """
        adam, steps = self._adam, []
        with torch.inference_mode(self.gradients.inference):
            for metrics in self.gradients.minibatches(rollout, order, settings):
                norm = adam.clip(self._config.max_gradient_norm)
                if rule is not None:
                    kl = metrics[self.gradients.names.index("approx_kl")]
                    rate = rule.adapt(rate, kl=kl, gradient=adam.gradient, direction=adam.direction())
                adam.step(rate, settings.critic_learning_rate)
                steps.append(torch.cat((metrics, norm.view(1))))
            return torch.stack(steps).mean(0), rate

    def parameters(self) -> Tensor:
        """Return a copy of the parameters as one vector."""
        return self._adam.values.clone()

    copy = parameters

    def current(self) -> AbstractContextManager[None]:
        """Leave the present parameters in place: forward passes change nothing."""
        return nullcontext()

    @contextmanager
    def at(self, parameters: Tensor) -> Iterator[None]:
        """Give the network other parameters inside a `with` block, and its own back at the end, bit for bit."""
        own = self.parameters()
        self._adam.values.copy_(parameters)
        try:
            yield
        finally:
            self._adam.values.copy_(own)

    def interpolate(self, start: Tensor, share: float) -> AbstractContextManager[None]:
        """Give the network start + share·(present - start) inside a `with` block."""
        return self.at(start + share * (self._adam.values - start))

    def snapshot(self) -> Snapshot:
        """Return copies of the parameters and of Adam's state."""
        adam = self._adam
        return Snapshot(adam.values.clone(), adam.mean.clone(), adam.square.clone(), adam.steps)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this learner."""
        adam = self._adam
        for own, saved in zip((adam.values, adam.mean, adam.square), snapshot[:3], strict=True):
            own.copy_(saved)
        adam.steps = snapshot.steps
        adam.gradient.zero_()  # clipping may have made NaN of the gaps between parameters

    @torch.inference_mode()
    def log_probs(self, rollout: Rollout, rows: Tensor | None = None) -> Tensor:
        """Return the log-probabilities of the rollout's actions, or of some rows', under the present parameters."""
        actions = rollout.actions if rows is None else rollout.actions[rows]
        return self.network.distribution.log_prob(self.gradients.policy(rollout, rows), actions)

    @torch.inference_mode()
    def values(self, rollout: Rollout, rows: Tensor | None = None) -> Tensor:
        """Return the critic's values of the rollout's observations, or of some rows', under the present parameters."""
        return self.gradients.values(rollout, rows)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the network, Adam's moments and the generator, as JSON-safe values and named arrays."""
        arrays: dict[str, Array] = {}
        for name, values, mean, square in self._named():
            arrays[f"network/{name}"] = values.cpu().numpy()
            if self._adam.steps:
                arrays[f"adam/step/{name}"] = torch.tensor(self._adam.steps, dtype=torch.float32).numpy()
                arrays[f"adam/exp_avg/{name}"] = mean.cpu().numpy()
                arrays[f"adam/exp_avg_sq/{name}"] = square.cpu().numpy()
        return {"rng": self._rng.bit_generator.state}, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""
        load_network(self.network, arrays)
        self._rng.bit_generator.state = values["rng"]
        self._adam.steps = 0
        for name, _, mean, square in self._named():
            if f"adam/step/{name}" in arrays:
                self._adam.steps = int(arrays[f"adam/step/{name}"])
                mean.copy_(torch.from_numpy(arrays[f"adam/exp_avg/{name}"]))
                square.copy_(torch.from_numpy(arrays[f"adam/exp_avg_sq/{name}"]))
            else:  # saved before the first step
                mean.zero_()
                square.zero_()

    def _named(self) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
        """Yield the name of each parameter, its numbers, their running mean gradient and mean square."""
        vectors = (self._adam.values, self._adam.mean, self._adam.square)
        return zip(self._adam.names, *map(self._adam.views, vectors), strict=True)


def mean_metrics(epochs: Sequence[Epoch], *, undone: bool = False) -> dict[str, float]:
    """Return the means over every minibatch of every epoch of an update, and the last epoch's KL estimate.

    A last epoch that was undone may have come to numbers that are not finite: it is then left out, and what no epoch
    tells is NaN.
    """
    last = epochs[-1]
    lost = undone and not all(map(math.isfinite, last.metrics.values()))
    kept = epochs[:-1] if lost else epochs
    if not kept:
        return dict.fromkeys((*last.names, "approx_kl_last_epoch"), math.nan)
    means = torch.stack([epoch.means for epoch in kept]).mean(0).tolist()
    metrics = dict(zip(last.names, means, strict=True))
    metrics["approx_kl_last_epoch"] = kept[-1].metrics["approx_kl"]
    if not all(map(math.isfinite, metrics.values())):
        raise ValueError(f"the loss is no longer a finite number ({metrics}); lower the learning rate")
    return metrics


def load_network(network: ActorCritic, arrays: dict[str, Array]) -> None:
    """Set a network's parameters from the arrays of a checkpoint."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            saved = arrays.get(f"network/{name}")
            if saved is None or saved.shape != parameter.shape:
                shape = None if saved is None else saved.shape
                raise ValueError(f"the checkpoint's {name} has shape {shape}, the network's {tuple(parameter.shape)}")
            parameter.copy_(torch.from_numpy(saved))
