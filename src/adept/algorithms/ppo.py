"""PPO: the clipped surrogate objective, as a loss over a minibatch."""

from __future__ import annotations

import torch
from torch import Tensor

from adept.algorithms.autograd import Loss, Minibatch
from adept.config import Config
from adept.networks import ActionDistribution, ActorCritic
from adept.rules import Settings


class PPO(Loss):
    """PPO's loss of one forward pass."""

    def __init__(self, config: Config, shape: tuple[int, ...], device: torch.device) -> None:
        del shape, device
        self._value_coefficient, self._clip_value_loss = config.value_coefficient, config.clip_value_loss

    def __call__(
        self, network: ActorCritic, minibatch: Minibatch, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and its metrics."""
        parameters, values = network(minibatch.observations)
        return self.surrogate(network.distribution, parameters, values, minibatch, settings)

    def surrogate(
        self,
        distribution: ActionDistribution,
        parameters: Tensor,
        values: Tensor,
        minibatch: Minibatch,
        settings: Settings,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return L = L_π + c_v·L_V - c_e·H of a policy and values.

        L_π = mean max(-A·ρ, -A·clip(ρ, 1-ε, 1+ε)) with ρ = π(a|s)/π_old(a|s);
        L_V = ½ mean max((V-R)², (V_old + clip(V-V_old, -ε, ε) - R)²), or ½ mean (V-R)² without value clipping.
        The KL estimate is mean (ρ-1) - ln ρ, which is unbiased and never negative.
        """
        log_ratio = distribution.log_prob(parameters, minibatch.actions) - minibatch.log_probs
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - settings.clip_range, 1 + settings.clip_range)
        policy_loss = torch.maximum(-minibatch.advantages * ratio, -minibatch.advantages * clipped).mean()
        errors = (values - minibatch.returns) ** 2
        if self._clip_value_loss:
            change = (values - minibatch.values).clamp(-settings.clip_range, settings.clip_range)
            errors = torch.maximum(errors, (minibatch.values + change - minibatch.returns) ** 2)
        value_loss = 0.5 * errors.mean()
        entropy = distribution.entropy(parameters).mean()
        loss = policy_loss + self._value_coefficient * value_loss - settings.entropy_coefficient * entropy
        with torch.no_grad():
            deviation = (ratio - 1).abs()
            metrics = {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.detach(),
                "approx_kl": (ratio - 1 - log_ratio).mean(),
                "clip_fraction": (deviation > settings.clip_range).float().mean(),
                "ratio_deviation": deviation.mean(),
            }
        return loss, metrics
