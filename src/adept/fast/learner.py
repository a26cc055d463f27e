"""Updates with gradients written out, over one vector of parameters: several times as fast as autograd's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from adept.algorithms.learner import Epoch, Snapshot, in_chunks, load_network
from adept.config import Config
from adept.envs.base import Array
from adept.fast.adam import FlatAdam
from adept.fast.distinct import DistinctPass, distinct
from adept.fast.passes import Pass, make_pass
from adept.fast.surrogate import METRICS, Surrogate, Targets
from adept.networks import ActorCritic, MiniGridNetwork
from adept.rollout import VALUE_CHUNK, Rollout
from adept.rules import Settings
from adept.seeding import generator

if TYPE_CHECKING:
    from adept.rules import Rule

JUDGED_GRAIN = 128
"""Distinct rows of a whole rollout are filled up to a multiple of this: their number varies more than a minibatch's."""


class FastLearner:
    """PPO's updates of the MLP and the MiniGrid network on the CPU, equal to the reference up to rounding."""

    def __init__(self, config: Config, network: ActorCritic) -> None:
        self.network, self._config = network, config
        self._rng = generator(config.seed, "minibatches")
        self._adam = FlatAdam(network, network.critic_parameters())
        self._sized: dict[int, tuple[Pass, Surrogate]] = {}
        """passes and loss by the size of a minibatch: the configuration's, or less where a rollout has less"""
        self._names = (*METRICS, "gradient_norm")
        self._numbered: tuple[Rollout, Tensor, Tensor] | None = None
        """the rollout that was last asked for, its distinct observations and each row's number"""
        self._judging: DistinctPass | None = None
        """the pass for log-probabilities of a rollout's rows"""
        self._rule: Rule | None = None
        """who sets the learning rate of every gradient step of the present update"""
        self._rate = config.learning_rate
        """learning rate of the last gradient step"""

    def epochs(self, rollout: Rollout, plan: Settings, rule: Rule | None = None) -> Iterator[Epoch]:
        """Make at most `plan.epochs` passes over the rollout."""
        size = min(self._config.minibatch_size, len(rollout))
        if size not in self._sized:
            self._sized[size] = (self._make_pass(rollout, size), Surrogate(self._config, self.network, size))
        network = self._sized[size][0]
        if isinstance(network, DistinctPass):
            rows = network.number(*self._distinct(rollout))
        else:
            rows = network.prepare(rollout.observations)
        self._rate, self._rule = plan.learning_rate, rule if rule is not None and rule.adapts_minibatches else None
        if rule is not None and rule.resets_steps:
            self._adam.steps = 0
        for index in range(1, plan.epochs + 1):
            metrics = self._epoch(rollout, rows, size, plan)
            yield Epoch(index, len(metrics), len(metrics) * size, self._names, metrics.mean(0), self._rate)

    def _make_pass(self, rollout: Rollout, size: int) -> Pass:
        make = self._maker(rollout)
        return DistinctPass(make) if isinstance(self.network, MiniGridNetwork) else make(size)

    def _maker(self, rollout: Rollout) -> Callable[[int], Pass]:
        return partial(make_pass, self.network, tuple(rollout.observations.shape[1:]))

    @torch.inference_mode()
    def _epoch(self, rollout: Rollout, rows: Tensor, size: int, plan: Settings) -> Tensor:
        """Shuffle the rows once, so that minibatches are slices of them; return the metrics of each."""
        count = len(rollout) // size
        order = torch.from_numpy(self._rng.permutation(len(rollout)))[: count * size]

        def shuffled(column: Tensor) -> Tensor:
            return column.index_select(0, order).view(count, size, *column.shape[1:])

        advantages = shuffled(rollout.advantages)
        costs = -advantages  # a single one has no spread
        if size > 1:
            costs = (advantages.mean(1, keepdim=True) - advantages) / (advantages.std(1, keepdim=True) + 1e-8)
        columns = (rows, rollout.actions, rollout.log_probs, rollout.values, rollout.returns)
        metrics = torch.empty(count, len(self._names))
        for chosen, *targets, row in zip(*map(shuffled, columns), costs, metrics, strict=True):
            self._step(chosen, Targets(*targets), plan, row)
        return metrics

    def _step(self, rows: Tensor, targets: Targets, plan: Settings, metrics: Tensor) -> None:
        """Make one gradient step and write its metrics."""
        network, surrogate = self._sized[len(rows)]
        outputs, values = network.forward(rows)
        actor, critic = surrogate.gradient(outputs, values.squeeze(0), targets, plan)
        network.backward(actor, critic.unsqueeze(0))
        metrics[-1] = self._adam.clip(self._config.max_gradient_norm)
        metrics[:-1] = surrogate.metrics
        if self._rule is not None:
            kl, adam = surrogate.metrics[METRICS.index("approx_kl")], self._adam
            self._rate = self._rule.adapt(self._rate, kl=kl, gradient=adam.gradient, direction=adam.direction())
        self._adam.step(self._rate, plan.critic_learning_rate)

    def parameters(self) -> Tensor:
        """Return a copy of the parameters as one vector."""
        return self._adam.values.clone()

    @contextmanager
    def at(self, parameters: Tensor) -> Iterator[None]:
        """Give the network other parameters inside a `with` block, and its own back at the end."""
        own = self.parameters()
        self._adam.values.copy_(parameters)
        try:
            yield
        finally:
            self._adam.values.copy_(own)

    def snapshot(self) -> Snapshot:
        """Return copies of the parameters and of the optimiser's state."""
        adam = self._adam
        return Snapshot(self.parameters(), (adam.mean.clone(), adam.square.clone(), torch.tensor(adam.steps)))

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""
        assert snapshot.moments is not None
        mean, square, steps = snapshot.moments
        self._adam.values.copy_(snapshot.parameters)
        self._adam.mean.copy_(mean)
        self._adam.square.copy_(square)
        self._adam.steps = int(steps)

    @torch.inference_mode()
    def log_probs(self, rollout: Rollout, rows: Tensor | None = None) -> Tensor:
        """Return the log-probabilities of the rollout's actions, or of some rows', under the present parameters."""
        actions = rollout.actions if rows is None else rollout.actions[rows]
        if isinstance(self.network, MiniGridNetwork):
            return self.network.distribution.log_prob(self._grid(rollout, rows)[0].T, actions)
        return self.network.distribution.log_prob(self._passed(self.network.policy, rollout, rows), actions)

    @torch.inference_mode()
    def values(self, rollout: Rollout, rows: Tensor | None = None) -> Tensor:
        """Return the critic's values of the rollout's observations, or of some rows', under the present parameters."""
        if isinstance(self.network, MiniGridNetwork):
            return self._grid(rollout, rows)[1].squeeze(0)
        return self._passed(self.network.values, rollout, rows)

    def _passed(self, call: Callable[[Tensor], Tensor], rollout: Rollout, rows: Tensor | None) -> Tensor:
        return in_chunks(call, rollout.observations if rows is None else rollout.observations[rows], VALUE_CHUNK)

    def _grid(self, rollout: Rollout, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return what the actor and the critic of a grid world give; equal views are computed once."""
        if self._judging is None:
            self._judging = DistinctPass(self._maker(rollout), JUDGED_GRAIN)
        numbers = self._judging.number(*self._distinct(rollout))
        return self._judging.forward(numbers if rows is None else numbers[rows])

    def _distinct(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Return the distinct observations of a rollout and each row's number, found once for judging and updating."""
        if self._numbered is None or self._numbered[0] is not rollout:
            self._numbered = (rollout, *distinct(rollout.observations))
        return self._numbered[1:]

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what the reference returns, by the same names: a checkpoint of one loads in the other."""
        arrays = {f"network/{name}": parameter.detach().numpy() for name, parameter in self.network.named_parameters()}
        if self._adam.steps:
            for name, mean, square in self._moments():
                arrays[f"adam/step/{name}"] = np.array(self._adam.steps, np.float32)
                arrays[f"adam/exp_avg/{name}"], arrays[f"adam/exp_avg_sq/{name}"] = mean.numpy(), square.numpy()
        return {"rng": self._rng.bit_generator.state}, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""
        load_network(self.network, arrays)
        self._rng.bit_generator.state = values["rng"]
        self._adam.steps = 0
        for name, mean, square in self._moments():
            if f"adam/step/{name}" in arrays:
                self._adam.steps = int(arrays[f"adam/step/{name}"])
                mean.copy_(torch.from_numpy(arrays[f"adam/exp_avg/{name}"]))
                square.copy_(torch.from_numpy(arrays[f"adam/exp_avg_sq/{name}"]))
            else:  # saved before the first step
                mean.zero_()
                square.zero_()

    def _moments(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield the name of each parameter with its running mean of gradients and of their squares."""
        names = (name for name, _ in self.network.named_parameters())
        return zip(names, self._adam.means, self._adam.squares, strict=True)
