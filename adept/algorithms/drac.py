"""DrAC: PPO that also asks policy and value to be the same for an augmented picture."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adept.algorithms.augmentations import AUGMENTATIONS
from adept.algorithms.learner import Loss, Minibatch
from adept.algorithms.ppo import surrogate
from adept.config import Config
from adept.distributions import ActionDistribution
from adept.envs.base import Array
from adept.networks import ActorCritic
from adept.schedulers import Scheduler, paper_scheduler
from adept.seeding import stream_seed


class Augmenter:
    """Augment pictures, with one augmentation for the whole run or one that a bandit chooses each iteration.

    The latter is UCB-DrAC for any scheduler: the same class as for epochs, with the augmentations as arms.
    """

    def __init__(self, config: Config, shape: tuple[int, ...], device: torch.device) -> None:
        if len(shape) != 3 or shape[0] != 3:
            raise ValueError(f"DrAC augments colour pictures (3 × height × width), {config.env} has {shape}; use ppo")
        self.scheduler: Scheduler[str] | None = None
        self.augmentation = config.augmentation
        if config.augmentation not in AUGMENTATIONS:
            seed = stream_seed(config.seed, "scheduler", 1)
            self.scheduler = paper_scheduler(config.augmentation, tuple(AUGMENTATIONS), seed=seed)
        self._generator = torch.Generator(device).manual_seed(stream_seed(config.seed, "augmentation"))

    def step(self, reward: float | None) -> None:
        """Credit the previous augmentation with the reward of this rollout, then choose the next."""
        if self.scheduler is not None:
            self.augmentation = self.scheduler.step(reward)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the pictures augmented, each with randomness of its own."""
        return AUGMENTATIONS[self.augmentation](images, self._generator)

    def record(self) -> dict[str, float]:
        """Return the augmentation, by its place in the table, and the bandit's numbers."""
        numbers = {} if self.scheduler is None else self.scheduler.diagnostics()
        chosen = {"augmentation": list(AUGMENTATIONS).index(self.augmentation)}
        return {**chosen, **{f"augmentation_{name}": value for name, value in numbers.items()}}

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the generator, the bandit and its choice."""
        scheduler = None if self.scheduler is None else self.scheduler.state_dict()
        values = {"augmentation": self.augmentation, "scheduler": scheduler}
        return values, {"generator": self._generator.get_state().numpy()}

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state."""
        self.augmentation = values["augmentation"]
        if self.scheduler is not None:
            self.scheduler.load_state_dict(values["scheduler"])
        self._generator.set_state(torch.from_numpy(arrays["generator"].astype(np.uint8)))


def regularizer(
    distribution: ActionDistribution, parameters: Tensor, values: Tensor, augmented: Tensor, augmented_values: Tensor
) -> Tensor:
    """Return mean KL(π(·|s) ‖ π(·|f(s))) + ½ mean (V(s) - V(f(s)))², the unaugmented side detached.

    Deviation: the official code estimates the KL from one sampled action; the closed form has the same
    expectation and no variance.
    """
    divergence = distribution.kl(parameters.detach(), augmented).mean()
    return divergence + 0.5 * ((values.detach() - augmented_values) ** 2).mean()


def drac_loss(
    network: ActorCritic, minibatch: Minibatch, *, config: Config, augment: Augmenter
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return PPO's loss plus the weighted regulariser; one forward pass each of the plain and augmented rows."""
    parameters, values = network(minibatch.observations)
    loss, metrics = surrogate(network.distribution, parameters, values, minibatch, config)
    added = regularizer(network.distribution, parameters, values, *network(augment(minibatch.observations)))
    metrics["regularizer"] = added.detach()
    return loss + config.augmentation_coefficient * added, metrics


def make_loss(config: Config, augment: Augmenter) -> Loss:
    """Return DrAC's loss for a configuration."""
    return partial(drac_loss, config=config, augment=augment)
