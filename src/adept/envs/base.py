"""The contract of environments: many side by side, restarted at once when they end, nothing lost at the seam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Discrete:
    """Actions 0 … n - 1."""

    n: int


@dataclass(frozen=True)
class Continuous:
    """Vectors of numbers within bounds; actions beyond them are clipped on their way to the environment."""

    low: tuple[float, ...]
    high: tuple[float, ...]


ActionSpace = Discrete | Continuous


class Step(NamedTuple):
    """What one step of N environments gives.

    `observations` are what to act on next: where an episode ended, the first of the new one. The observation
    that an episode ended with stands in `final_observations`, one row per ended environment in their order
    (None where none ended). No row is a mere reset: every action was taken in an episode.
    """

    observations: Array
    rewards: npt.NDArray[np.float32]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    final_observations: Array | None


class Environments(Protocol):
    """N environments of one kind, stepped together.

    Observations are vectors (float32) or images of channels × height × width (uint8 or float32).
    """

    count: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype[Any]
    actions: ActionSpace

    def restart(self, seed: int) -> Array:
        """Restart every environment from seeds that follow from this one; return the first observations."""

    def step(self, actions: Array) -> Step:
        """Take one action in each environment."""

    def render(self) -> Array:
        """Return a picture (height, width, 3) of the first environment."""

    def close(self) -> None:
        """Free what the environments hold."""
