"""Algorithms as a table: each entry owns its loss, the cost of its epochs, its defaults and whether a fast path exists.

A new algorithm is one new file with its loss and one line in `ALGORITHMS`. The table needs no PyTorch: the file of a
loss loads when a run starts.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from adept.algorithms.autograd import Loss
    from adept.config import Config

AUGMENTATION_NAMES = (
    "crop", "random-conv", "color-jitter", "rotate", "flip", "cutout", "cutout-color", "grayscale"
)  # fmt: skip
"""The names of `adept.algorithms.augmentations.AUGMENTATIONS`, in its order."""


@dataclass(frozen=True)
class Algorithm:
    """What the rest of the package needs to know of an algorithm."""

    loss: str
    """class of its loss as module:Class; it is built with the configuration, the observations' shape and the device"""
    passes: int = 1
    """forward and backward passes of every row of a minibatch"""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """configuration keys that the paper sets differently for this algorithm"""
    fast: bool = False
    """whether `adept.fast` has this loss with its gradients written out"""
    augmentations: tuple[str, ...] = ()
    """image augmentations that a plan chooses from; none where the loss augments nothing"""

    def make_loss(self, config: Config, shape: tuple[int, ...], device: torch.device) -> Loss:
        """Build the loss of a run."""
        module, _, name = self.loss.partition(":")
        made: Loss = getattr(importlib.import_module(module), name)(config, shape, device)
        return made


ALGORITHMS: dict[str, Algorithm] = {
    "ppo": Algorithm("adept.algorithms.ppo:PPO", fast=True),
    "drac": Algorithm(
        "adept.algorithms.drac:DrAC",
        passes=2,  # the plain rows and the augmented ones
        defaults={"normalize_rewards": False},
        augmentations=AUGMENTATION_NAMES,
    ),
}
