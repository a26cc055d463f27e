"""Wrapper: check what environments give, name them in errors, and time out `close()`."""

from __future__ import annotations

import logging
import math
import threading

import numpy as np

from adept.envs.base import Array, Discrete, Environments, Step

MOST_NUMBERS = 2**24
"""Numbers of an observation."""
MOST_CHOICES = 2**16
"""Actions to choose from, or numbers of an action."""
CLOSE_SECONDS = 10.0
"""How long environments may take to close."""

_BOOL = np.dtype(np.bool_)
log = logging.getLogger("adept")


class EnvironmentFailure(ValueError):
    """An environment raised an error of its own, or gave what it did not declare."""


class CheckedEnvironments:
    """Step environments; an error of theirs, or a wrong shape or type, is an `EnvironmentFailure` that names them."""

    def __init__(self, environments: Environments, name: str) -> None:
        check_spaces(environments, name)
        self._environments, self._name, self._steps = environments, name, 0
        self.count = environments.count
        self.observation_shape = environments.observation_shape
        self.observation_dtype = environments.observation_dtype
        self.actions = environments.actions
        self._shape = (self.count, *self.observation_shape)

    def restart(self, seed: int) -> Array:
        """Restart every environment."""
        self._steps = 0
        try:
            return self._checked(self._environments.restart(seed))
        except Exception as error:
            raise self._failure("reset", error) from error

    def step(self, actions: Array) -> Step:
        """Take one action in each environment."""
        self._steps += 1
        try:
            step = self._environments.step(actions)
            self._checked(step.observations)
            for flags in (step.terminated, step.truncated):
                if flags.dtype != _BOOL or flags.shape != self._shape[:1]:
                    raise ValueError(
                        f"ends of {flags.dtype} and shape {flags.shape}; {self.count} of bool are declared"
                    )
            return step
        except Exception as error:
            raise self._failure(f"step {self._steps:,} after the last restart", error) from error

    def render(self) -> Array:
        """Return an image of the first environment."""
        try:
            return self._environments.render()
        except Exception as error:
            raise self._failure("render", error) from error

    def close(self) -> None:
        """Free what the environments hold; those that do not come to an end, or that raise, are left behind."""
        errors: list[BaseException] = []

        def close() -> None:
            try:
                self._environments.close()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=close, daemon=True)
        thread.start()
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            log.warning("%s does not close within %g seconds; going on without it", self._name, CLOSE_SECONDS)
        elif errors:
            log.warning("%s raised %s: %s as it was closed", self._name, type(errors[0]).__name__, errors[0])

    def _checked(self, observations: Array) -> Array:
        if observations.shape == self._shape and observations.dtype == self.observation_dtype:
            return observations
        declared = f"{self.observation_dtype} of shape {self._shape}"
        raise ValueError(
            f"observations of {observations.dtype} and shape {observations.shape}; declared are {declared}"
        )

    def _failure(self, where: str, error: Exception) -> EnvironmentFailure:
        return EnvironmentFailure(f"{self._name} raised {type(error).__name__} in {where}: {error}")


def check_spaces(environments: Environments, name: str) -> None:
    """Refuse spaces that no network fits: without a number, too large, or with bounds that are none."""
    size, actions = math.prod(environments.observation_shape), environments.actions
    if not 1 <= size <= MOST_NUMBERS:
        raise ValueError(f"{name} has observations of {size:,} numbers; there must be 1 to {MOST_NUMBERS:,}")
    if isinstance(actions, Discrete):
        choices = actions.n
    else:
        choices = len(actions.low)
        if not all(low <= high for low, high in zip(actions.low, actions.high, strict=True)):
            raise ValueError(f"{name} has actions whose lower bounds are not below the upper ones")
    if not 1 <= choices <= MOST_CHOICES:
        raise ValueError(f"{name} has {choices:,} actions; there must be 1 to {MOST_CHOICES:,}")
