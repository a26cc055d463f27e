"""Networks by name: the paper's, Atari's, and smaller ones for CPUs."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from adept.envs.base import ActionSpace, Discrete
from adept.networks import images
from adept.networks.policy import (
    ActionDistribution,
    Actor,
    ActorCritic,
    Categorical,
    Decision,
    DiagonalGaussian,
    Heads,
    MlpNetwork,
    TorchActor,
)

__all__ = [
    "NETWORKS", "ActionDistribution", "Actor", "ActorCritic", "Categorical", "Decision", "DiagonalGaussian", "Heads",
    "MlpNetwork", "TorchActor", "make_network",
]  # fmt: skip

NETWORKS: dict[str, Callable[[tuple[int, ...], ActionDistribution], ActorCritic]] = {
    "impala": images.ImpalaNetwork,
    "impala-small": images.SmallImpalaNetwork,
    "nature": images.NatureNetwork,
    "minigrid": images.MiniGridNetwork,
    "mlp": MlpNetwork,
}


def make_network(name: str, shape: tuple[int, ...], actions: ActionSpace, seed: int) -> ActorCritic:
    """Build a network with orthogonal weights, fixed by the seed; auto goes by the observations' shape."""
    if name == "auto":
        name = "impala" if len(shape) == 3 else "mlp"
    if name != "mlp" and len(shape) != 3:
        raise ValueError(f"the network {name!r} takes images, but observations have the shape {shape}; use mlp")
    distribution = Categorical(actions.n) if isinstance(actions, Discrete) else DiagonalGaussian(len(actions.low))
    with torch.random.fork_rng(devices=[]):  # modules draw their first weights from the global generator
        network = NETWORKS[name](shape, distribution)
    initialize(network, torch.Generator().manual_seed(seed))
    return network


def initialize(network: ActorCritic, generator: torch.Generator) -> None:
    """Set orthogonal weights and zero biases: gain √2, but 0.01 for the policy's last layer and 1 for the value's.

    As in the reference single-file PPO for Procgen, the IMPALA encoder has no normalisation to tame orthogonal
    weights in its residual sums, and starts from uniform numbers within ±1/√fan-in.
    """
    heads = network.heads
    gains = {heads.actor[-1]: 0.01, heads.critic[-1]: 1.0}
    inside_heads = set(heads.modules())
    for module in network.modules():
        if not isinstance(module, nn.Conv2d | nn.Linear):
            continue
        assert module.bias is not None
        if network.uniform_encoder and module not in inside_heads:
            bound = 1 / math.sqrt(module.weight[0].numel())
            nn.init.uniform_(module.weight, -bound, bound, generator=generator)
            nn.init.uniform_(module.bias, -bound, bound, generator=generator)
        else:
            nn.init.orthogonal_(module.weight, gains.get(module, math.sqrt(2)), generator=generator)
            nn.init.zeros_(module.bias)
