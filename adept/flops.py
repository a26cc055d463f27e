"""Compute accounting: FLOPs of a network as PyTorch counts them, and of an iteration by the paper's formula."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from adept.config import Config
from adept.networks import ActorCritic


def forward_flops(network: ActorCritic, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
    """Return the FLOPs of one forward pass of one observation, two per multiply-accumulate."""
    device = next(network.parameters()).device
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros((1, *shape), dtype=dtype, device=device))
    return int(counter.get_total_flops())


def iteration_flops(forward: int, config: Config, epochs: int) -> int:
    """Return the FLOPs of one iteration (paper, appendix "Calculation of Computational Overhead").

    Sampling takes (T+1)·N forward passes of one row, the +1 being the value of what comes after the rollout. An
    epoch takes one forward and one backward pass, twice as dear, of every row; DrAC's takes them again for the
    augmented rows.
    """
    sampling = (config.rollout_length + 1) * config.environments * forward
    passes = 2 if config.algo == "drac" else 1
    return sampling + 3 * forward * config.batch_size * epochs * passes
