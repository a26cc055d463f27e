"""Policies: distributions over actions, the actor-critic network, and the actor that runs it."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from adept.envs.base import Array


class Categorical:
    """One of n actions; the parameters are logits."""

    def __init__(self, n: int) -> None:
        self.parameter_count = self.outputs = n
        self.action_shape: tuple[int, ...] = ()
        self.action_dtype = torch.int64

    def noise(self, rng: np.random.Generator, *shape: int) -> Array:
        """Draw uniform numbers in [0, 1)."""
        return rng.random(shape, dtype=np.float32)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """Return the first action whose cumulative probability passes the noise."""
        cumulated = torch.cumsum(torch.softmax(parameters, -1), -1)
        passed = (cumulated <= noise.unsqueeze(-1)).sum(-1)
        return passed.clamp(max=self.parameter_count - 1)  # rounding may leave the last sum just under 1

    def mode(self, parameters: Tensor) -> Tensor:
        """Return the action of the largest logit."""
        return parameters.argmax(-1)

    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        """Return log softmax at the action."""
        return torch.log_softmax(parameters, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """Return -Σ p·ln p."""
        log = torch.log_softmax(parameters, -1)
        return -(log.exp() * log).sum(-1)

    def kl(self, parameters: Tensor, others: Tensor) -> Tensor:
        """Return Σ p·(ln p - ln q)."""
        log_p, log_q = torch.log_softmax(parameters, -1), torch.log_softmax(others, -1)
        return (log_p.exp() * (log_p - log_q)).sum(-1)


class DiagonalGaussian:
    """A vector of independent normal numbers; the parameters are the means, then the log deviations."""

    def __init__(self, size: int) -> None:
        self.parameter_count, self.outputs = 2 * size, size
        self.action_shape: tuple[int, ...] = (size,)
        self.action_dtype = torch.float32

    def noise(self, rng: np.random.Generator, *shape: int) -> Array:
        """Draw standard normal numbers."""
        return rng.standard_normal((*shape, *self.action_shape), dtype=np.float32)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """Return mean + deviation × noise."""
        mean, log_std = parameters.chunk(2, -1)
        return mean + log_std.exp() * noise

    def mode(self, parameters: Tensor) -> Tensor:
        """Return the mean."""
        return parameters.chunk(2, -1)[0]

    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        """Return Σ -½((a-μ)/σ)² - ln σ - ½ ln 2π."""
        mean, log_std = parameters.chunk(2, -1)
        scaled = (actions - mean) * torch.exp(-log_std)
        return (-0.5 * scaled**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self, parameters: Tensor) -> Tensor:
        """Return Σ ln σ + ½ ln 2πe."""
        return (parameters.chunk(2, -1)[1] + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def kl(self, parameters: Tensor, others: Tensor) -> Tensor:
        """Return Σ ln(σq/σp) + (σp² + (μp-μq)²)/(2σq²) - ½."""
        mean_p, log_p = parameters.chunk(2, -1)
        mean_q, log_q = others.chunk(2, -1)
        ratio = torch.exp(2 * (log_p - log_q))
        return (log_q - log_p + 0.5 * (ratio + ((mean_p - mean_q) * torch.exp(-log_q)) ** 2) - 0.5).sum(-1)


ActionDistribution = Categorical | DiagonalGaussian
"""What PPO needs to know of a family of distributions; `parameters` has one row per observation.

`outputs` of the parameters depend on the observation: what the actor's last layer gives. Sampling takes its noise as an
argument: the noise of a whole rollout is drawn at once from the run's own generator, so that every way of running the
network acts alike.
"""


class ActorCritic(nn.Module):
    """Give the parameters of the action distribution and the value of each observation."""

    distribution: ActionDistribution
    encoder: nn.Sequential
    """layers that actor and critic share; empty where they share nothing"""
    heads: Heads
    small: ClassVar[bool] = False
    """whether `adept.fast` has it by hand: 2×2 convolutions, the first one pooled, or none; then tanh layers"""
    repeats: ClassVar[bool] = False
    """whether its observations repeat so often within a minibatch that equal ones are worth computing once"""
    rows_at_once: ClassVar[int | None] = None
    """rows of one pass on the CPU, where more only cost memory and cache; None: any number"""
    uniform_encoder: ClassVar[bool] = False
    """whether all layers but the heads start from uniform numbers within ±1/√fan-in instead of orthogonal weights"""

    def encode(self, observations: Tensor) -> Tensor:
        """Return what both heads start from."""
        return self.encoder(observations.to(next(self.parameters()).dtype))  # type: ignore[no-any-return]

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return (rows, parameters of the distribution) and (rows,) values."""
        features = self.encode(observations)
        return self.heads.policy(features), self.heads.value(features)

    def values(self, observations: Tensor) -> Tensor:
        """Return the values alone; cheaper where actor and critic share nothing."""
        return self(observations)[1]  # type: ignore[no-any-return]

    def policy(self, observations: Tensor) -> Tensor:
        """Return the parameters of the distribution alone."""
        return self(observations)[0]  # type: ignore[no-any-return]

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that only the values depend on; layers shared with the policy are not among them."""
        return list(self.heads.critic.parameters())


class Heads(nn.Module):
    """The last layers: features to the parameters of the distribution, and to the value."""

    def __init__(self, distribution: ActionDistribution, actor: nn.Sequential, critic: nn.Sequential) -> None:
        super().__init__()
        self.actor, self.critic = actor, critic
        free = distribution.parameter_count - distribution.outputs
        self.log_std = nn.Parameter(torch.zeros(free)) if free else None

    def policy(self, features: Tensor) -> Tensor:
        """Return the parameters of the distribution."""
        return self.parameters_of(self.actor(features))

    def parameters_of(self, outputs: Tensor) -> Tensor:
        """Return the parameters of the distribution; a Gaussian's deviation does not depend on the state."""
        return outputs if self.log_std is None else torch.cat([outputs, self.log_std.expand_as(outputs)], -1)

    def value(self, features: Tensor) -> Tensor:
        """Return the value."""
        return self.critic(features).squeeze(-1)  # type: ignore[no-any-return]


class MlpNetwork(ActorCritic):
    """Actor and critic of two layers of 64 tanh units each, sharing nothing."""

    small = True

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        super().__init__()
        self.distribution, self.encoder = distribution, nn.Sequential()
        size = math.prod(shape)

        def tower(outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Flatten(), nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
            )

        self.heads = Heads(distribution, tower(distribution.outputs), tower(1))

    def values(self, observations: Tensor) -> Tensor:
        """Return the critic's values."""
        return self.heads.value(self.encode(observations))

    def policy(self, observations: Tensor) -> Tensor:
        """Return the actor's parameters."""
        return self.heads.policy(self.encode(observations))


class Decision(NamedTuple):
    """The actions of one step, their log-probabilities, and, where they come for free, the values."""

    actions: Array
    log_probs: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32] | None


class Actor(Protocol):
    """Choose the actions of one step."""

    def refresh(self) -> None:
        """Take over the network's parameters, once before every rollout."""

    def act(self, observations: Tensor, noise: Array) -> Decision:
        """Sample actions for observations on the network's device, using the noise drawn for this step."""


class TorchActor:
    """Run the network as it is: the reference, and what runs on a GPU."""

    def __init__(self, network: ActorCritic, device: torch.device) -> None:
        self._network, self._device = network, device

    def refresh(self) -> None:
        """Nothing to do: the network itself is run."""

    @torch.inference_mode()
    def act(self, observations: Tensor, noise: Array) -> Decision:
        """Sample actions."""
        distribution = self._network.distribution
        parameters, values = self._network(observations)
        actions = distribution.sample(parameters, torch.from_numpy(noise).to(self._device))
        log_probs = distribution.log_prob(parameters, actions)
        return Decision(*(each.cpu().numpy() for each in (actions, log_probs, values)))
