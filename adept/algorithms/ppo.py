"""PPO: the clipped surrogate objective, as a loss over a minibatch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from adept.algorithms.learner import Loss, Minibatch, Stop
from adept.config import Config
from adept.distributions import ActionDistribution
from adept.networks import ActorCritic


def ppo_loss(network: ActorCritic, minibatch: Minibatch, *, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Return PPO's loss of one forward pass, and its metrics."""
    parameters, values = network(minibatch.observations)
    return surrogate(network.distribution, parameters, values, minibatch, config)


def surrogate(
    distribution: ActionDistribution, parameters: Tensor, values: Tensor, minibatch: Minibatch, config: Config
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return L = L_π + c_v·L_V - c_e·H of a policy and values.

    L_π = mean max(-A·ρ, -A·clip(ρ, 1-ε, 1+ε)) with ρ = π(a|s)/π_old(a|s);
    L_V = ½ mean max((V-R)², (V_old + clip(V-V_old, -ε, ε) - R)²), or ½ mean (V-R)² without value clipping.
    The KL estimate is mean (ρ-1) - ln ρ, which is unbiased and never negative.
    """
    log_ratio = distribution.log_prob(parameters, minibatch.actions) - minibatch.log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip_range, 1 + config.clip_range)
    policy_loss = torch.maximum(-minibatch.advantages * ratio, -minibatch.advantages * clipped).mean()
    errors = (values - minibatch.returns) ** 2
    if config.clip_value_loss:
        change = (values - minibatch.values).clamp(-config.clip_range, config.clip_range)
        errors = torch.maximum(errors, (minibatch.values + change - minibatch.returns) ** 2)
    value_loss = 0.5 * errors.mean()
    entropy = distribution.entropy(parameters).mean()
    loss = policy_loss + config.value_coefficient * value_loss - config.entropy_coefficient * entropy
    with torch.no_grad():
        metrics = {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "approx_kl": (ratio - 1 - log_ratio).mean(),
            "clip_fraction": ((ratio - 1).abs() > config.clip_range).float().mean(),
        }
    return loss, metrics


def make_loss(config: Config) -> Loss:
    """Return PPO's loss for a configuration."""
    return partial(ppo_loss, config=config)


def target_kl_rule(limit: float) -> Stop:
    """Return the rule that stops an update after an epoch whose mean KL estimate passes the limit."""

    def stop(metrics: Mapping[str, float]) -> bool:
        return metrics["approx_kl"] > limit

    return stop
