"""The MLP and the MiniGrid network, forward and backward by hand; the networks themselves are the reference."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from adept.fast.layers import Convolution, PooledConvolution, Tower
from adept.networks import ActorCritic, MiniGridNetwork, MlpNetwork


class Pass(Protocol):
    """A network's forward and backward pass of so many rows."""

    def prepare(self, observations: Tensor) -> Tensor:
        """Return what `forward` takes rows of, made once from the observations of a rollout."""

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last layers' outputs for (rows, …): the actor's (outputs, rows) and the critic's (1, rows)."""

    def backward(self, actor: Tensor, critic: Tensor) -> None:
        """Set the gradients of all parameters but a Gaussian's deviation from those of the outputs."""


class MlpPass:
    """Two towers that share nothing."""

    def __init__(self, network: MlpNetwork, rows: int) -> None:
        towers = (network.heads.actor, network.heads.critic)
        self._actor, self._critic = (Tower(layers, rows, inner=False) for layers in towers)

    def prepare(self, observations: Tensor) -> Tensor:
        """Return vectors of the network's type."""
        return observations.flatten(1).to(torch.get_default_dtype())

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return what both towers give."""
        x = rows.T
        return self._actor.forward(x), self._critic.forward(x)

    def backward(self, actor: Tensor, critic: Tensor) -> None:
        """Set the gradients of both towers."""
        self._actor.backward(actor)
        self._critic.backward(critic)


class MiniGridPass:
    """Three convolutions, then two towers."""

    def __init__(self, network: MiniGridNetwork, shape: tuple[int, ...], rows: int) -> None:
        first, second, third = (layer for layer in network.encoder if isinstance(layer, nn.Conv2d))
        channels, height, width = shape
        self._image = torch.empty(channels * height * width, rows)
        self._first = PooledConvolution(first, rows, (height, width))
        self._second = Convolution(second, rows, self._first.size)
        self._third = Convolution(third, rows, self._second.size)
        towers = (network.heads.actor, network.heads.critic)
        self._actor, self._critic = (Tower(layers, rows, inner=True) for layers in towers)

    def prepare(self, observations: Tensor) -> Tensor:
        """Return the numbers of each view in one row."""
        return observations.flatten(1)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return what both towers give."""
        self._image.copy_(rows.T)
        features = self._third.forward(self._second.forward(self._first.forward(self._image)))
        return self._actor.forward(features), self._critic.forward(features)

    def backward(self, actor: Tensor, critic: Tensor) -> None:
        """Set the gradients of all layers."""
        from_actor, from_critic = self._actor.backward(actor), self._critic.backward(critic)
        assert from_actor is not None
        assert from_critic is not None
        self._first.backward(self._second.backward(self._third.backward(from_actor.add_(from_critic))))


def make_pass(network: ActorCritic, shape: tuple[int, ...], rows: int) -> Pass:
    """Return the written-out passes of one of the small networks, for observations of a shape."""
    if isinstance(network, MlpNetwork):
        return MlpPass(network, rows)
    assert isinstance(network, MiniGridNetwork)
    return MiniGridPass(network, shape, rows)
