"""Fast paths: the same numbers up to rounding, sooner. Chosen here by the configuration alone, never by timing.

The small networks on the CPU have lean inference and updates with gradients written out. Neither needs a compiler or
any time to warm up, so they pay from the first step. Everything else takes the reference path.
"""

from __future__ import annotations

import math

import torch

from adept.actors import Actor, TorchActor
from adept.algorithms.learner import Learner, Loss
from adept.config import Config, Execution
from adept.fast.actors import FastActor, VectorActor
from adept.fast.learner import FastLearner
from adept.networks import ActorCritic, MiniGridNetwork, MlpNetwork

VECTOR_LIMIT, MATRIX_LIMIT = 9216, 262_144
"""Multiply-adds of one product with one row, with several, beyond which NumPy's BLAS would start threads of its own."""


def choose_actor(config: Config, network: ActorCritic, device: torch.device, execution: Execution) -> Actor:
    """Return what runs the policy during a rollout."""
    if not _has_fast_path(network, device, execution):
        return TorchActor(network, device)
    if isinstance(network, MlpNetwork):
        largest = max(math.prod(parameter.shape) for parameter in network.parameters())
        rows = config.environments
        if largest * rows < (VECTOR_LIMIT if rows == 1 else MATRIX_LIMIT):
            return VectorActor(network)
    return FastActor(network)


def choose_learner(
    config: Config, network: ActorCritic, loss: Loss, device: torch.device, execution: Execution
) -> Learner:
    """Return what updates the network."""
    if config.algo == "ppo" and _has_fast_path(network, device, execution):
        return FastLearner(config, network, loss, device)
    return Learner(config, network, loss, device)


def _has_fast_path(network: ActorCritic, device: torch.device, execution: Execution) -> bool:
    small = isinstance(network, MlpNetwork | MiniGridNetwork)
    exact = all(parameter.dtype == torch.float32 for parameter in network.parameters())
    return execution.fast and device.type == "cpu" and small and exact
