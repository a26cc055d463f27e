"""Distributions over actions, as functions of the tensor of parameters that a network gives.

Sampling takes its noise as an argument: the noise of a whole rollout is drawn at once from the run's own
generator, so that every way of running the network acts alike.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from adept.envs.base import ActionSpace, Array, Discrete


class ActionDistribution(Protocol):
    """What PPO needs to know of a family of distributions; `parameters` has one row per observation."""

    parameter_count: int
    action_shape: tuple[int, ...]
    action_dtype: torch.dtype

    def noise(self, rng: np.random.Generator, *shape: int) -> Array:
        """Draw what `sample` needs for so many actions."""

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """Return actions made from the noise."""

    def mode(self, parameters: Tensor) -> Tensor:
        """Return the most likely actions."""

    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        """Return the log-probability (density) of each action."""

    def entropy(self, parameters: Tensor) -> Tensor:
        """Return the entropy of each row."""

    def kl(self, parameters: Tensor, others: Tensor) -> Tensor:
        """Return KL(parameters ‖ others) of each row, in closed form."""


class Categorical:
    """One of n actions; the parameters are logits."""

    def __init__(self, n: int) -> None:
        self.parameter_count = n
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
        self.parameter_count = 2 * size
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


def distribution_for(actions: ActionSpace) -> ActionDistribution:
    """Return the family of distributions that fits an action space."""
    return Categorical(actions.n) if isinstance(actions, Discrete) else DiagonalGaussian(len(actions.low))
