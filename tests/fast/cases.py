"""Networks and made-up rollouts on which the fast paths are held against the reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adept.algorithms.autograd import Autograd
from adept.algorithms.learner import Learner
from adept.algorithms.ppo import PPO
from adept.config import Config
from adept.envs.base import ActionSpace, Continuous, Discrete
from adept.fast.gradients import ByHand
from adept.networks import ActorCritic, make_network
from adept.rollout import Rollout

CASES: dict[str, tuple[str, tuple[int, ...], ActionSpace]] = {
    "mlp-gaussian": ("mlp", (26,), Continuous((-1.0,) * 6, (1.0,) * 6)),
    "mlp-categorical": ("mlp", (4,), Discrete(2)),
    "minigrid-categorical": ("minigrid", (3, 7, 7), Discrete(7)),
    "minigrid-gaussian": ("minigrid", (3, 7, 7), Continuous((-1.0,) * 2, (1.0,) * 2)),
    "minigrid-wide": ("minigrid", (3, 9, 12), Discrete(3)),
}
"""Network, shape of observations and actions by name."""


def reference_learner(network: ActorCritic, config: Config) -> Learner:
    return Learner(config, Autograd(config, network, PPO(config, (), torch.device("cpu"))))


def fast_learner(network: ActorCritic, config: Config) -> Learner:
    return Learner(config, ByHand(config, network))


MAKERS = {"autograd": reference_learner, "by-hand": fast_learner}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def make_config(**settings: object) -> Config:
    base: dict[str, object] = {
        "env": "gymnasium/made-up", "environments": 4, "rollout_length": 32, "minibatch_size": 32, "steps": 1280,
    }  # fmt: skip
    return Config(**base | settings)  # type: ignore[arg-type]


def make_case(case: str, seed: int = 1) -> ActorCritic:
    """Return a network away from its first weights, so that no gradient is almost zero."""
    network = make_network(*CASES[case], seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return network


def make_observations(case: str, rows: int, seed: int) -> torch.Tensor:
    shape = CASES[case][1]
    generator = torch.Generator().manual_seed(seed)
    if len(shape) == 1:
        return torch.randn(rows, *shape, generator=generator)
    return torch.randint(0, 6, (rows, *shape), dtype=torch.uint8, generator=generator)


def make_rollout(case: str, network: ActorCritic, rows: int, seed: int = 0) -> Rollout:
    """Return a rollout by a policy near the network's: some ratios and values lie beyond the clip range."""
    generator = torch.Generator().manual_seed(seed)
    observations = make_observations(case, rows, seed)
    distribution = network.distribution
    with torch.no_grad():
        parameters, values = network(observations)
        noise = torch.from_numpy(distribution.noise(np.random.default_rng(seed), rows))
        actions = distribution.sample(parameters, noise)
        log_probs = distribution.log_prob(parameters, actions) + 0.2 * torch.randn(rows, generator=generator)
        values = values + 0.3 * torch.randn(rows, generator=generator)
    advantages = torch.randn(rows, generator=generator)
    return Rollout(observations, actions, log_probs, values, advantages, advantages + values, 0.0, (), (), 0.0, 0.0)
