"""The epoch loop: passes over a rollout in shuffled minibatches, each of them one gradient step on a loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from adept.config import Config
from adept.envs.base import Array
from adept.networks import ActorCritic, ImpalaNetwork
from adept.rollout import VALUE_CHUNK, Rollout
from adept.rules import Settings
from adept.seeding import generator

if TYPE_CHECKING:
    from adept.rules import Rule

BETAS, EPSILON = (0.9, 0.999), 1e-5
"""Adam's constants."""
IMAGE_CHUNK = 64
"""Rows of one forward and backward pass of an image network on the CPU: more only costs memory and cache."""


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
    def __call__(self, network: ActorCritic, minibatch: Minibatch, plan: Settings) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and its metrics."""

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what the next call depends on, as JSON-safe values and named arrays; nothing unless overridden."""
        return {}, {}

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:  # noqa: B027
        """Continue from a saved state."""


class Epoch(Mapping[str, float]):
    """One pass over a rollout: its number within the update, its gradient steps, their rows, mean metrics by name.

    The metrics stay on the device until the first of them is read: that alone waits for a GPU.
    `learning_rate` is that of the last gradient step.
    """

    def __init__(
        self, index: int, gradient_steps: int, rows: int, names: tuple[str, ...], means: Tensor,
        learning_rate: float = math.nan,
    ) -> None:  # fmt: skip
        self.index, self.gradient_steps, self.rows = index, gradient_steps, rows
        self.names, self.means, self.learning_rate = names, means, learning_rate
        self._read: dict[str, float] | None = None

    def _metrics(self) -> dict[str, float]:
        if self._read is None:
            self._read = dict(zip(self.names, self.means.tolist(), strict=True))
        return self._read

    def __getitem__(self, name: str) -> float:
        return self._metrics()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class Snapshot(NamedTuple):
    """A learner's parameters and optimiser, copied: flat vectors in the learner's own order."""

    parameters: Tensor
    moments: tuple[Tensor, Tensor, Tensor] | None
    """Adam's running mean and mean square of gradients, and its steps; None before the first"""


class Learner(Protocol):
    """Update a network from rollouts. Between two epochs its state is complete: whoever iterates may stop there."""

    network: ActorCritic

    def epochs(self, rollout: Rollout, plan: Settings, rule: Rule | None = None) -> Iterator[Epoch]:
        """Make at most `plan.epochs` passes over the rollout, one each time the iterator is advanced.

        A rule may set the learning rate of every gradient step, or Adam's step count to 0 before the first.
        """

    def parameters(self) -> Tensor:
        """Return a copy of the parameters as one vector."""

    def at(self, parameters: Tensor) -> AbstractContextManager[None]:
        """Give the network other parameters inside a `with` block, and its own back at the end, bit for bit."""

    def snapshot(self) -> Snapshot:
        """Return copies of the parameters and of the optimiser's state."""

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this learner."""

    def log_probs(self, rollout: Rollout, rows: Tensor | None = None) -> Tensor:
        """Return the log-probabilities of the rollout's actions, or of some rows', under the present parameters."""

    def values(self, rollout: Rollout, rows: Tensor | None = None) -> Tensor:
        """Return the critic's values of the rollout's observations, or of some rows', under the present parameters."""

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the network, the optimiser and the generator, as JSON-safe values and named arrays."""

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""


class ReferenceLearner:
    """Any network and any loss, on any device, with autograd and PyTorch's Adam."""

    def __init__(self, config: Config, network: ActorCritic, loss: Loss, device: torch.device) -> None:
        self.network = network
        self._config, self._loss, self._device = config, loss, device
        critic = network.critic_parameters()
        only = set(map(id, critic))
        rest = [parameter for parameter in network.parameters() if id(parameter) not in only]
        groups = [{"params": rest}, {"params": critic}]
        self._optimizer = torch.optim.Adam(groups, betas=BETAS, eps=EPSILON, fused=True)  # its rates are the plan's
        self._rng = generator(config.seed, "minibatches")
        images_on_cpu = device.type == "cpu" and isinstance(network, ImpalaNetwork)
        self._chunk = IMAGE_CHUNK if images_on_cpu else config.minibatch_size

    def epochs(self, rollout: Rollout, plan: Settings, rule: Rule | None = None) -> Iterator[Epoch]:
        """Make at most `plan.epochs` passes over the rollout."""
        self._set_rates(plan.learning_rate, plan.critic_learning_rate)
        if rule is not None and rule.resets_steps:
            for state in self._optimizer.state.values():
                state["step"].zero_()
        adapts = rule if rule is not None and rule.adapts_minibatches else None
        for index in range(1, plan.epochs + 1):
            minibatches = self._minibatches(rollout)
            steps = [self._gradient_step(rollout, rows, plan, adapts) for rows in minibatches]
            # One stack per epoch, averaged on the device: nothing waits for the numbers until they are asked for.
            means = torch.stack([torch.stack(list(metrics.values())) for metrics in steps]).mean(0)
            rate = self._optimizer.param_groups[0]["lr"]
            yield Epoch(index, len(steps), sum(map(len, minibatches)), tuple(steps[0]), means, rate)

    def _set_rates(self, rate: float, critic: float | None) -> None:
        for group, own in zip(self._optimizer.param_groups, (rate, rate if critic is None else critic), strict=True):
            group["lr"] = own

    def _minibatches(self, rollout: Rollout) -> list[Tensor]:
        """Return the rows of each minibatch, whole ones: of rows that are left over, each epoch leaves out others."""
        order = torch.from_numpy(self._rng.permutation(len(rollout))).to(self._device, non_blocking=True)
        size = min(self._config.minibatch_size, len(order))
        return [order[start : start + size] for start in range(0, len(order) - size + 1, size)]

    def _gradient_step(
        self, rollout: Rollout, rows: Tensor, plan: Settings, rule: Rule | None = None
    ) -> dict[str, Tensor]:
        """Make one gradient step on some rows; return its metrics."""
        minibatch = take_rows(rollout, rows)
        self._optimizer.zero_grad(set_to_none=True)
        totals: dict[str, Tensor] = {}
        chunks = zip(*(torch.split(column, self._chunk) for column in minibatch), strict=True)
        for chunk in map(Minibatch._make, chunks):
            share = len(chunk.returns) / len(rows)
            loss, metrics = self._loss(self.network, chunk, plan)
            (loss * share).backward()  # type: ignore[no-untyped-call]
            for name, value in metrics.items():
                totals[name] = totals.get(name, torch.zeros((), device=self._device)) + value * share
        totals["gradient_norm"] = nn.utils.clip_grad_norm_(self.network.parameters(), self._config.max_gradient_norm)
        if rule is not None:
            gradient = torch.cat([each.grad.flatten() for each in self.network.parameters() if each.grad is not None])
            rate, kl = self._optimizer.param_groups[0]["lr"], totals["approx_kl"]
            rate = rule.adapt(rate, kl=kl, gradient=gradient, direction=self._direction())
            self._set_rates(rate, plan.critic_learning_rate)
        self._optimizer.step()
        return totals

    def _direction(self) -> Tensor | None:
        """Return Adam's last step over its learning rate, as one vector; None before the first."""
        moments = self.snapshot().moments
        if moments is None:
            return None
        mean, square, steps = moments
        first, second = (1 - beta ** float(steps) for beta in BETAS)
        direction: Tensor = -(mean / first) / ((square / second).sqrt_() + EPSILON)
        return direction

    def parameters(self) -> Tensor:
        """Return a copy of the parameters as one vector."""
        return torch.cat([parameter.detach().flatten() for parameter in self.network.parameters()])

    @contextmanager
    def at(self, parameters: Tensor) -> Iterator[None]:
        """Give the network other parameters inside a `with` block, and its own back at the end."""
        own = self.parameters()
        self._write(parameters, self.network.parameters())
        try:
            yield
        finally:
            self._write(own, self.network.parameters())

    def snapshot(self) -> Snapshot:
        """Return copies of the parameters and of the optimiser's state."""
        states = [self._optimizer.state.get(parameter, {}) for parameter in self.network.parameters()]
        if not any(states):
            return Snapshot(self.parameters(), None)
        mean, square = (torch.cat([state[key].flatten() for state in states]) for key in ("exp_avg", "exp_avg_sq"))
        return Snapshot(self.parameters(), (mean, square, states[0]["step"].clone()))

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""
        parameters = list(self.network.parameters())
        self._write(snapshot.parameters, parameters)
        self._optimizer.state.clear()
        if snapshot.moments is None:
            return
        mean, square, steps = snapshot.moments
        for parameter in parameters:
            first, second = torch.empty_like(parameter), torch.empty_like(parameter)
            self._optimizer.state[parameter] = {"step": steps.clone(), "exp_avg": first, "exp_avg_sq": second}
        for key, vector in (("exp_avg", mean), ("exp_avg_sq", square)):
            self._write(vector, [self._optimizer.state[parameter][key] for parameter in parameters])

    @staticmethod
    @torch.no_grad()
    def _write(vector: Tensor, tensors: Iterator[Tensor] | Sequence[Tensor]) -> None:
        start = 0
        for tensor in tensors:
            tensor.copy_(vector[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def log_probs(self, rollout: Rollout, rows: Tensor | None = None) -> Tensor:
        """Return the log-probabilities of the rollout's actions, or of some rows', under the present parameters."""
        actions = rollout.actions if rows is None else rollout.actions[rows]
        return self.network.distribution.log_prob(self._passed(self.network.policy, rollout, rows), actions)

    def values(self, rollout: Rollout, rows: Tensor | None = None) -> Tensor:
        """Return the critic's values of the rollout's observations, or of some rows', under the present parameters."""
        return self._passed(self.network.values, rollout, rows)

    def _passed(self, call: Callable[[Tensor], Tensor], rollout: Rollout, rows: Tensor | None) -> Tensor:
        chunk = min(self._chunk, VALUE_CHUNK) if isinstance(self.network, ImpalaNetwork) else VALUE_CHUNK
        return in_chunks(call, rollout.observations if rows is None else rollout.observations[rows], chunk)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the network, the optimiser's moments and the generator, as JSON-safe values and arrays."""
        arrays: dict[str, Array] = {}
        for name, parameter in self.network.named_parameters():
            arrays[f"network/{name}"] = parameter.detach().cpu().numpy()
            for key, value in self._optimizer.state.get(parameter, {}).items():
                arrays[f"adam/{key}/{name}"] = value.detach().cpu().numpy()
        return {"rng": self._rng.bit_generator.state}, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""
        load_network(self.network, arrays)
        self._rng.bit_generator.state = values["rng"]
        self._optimizer.state.clear()
        for name, parameter in self.network.named_parameters():
            for key in ("step", "exp_avg", "exp_avg_sq"):
                saved = arrays.get(f"adam/{key}/{name}")
                if saved is not None:
                    self._optimizer.state[parameter][key] = torch.from_numpy(saved.copy()).to(self._device)


def mean_metrics(epochs: Sequence[Epoch], *, undone: bool = False) -> dict[str, float]:
    """Return the means over every minibatch of every epoch of an update, and the last epoch's KL estimate.

    A last epoch that was undone may have come to numbers that are not finite: it is then left out, and what no epoch
    tells is NaN.
    """
    last = epochs[-1]
    lost = undone and not all(math.isfinite(value) for value in last.values())
    kept = epochs[:-1] if lost else epochs
    if not kept:
        return dict.fromkeys((*last.names, "approx_kl_last_epoch"), math.nan)
    means = torch.stack([epoch.means for epoch in kept]).mean(0).tolist()
    metrics = dict(zip(last.names, means, strict=True))
    metrics["approx_kl_last_epoch"] = kept[-1]["approx_kl"]
    if not all(math.isfinite(value) for value in metrics.values()):
        raise ValueError(f"the loss is no longer a finite number ({metrics}); lower the learning rate")
    return metrics


@torch.inference_mode()
def in_chunks(call: Callable[[Tensor], Tensor], observations: Tensor, chunk: int) -> Tensor:
    """Return what a network gives for many rows, so many at a time."""
    return torch.cat([call(rows) for rows in torch.split(observations, chunk)])


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
