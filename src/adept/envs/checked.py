"""Environments whose own errors say where they come from, and whose end is not waited for for ever."""

from __future__ import annotations

import logging
import threading

from adept.envs.base import Array, Environments, Step

CLOSE_SECONDS = 10.0
"""How long environments may take to close."""

log = logging.getLogger("adept")


class EnvironmentFailure(ValueError):
    """An environment raised an error of its own."""


class Guarded:
    """Step environments; an error that they raise becomes an `EnvironmentFailure` that names them."""

    def __init__(self, environments: Environments, name: str) -> None:
        self._environments, self._name, self._steps = environments, name, 0
        self.count = environments.count
        self.observation_shape = environments.observation_shape
        self.observation_dtype = environments.observation_dtype
        self.actions = environments.actions

    def restart(self, seed: int) -> Array:
        """Start every environment anew."""
        self._steps = 0
        try:
            return self._environments.restart(seed)
        except Exception as error:
            raise self._failure("reset", error) from error

    def step(self, actions: Array) -> Step:
        """Take one action in each environment."""
        self._steps += 1
        try:
            return self._environments.step(actions)
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

    def _failure(self, where: str, error: Exception) -> EnvironmentFailure:
        return EnvironmentFailure(f"{self._name} raised {type(error).__name__} in {where}: {error}")
