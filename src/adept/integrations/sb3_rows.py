"""The rollout in the buffer of Stable-Baselines3, sb3-contrib or sbx, as the engine needs it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from adept.engine import Engine
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import CriticRows, Rows, explained_variance

CHUNK = 1024
"""Rows of one forward pass."""


def rows_of(model: Any, engine: Engine) -> Rows:
    """Return the rollout in the buffer, before the update flattens it."""
    buffer, policy = model.rollout_buffer, model.policy
    steps, environments = buffer.advantages.shape
    groups = time_groups(steps, environments)
    explained = explained_variance(buffer.values, buffer.returns)
    if hasattr(buffer, "hidden_states_pi"):
        return _sequences(model, groups.reshape(steps, environments).T.ravel(), explained)
    chosen = engine.choose_rows(steps * environments)

    def flat(values: Any) -> Any:
        return _each(lambda array: array.reshape(-1, *array.shape[2:])[chosen], values)

    observations, actions = flat(buffer.observations), flat(buffer.actions).astype(np.float32, copy=False)
    advantages, deployed = flat(buffer.advantages), flat(buffer.log_probs)
    if hasattr(policy, "actor_state"):
        from adept.integrations.sbx import log_probs

        return Rows(lambda: log_probs(model, observations, actions), advantages, groups[chosen], deployed, explained)
    masks = flat(buffer.action_masks) if hasattr(buffer, "action_masks") else None
    parts = np.array_split(np.arange(len(chosen)), math.ceil(len(chosen) / CHUNK))

    def tensors(values: Any, rows: Any) -> Any:
        return _each(lambda array: buffer.to_torch(array[rows]), values)

    def passed(numbers: Callable[[Any, Any], Any]) -> Any:
        """Return a number for each row; of a part of the rows `numbers` gets the indices and the observations."""
        policy.set_training_mode(False)  # as it acts; the evaluation restores the mode
        return torch.cat([numbers(rows, tensors(observations, rows)).flatten() for rows in parts])

    def passes(rows: Any, given: Any) -> Any:
        masked = () if masks is None else (tensors(masks, rows),)
        return policy.get_distribution(given, *masked).log_prob(_as_actions(model, tensors(actions, rows)))

    def values() -> Any:
        return passed(lambda _, given: policy.predict_values(given))

    critic = CriticRows(values, flat(buffer.values), advantages) if critic_parameters(policy) else None
    return Rows(lambda: passed(passes), advantages, groups[chosen], deployed, explained, critic)


def critic_parameters(policy: Any) -> list[torch.nn.Parameter]:
    """Return the parameters that only the values of an SB3 policy depend on; none where that is not known."""
    own = [getattr(policy, "value_net", None), getattr(getattr(policy, "mlp_extractor", None), "value_net", None)]
    if not getattr(policy, "share_features_extractor", True):
        own.append(getattr(policy, "vf_features_extractor", None))
    return [parameter for part in own if isinstance(part, torch.nn.Module) for parameter in part.parameters()]


def _each(function: Callable[[Any], Any], values: Any) -> Any:
    """Apply a function to an array, or to each of the arrays of a dictionary."""
    return {name: function(each) for name, each in values.items()} if isinstance(values, dict) else function(values)


def _as_actions(model: Any, actions: Any) -> Any:
    return actions.long().flatten() if isinstance(model.action_space, spaces.Discrete) else actions


def _sequences(model: Any, groups: Any, explained: float | None) -> Rows:
    """Return the whole rollout of a recurrent policy, whose rows are sequences, one environment after the other."""
    buffer = model.rollout_buffer

    def flat(values: Any) -> Any:
        return _each(lambda array: buffer.to_torch(array.swapaxes(0, 1).reshape(-1, *array.shape[2:])), values)

    observations, starts = flat(buffer.observations), flat(buffer.episode_starts)
    actions = _as_actions(model, flat(buffer.actions.astype(np.float32, copy=False)))
    states = tuple(buffer.to_torch(each[0]) for each in (buffer.hidden_states_pi, buffer.cell_states_pi))

    def passes() -> Any:
        model.policy.set_training_mode(False)  # as it acts; the evaluation restores the mode
        return model.policy.get_distribution(observations, states, starts)[0].log_prob(actions)

    return Rows(passes, flat(buffer.advantages), groups, flat(buffer.log_probs), explained)
