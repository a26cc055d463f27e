"""The parameters of sbx's PPO, which are JAX arrays: `adept.integrations.sb3` uses them where a model is one of sbx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from adept.integrations import contract

contract.require_framework("sbx", package="sbx-rl", at_least="0.28", below="0.29", extra="sbx")

import jax  # noqa: E402
from gymnasium import spaces  # noqa: E402


class ActorWeights:
    """The actor's parameters. JAX arrays never change, so that a copy costs nothing."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def copy(self) -> Any:
        """Return the present parameters."""
        return self._policy.actor_state.params

    @contextmanager
    def current(self) -> Iterator[None]:
        """Put the present state of the actor back at the end, also after an error."""
        state = self._policy.actor_state
        try:
            yield
        finally:
            self._policy.actor_state = state

    @contextmanager
    def at(self, copied: Any) -> Iterator[None]:
        """Put other parameters in place for a while."""
        with self.current():
            self._policy.actor_state = self._policy.actor_state.replace(params=copied)
            yield

    @contextmanager
    def interpolate(self, start: Any, share: float) -> Iterator[None]:
        """Put start + share·(present - start) in place for a while; share may be above 1."""
        moved = jax.tree.map(lambda begin, end: begin + share * (end - begin), start, self.copy())
        with self.at(moved):
            yield


_log_probs = jax.jit(lambda state, observations, actions: state.apply_fn(state.params, observations).log_prob(actions))


def log_probs(model: Any, observations: Any, actions: Any) -> Any:
    """Return the log-probabilities of actions under the actor's present parameters, as sbx's own update has them."""
    taken = actions.flatten().astype(np.int32) if isinstance(model.action_space, spaces.Discrete) else actions
    return np.asarray(_log_probs(model.policy.actor_state, observations, taken))
