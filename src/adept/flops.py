"""FLOPs of a network's forward pass, as PyTorch and as the paper count them; `adept.cost` has the formula of a run."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from adept.config import Config
from adept.envs import make_environments
from adept.networks import ActorCritic, make_network


class PassFlops(NamedTuple):
    """FLOPs of one forward pass of one observation, two per multiply-accumulate."""

    whole: int
    policy: int
    """of the policy alone"""
    values: int
    """of the critic alone"""


def pass_flops(network: ActorCritic, shape: tuple[int, ...]) -> PassFlops:
    """Add up the layers that a forward pass goes through.

    PyTorch's FlopCounterMode counts the same, but loads its compiler for that, which takes a second at every start.
    """
    flops, row = 0, torch.zeros((1, *shape), device=next(network.parameters()).device)

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal flops
        assert isinstance(layer, nn.Linear | nn.Conv2d)
        flops += 2 * output.numel() * layer.weight[0].numel()  # each output sums the products with its weights

    layers = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    counts = []
    for call in (network, network.policy, network.values):
        flops = 0
        with torch.no_grad():
            call(row)
        counts.append(flops)
    for hook in hooks:
        hook.remove()
    return PassFlops(*counts)


def paper_forward_macs(network: ActorCritic) -> int:
    """Return the paper's O_bs1: the multiply-accumulates of the fully-connected layers alone."""
    linear = (module for module in network.modules() if isinstance(module, nn.Linear))
    return sum(module.in_features * module.out_features for module in linear)


def build_network(config: Config) -> tuple[ActorCritic, tuple[int, ...]]:
    """Return the network of a configuration and the shape of its observations, as its environment asks for them."""
    environments = make_environments(config, count=1)
    try:
        shape = environments.observation_shape
        return make_network(config.network, shape, environments.actions, seed=0), shape
    finally:
        environments.close()
