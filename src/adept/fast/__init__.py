"""Fast paths: the same numbers up to rounding, sooner. Offered here by the configuration alone, never by timing.

The small networks on the CPU have lean inference and updates with gradients written out. Neither needs a compiler or
any time to warm up, so they pay from the first step. Where there is no replacement, training takes the reference.
"""

from __future__ import annotations

import math

import torch

from adept.algorithms import ALGORITHMS
from adept.algorithms.learner import Learner
from adept.config import Config, Execution
from adept.fast.actors import FastActor, VectorActor
from adept.fast.learner import FastLearner
from adept.networks import Actor, ActorCritic, MiniGridNetwork, MlpNetwork

VECTOR_LIMIT, MATRIX_LIMIT = 9216, 262_144
"""Multiply-adds of one product with one row, with several, beyond which NumPy's BLAS would start threads of its own."""


def actor(config: Config, network: ActorCritic, device: torch.device, execution: Execution) -> Actor | None:
    """Return a faster way of running the policy during a rollout, or None."""
    if not _is_small(network, device, execution):
        return None
    if isinstance(network, MlpNetwork):
        largest = max(math.prod(parameter.shape) for parameter in network.parameters())
        rows = config.environments
        if largest * rows < (VECTOR_LIMIT if rows == 1 else MATRIX_LIMIT):
            return VectorActor(network)
    return FastActor(network)


def learner(config: Config, network: ActorCritic, device: torch.device, execution: Execution) -> Learner | None:
    """Return a faster way of updating the network, or None."""
    if ALGORITHMS[config.algo].fast and _is_small(network, device, execution):
        return FastLearner(config, network)
    return None


def _is_small(network: ActorCritic, device: torch.device, execution: Execution) -> bool:
    small = isinstance(network, MlpNetwork | MiniGridNetwork)
    exact = all(parameter.dtype == torch.float32 for parameter in network.parameters())
    return execution.fast and device.type == "cpu" and small and exact
