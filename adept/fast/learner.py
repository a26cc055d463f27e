"""Updates with gradients written out, over one vector of parameters: several times as fast as autograd's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adept.algorithms.learner import METRICS, Learner, Loss, Stop, UpdateStats, load_network
from adept.config import Config
from adept.envs.base import Array
from adept.fast.adam import FlatAdam
from adept.fast.distinct import DistinctPass
from adept.fast.passes import Pass, make_pass
from adept.fast.surrogate import Surrogate, Targets
from adept.networks import ActorCritic, MiniGridNetwork
from adept.rollout import Rollout
from adept.seeding import set_generator_state


class FastLearner(Learner):
    """PPO's updates of the MLP and the MiniGrid network on the CPU, equal to the reference up to rounding."""

    def __init__(self, config: Config, network: ActorCritic, loss: Loss, device: torch.device) -> None:
        super().__init__(config, network, loss, device)
        self._adam = FlatAdam(network)
        self._surrogate = Surrogate(config, network)
        self._pass: Pass | None = None
        self._rows = torch.empty(0)
        self._names = (*METRICS, "gradient_norm")
        self._learning_rate = config.learning_rate

    @torch.inference_mode()
    def update(self, rollout: Rollout, epochs: int, stop: Stop | None = None, *, learning_rate: float) -> UpdateStats:
        """Make so many passes over the rollout, or fewer where the rule says stop."""
        self._learning_rate = learning_rate
        if self._pass is None:
            self._pass = self._make_pass(tuple(rollout.observations.shape[1:]))
        self._rows = self._pass.prepare(rollout.observations)
        return super().update(rollout, epochs, stop, learning_rate=learning_rate)

    def _make_pass(self, shape: tuple[int, ...]) -> Pass:
        make = partial(make_pass, self.network, shape)
        return DistinctPass(make) if isinstance(self.network, MiniGridNetwork) else make(self._config.minibatch_size)

    def _epoch(self, rollout: Rollout) -> Tensor:
        """Shuffle the rows once, so that minibatches are slices of them; return the mean metrics."""
        config = self._config
        order = torch.from_numpy(self._rng.permutation(config.batch_size))
        shape = (config.minibatches, config.minibatch_size)

        def shuffled(column: Tensor) -> Tensor:
            return column.index_select(0, order).view(*shape, *column.shape[1:])

        advantages = shuffled(rollout.advantages)
        costs = (advantages.mean(1, keepdim=True) - advantages) / (advantages.std(1, keepdim=True) + 1e-8)
        columns = (self._rows, rollout.actions, rollout.log_probs, rollout.values, rollout.returns)
        metrics = torch.empty(config.minibatches, len(self._names))
        for rows, *targets, row in zip(*map(shuffled, columns), costs, metrics, strict=True):
            self._step(rows, Targets(*targets), row)
        return metrics.mean(0)

    def _step(self, rows: Tensor, targets: Targets, metrics: Tensor) -> None:
        """Make one gradient step and write its metrics."""
        assert self._pass is not None
        outputs, values = self._pass.forward(rows)
        actor, critic = self._surrogate.gradient(outputs, values.squeeze(0), targets)
        self._pass.backward(actor, critic.unsqueeze(0))
        metrics[-1] = self._adam.clip(self._config.max_gradient_norm)
        metrics[:-1] = self._surrogate.metrics
        self._adam.step(self._learning_rate)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what the reference returns, by the same names: a checkpoint of one loads in the other."""
        values, arrays = super().state()
        if self._adam.steps:
            for name, mean, square in self._moments():
                arrays[f"adam/step/{name}"] = np.array(self._adam.steps, np.float32)
                arrays[f"adam/exp_avg/{name}"], arrays[f"adam/exp_avg_sq/{name}"] = mean.numpy(), square.numpy()
        return values, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""
        load_network(self.network, arrays)
        set_generator_state(self._rng, values["rng"])
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
