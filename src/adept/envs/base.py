"""The contract of environments: many side by side, restarted at once when they end, nothing lost at the seam."""

from __future__ import annotations

import logging
import math
import operator
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOST_NUMBERS = 2**24
"""Numbers of an observation."""
MOST_CHOICES = 2**16
"""Actions to choose from, or numbers of an action."""
CLOSE_SECONDS = 10.0
"""How long environments may take to close."""

_BOOL = np.dtype(np.bool_)
log = logging.getLogger("adept")


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


class EnvironmentFailure(ValueError):
    """An environment raised an error of its own, or gave what it did not declare."""


class Environments(ABC):
    """N environments of one kind, stepped together.

    Observations are vectors (float32) or images of channels × height × width (uint8 or float32). A backend implements
    `_restart`, `_step`, `_render` and `_close`. An error of theirs, or a wrong shape or type, is an
    `EnvironmentFailure` that names the environment.
    """

    name = "the environment"
    count: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype[Any]
    actions: ActionSpace
    _steps = 0

    def restart(self, seed: int) -> Array:
        """Restart every environment from seeds that follow from this one; return the first observations."""
        self._steps = 0
        try:
            return self._checked(self._restart(seed))
        except Exception as error:
            raise self._failure("reset", error) from error

    def step(self, actions: Array) -> Step:
        """Take one action in each environment."""
        self._steps += 1
        try:
            step = self._step(actions)
            self._checked(step.observations)
            for flags in (step.terminated, step.truncated):
                if flags.dtype != _BOOL or flags.shape != (self.count,):
                    raise ValueError(
                        f"ends of {flags.dtype} and shape {flags.shape}; {self.count} of bool are declared"
                    )
            return step
        except Exception as error:
            raise self._failure(f"step {self._steps:,} after the last restart", error) from error

    def render(self) -> Array:
        """Return a picture (height, width, 3) of the first environment."""
        try:
            return self._render()
        except Exception as error:
            raise self._failure("render", error) from error

    def close(self) -> None:
        """Free what the environments hold; those that do not come to an end, or that raise, are left behind."""
        errors: list[BaseException] = []

        def close() -> None:
            try:
                self._close()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=close, daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            log.warning("%s does not close within %g seconds; going on without it", self.name, CLOSE_SECONDS)
        elif errors:
            log.warning("%s raised %s: %s as it was closed", self.name, type(errors[0]).__name__, errors[0])

    @abstractmethod
    def _restart(self, seed: int) -> Array: ...

    @abstractmethod
    def _step(self, actions: Array) -> Step: ...

    @abstractmethod
    def _render(self) -> Array: ...

    @abstractmethod
    def _close(self) -> None: ...

    def check_spaces(self) -> None:
        """Refuse spaces that no network fits: without a number, too large, or with bounds that are none."""
        size, actions = math.prod(self.observation_shape), self.actions
        if not 1 <= size <= MOST_NUMBERS:
            raise ValueError(f"{self.name} has observations of {size:,} numbers; there must be 1 to {MOST_NUMBERS:,}")
        if isinstance(actions, Continuous) and not all(map(operator.le, actions.low, actions.high)):
            raise ValueError(f"{self.name} has actions whose lower bounds are not below the upper ones")
        choices = actions.n if isinstance(actions, Discrete) else len(actions.low)
        if not 1 <= choices <= MOST_CHOICES:
            raise ValueError(f"{self.name} has {choices:,} actions; there must be 1 to {MOST_CHOICES:,}")

    def _checked(self, observations: Array) -> Array:
        declared = (self.count, *self.observation_shape)
        if observations.shape == declared and observations.dtype == self.observation_dtype:
            return observations
        raise ValueError(
            f"observations of {observations.dtype} and shape {observations.shape}; declared are "
            f"{self.observation_dtype} of shape {declared}"
        )

    def _failure(self, where: str, error: Exception) -> EnvironmentFailure:
        return EnvironmentFailure(f"{self.name} raised {type(error).__name__} in {where}: {error}")
