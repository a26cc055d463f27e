"""Compute accounting: FLOPs of a network as PyTorch counts them, and of an iteration by the paper's formula."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from adept.config import Config
from adept.envs import make_environments
from adept.networks import ActorCritic, make_network

PAPER_MINIBATCHES = 32
"""The paper's N_batches on Procgen, which contradicts its own 64·256/2048 = 8: docs/compute.md."""


def forward_flops(network: ActorCritic, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Return the FLOPs of one forward pass of one observation, two per multiply-accumulate."""
    device = next(network.parameters()).device
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros((1, *shape), dtype=dtype, device=device))
    return int(counter.get_total_flops())


def paper_forward_macs(network: ActorCritic) -> int:
    """Return the paper's O_bs1: the multiply-accumulates of the fully-connected layers alone."""
    linear = (module for module in network.modules() if isinstance(module, nn.Linear))
    return sum(module.in_features * module.out_features for module in linear)


def sampling_flops(forward: int, config: Config) -> int:
    """Return O_sampling = (T+1)·N·O of one iteration; the +1 is the value of what comes after the rollout."""
    return (config.rollout_length + 1) * config.environments * forward


def update_flops(forward: int, config: Config, epochs: int, *, minibatches: int | None = None) -> int:
    """Return O_update = 3·O·B·N_batches·K of one iteration: a forward pass and a backward one, twice as dear.

    DrAC runs both passes on the augmented rows as well.
    """
    rows = config.minibatch_size * (config.minibatches if minibatches is None else minibatches)
    passes = 2 if config.algo == "drac" else 1
    return 3 * forward * rows * epochs * passes


def iteration_flops(forward: int, config: Config, epochs: int) -> int:
    """Return the FLOPs of one iteration (paper, appendix "Calculation of Computational Overhead")."""
    return sampling_flops(forward, config) + update_flops(forward, config, epochs)


def ratio(config: Config, epochs: float, *, minibatches: int | None = None) -> float:
    """Return the compute of iterations of so many epochs on average, over that of always using the largest arm."""
    largest = max(config.arms)
    one = update_flops(1, config, 1, minibatches=minibatches)
    sampling = sampling_flops(1, config)
    return (sampling + one * epochs) / (sampling + one * largest)


def build_network(config: Config) -> tuple[ActorCritic, tuple[int, ...]]:
    """Return the network of a configuration and the shape of its observations, as its environment asks for them."""
    environments = make_environments(config, count=1)
    try:
        shape = environments.observation_shape
        return make_network(config.network, shape, environments.actions, seed=0), shape
    finally:
        environments.close()


def accounting(config: Config) -> dict[str, Any]:
    """Return the compute of a configuration as one JSON-safe object; docs/compute.md explains its numbers."""
    network, shape = build_network(config)
    forward, arms = forward_flops(network, shape), config.arms
    result: dict[str, Any] = {
        "env": config.env,
        "algo": config.algo,
        "arms": list(arms),
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "forward_flops": forward,
        "paper_forward_macs": paper_forward_macs(network),
        "minibatches": config.minibatches,
        "iterations": config.iterations,
        "sampling_flops": sampling_flops(forward, config),
        "epoch_flops": update_flops(forward, config, 1),
        "per_arm": {
            str(arm): {
                "iteration_flops": iteration_flops(forward, config, arm),
                "run_flops": iteration_flops(forward, config, arm) * config.iterations,
                "update_share": update_flops(forward, config, arm) / iteration_flops(forward, config, arm),
                "ratio": ratio(config, arm),
            }
            for arm in arms
        },
        "ratio_round_robin": ratio(config, sum(arms) / len(arms)),
    }
    if config.backend == "procgen":
        result["paper"] = {
            "forward_macs": paper_forward_macs(network),
            "minibatches": PAPER_MINIBATCHES,
            "ratio_round_robin": ratio(config, sum(arms) / len(arms), minibatches=PAPER_MINIBATCHES),
        }
    return result
