"""DrAC: PPO that also asks policy and value to be the same for an augmented image."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from adept.algorithms.augmentations import AUGMENTATIONS
from adept.algorithms.autograd import Minibatch
from adept.algorithms.ppo import PPO
from adept.config import Config
from adept.envs.base import Array
from adept.networks import ActionDistribution, ActorCritic
from adept.rules import Settings
from adept.seeding import stream_seed


class DrAC(PPO):
    """PPO's loss plus the weighted regulariser, with the augmentation that the settings name."""

    def __init__(self, config: Config, shape: tuple[int, ...], device: torch.device) -> None:
        if len(shape) != 3 or shape[0] != 3:
            raise ValueError(f"DrAC augments colour images (3 × height × width), {config.env} has {shape}; use ppo")
        super().__init__(config, shape, device)
        self._coefficient = config.augmentation_coefficient
        self._generator = torch.Generator(device).manual_seed(stream_seed(config.seed, "augmentation"))

    def __call__(
        self, network: ActorCritic, minibatch: Minibatch, settings: Settings
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and its metrics; one forward pass each of the plain and the augmented rows."""
        assert settings.augmentation is not None
        parameters, values = network(minibatch.observations)
        loss, metrics = self.surrogate(network.distribution, parameters, values, minibatch, settings)
        augmented = AUGMENTATIONS[settings.augmentation](minibatch.observations, self._generator)
        added = regularizer(network.distribution, parameters, values, *network(augmented))
        metrics["regularizer"] = added.detach()
        return loss + self._coefficient * added, metrics

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the generator."""
        return {}, {"augmenter/generator": self._generator.get_state().numpy()}

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""
        self._generator.set_state(torch.from_numpy(arrays["augmenter/generator"].astype(np.uint8)))


def regularizer(
    distribution: ActionDistribution, parameters: Tensor, values: Tensor, augmented: Tensor, augmented_values: Tensor
) -> Tensor:
    """Return mean KL(π(·|s) ‖ π(·|f(s))) + ½ mean (V(s) - V(f(s)))², the unaugmented side detached.

    Deviation: the official code estimates the KL from one sampled action; the closed form has the same
    expectation and no variance.
    """
    divergence = distribution.kl(parameters.detach(), augmented).mean()
    return divergence + 0.5 * ((values.detach() - augmented_values) ** 2).mean()
