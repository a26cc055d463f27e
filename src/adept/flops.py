"""FLOPs of a network's forward pass, as PyTorch and as the paper count them; `adept.cost` has the formula of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from adept.config import Config
from adept.envs import make_environments
from adept.networks import ActorCritic, make_network


def forward_flops(network: ActorCritic, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Return the FLOPs of one forward pass of one observation, two per multiply-accumulate."""
    return _counted(network, network, shape, dtype)


def policy_flops(network: ActorCritic, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Return the FLOPs of one forward pass of the policy alone."""
    return _counted(network, network.policy, shape, dtype)


def values_flops(network: ActorCritic, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Return the FLOPs of one forward pass of the critic alone."""
    return _counted(network, network.values, shape, dtype)


def _counted(network: ActorCritic, call: Callable[[Tensor], Any], shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Add up the layers that a call passes through.

    PyTorch's FlopCounterMode counts the same, but loads its compiler for that, which takes a second at every start.
    """
    flops = 0

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal flops
        assert isinstance(layer, nn.Linear | nn.Conv2d)
        flops += 2 * output.numel() * layer.weight[0].numel()  # each output sums the products with its weights

    layers = [module for module in network.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    device = next(network.parameters()).device
    try:
        with torch.no_grad():
            call(torch.zeros((1, *shape), dtype=dtype, device=device))
    finally:
        for hook in hooks:
            hook.remove()
    return flops


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
