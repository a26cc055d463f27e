"""Adam and the clipping of gradients over one vector that holds every parameter of a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from adept.algorithms.learner import BETAS, EPSILON

_ALIGNMENT = 16
"""Numbers of float32 in 64 bytes: where vector instructions like a tensor to begin."""


class FlatAdam:
    """Move the parameters of a network into one vector, of which they become views, and optimise that.

    The network stays usable as it is. Gradients are the views `.grad` of a second vector; moments are kept likewise.
    Parameters that are `apart` may have a learning rate of their own.
    """

    def __init__(self, network: nn.Module, apart: Sequence[nn.Parameter] = ()) -> None:
        parameters = list(network.parameters())
        starts = [0]
        for parameter in parameters:
            starts.append(starts[-1] + math.ceil(parameter.numel() / _ALIGNMENT) * _ALIGNMENT)
        self.values, self.gradient, self.mean, self.square, self._denominator = (
            torch.zeros(starts[-1]) for _ in range(5)
        )
        self.steps = 0
        self.means: list[Tensor] = []
        self.squares: list[Tensor] = []
        for parameter, start in zip(parameters, starts[:-1], strict=True):
            own = slice(start, start + parameter.numel())
            self.means.append(self.mean[own].view_as(parameter))
            self.squares.append(self.square[own].view_as(parameter))
            values = self.values[own].view_as(parameter)
            values.copy_(parameter.detach())
            parameter.data = values
            parameter.grad = self.gradient[own].view_as(parameter)
        other = set(map(id, apart))
        owners = zip(starts[:-1], starts[1:], (id(parameter) in other for parameter in parameters), strict=True)
        self._parts = list(_joined(owners))
        """stretches of the vector, and whether they are apart"""

    def clip(self, limit: float) -> float:
        """Shorten the gradient to a length; return the length it had."""
        norm = float(torch.linalg.vector_norm(self.gradient))
        if norm + 1e-6 > limit:
            self.gradient.mul_(limit / (norm + 1e-6))
        return norm

    def direction(self) -> Tensor | None:
        """Return the last step over its learning rate, -(m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + ε); None before the first."""
        if not self.steps:
            return None
        first, second = (1 - beta**self.steps for beta in BETAS)
        return -(self.mean / first) / ((self.square / second).sqrt_() + EPSILON)

    def step(self, learning_rate: float, apart: float | None = None) -> None:
        """Follow the gradient: θ -= α·(m/(1-β₁ᵗ)) / (√(v/(1-β₂ᵗ)) + ε), with another α for what is apart."""
        self.steps += 1
        first, second = BETAS
        self.mean.lerp_(self.gradient, 1 - first)
        self.square.mul_(second).addcmul_(self.gradient, self.gradient, value=1 - second)
        # Both sides of the fraction are multiplied by √(1-β₂ᵗ), which saves a pass over the vector.
        scale = math.sqrt(1 - second**self.steps)
        torch.sqrt(self.square, out=self._denominator).add_(EPSILON * scale)
        factor = -scale / (1 - first**self.steps)
        if apart is None:
            self.values.addcdiv_(self.mean, self._denominator, value=learning_rate * factor)
            return
        for own, is_apart in self._parts:
            rate = apart if is_apart else learning_rate
            self.values[own].addcdiv_(self.mean[own], self._denominator[own], value=rate * factor)


def _joined(stretches: Iterable[tuple[int, int, bool]]) -> Iterator[tuple[slice, bool]]:
    """Join neighbouring stretches (start, end, kind) of one kind."""
    for kind, group in groupby(stretches, key=lambda stretch: stretch[2]):
        own = list(group)
        yield slice(own[0][0], own[-1][1]), kind
