"""The rollout in the buffer of Stable-Baselines3, sb3-contrib or sbx, as the engine needs it."""

from __future__ import annotations

import math
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
    buffer = model.rollout_buffer
    steps, environments = buffer.advantages.shape
    groups = time_groups(steps, environments)
    if hasattr(buffer, "hidden_states_pi"):
        return _sequences(model, groups)
    chosen = engine.choose_rows(steps * environments)
    explained = explained_variance(buffer.values, buffer.returns)

    def flat(values: Any) -> Any:
        if isinstance(values, dict):
            return {name: flat(each) for name, each in values.items()}
        return values.reshape(-1, *values.shape[2:])[chosen]

    observations, actions = flat(buffer.observations), flat(buffer.actions).astype(np.float32, copy=False)
    masks = flat(buffer.action_masks) if hasattr(buffer, "action_masks") else None
    if hasattr(model.policy, "actor_state"):
        from adept.integrations.sbx import log_probs

        return Rows(
            lambda: log_probs(model, observations, actions),
            flat(buffer.advantages),
            groups[chosen],
            flat(buffer.log_probs),
            explained,
        )

    parts = np.array_split(np.arange(len(chosen)), math.ceil(len(chosen) / CHUNK))

    def passes() -> Any:
        columns = observations, actions, masks
        return torch.cat([_log_probs(model, *_taken(buffer, columns, rows)) for rows in parts])

    def values() -> Any:
        taken = (_taken(buffer, (observations,), rows) for rows in parts)
        return torch.cat([model.policy.predict_values(*each).flatten() for each in taken])

    advantages = flat(buffer.advantages)
    critic = CriticRows(values, flat(buffer.values), advantages) if critic_parameters(model.policy) else None
    return Rows(passes, advantages, groups[chosen], flat(buffer.log_probs), explained, critic)


def critic_parameters(policy: Any) -> list[torch.nn.Parameter]:
    """Return the parameters that only the values of an SB3 policy depend on; none where that is not known."""
    own = [getattr(policy, "value_net", None), getattr(getattr(policy, "mlp_extractor", None), "value_net", None)]
    if not getattr(policy, "share_features_extractor", True):
        own.append(getattr(policy, "vf_features_extractor", None))
    return [parameter for part in own if isinstance(part, torch.nn.Module) for parameter in part.parameters()]


def _taken(buffer: Any, columns: tuple[Any, ...], rows: Any) -> list[Any]:
    def tensor(values: Any) -> Any:
        if isinstance(values, dict):
            return {name: tensor(each) for name, each in values.items()}
        return None if values is None else buffer.to_torch(values[rows])

    return [tensor(values) for values in columns]


def _log_probs(model: Any, observations: Any, actions: Any, masks: Any) -> Any:
    arguments = () if masks is None else (masks,)
    return model.policy.get_distribution(observations, *arguments).log_prob(_as_actions(model, actions))


def _as_actions(model: Any, actions: Any) -> Any:
    return actions.long().flatten() if isinstance(model.action_space, spaces.Discrete) else actions


def _sequences(model: Any, groups: Any) -> Rows:
    """Return the whole rollout of a recurrent policy, whose rows are sequences, one environment after the other."""
    buffer = model.rollout_buffer
    steps, environments = buffer.advantages.shape

    def flat(values: Any) -> Any:
        if isinstance(values, dict):
            return {name: flat(each) for name, each in values.items()}
        return buffer.to_torch(values.swapaxes(0, 1).reshape(-1, *values.shape[2:]))

    observations, starts = flat(buffer.observations), flat(buffer.episode_starts)
    actions = _as_actions(model, flat(buffer.actions.astype(np.float32, copy=False)))
    states = tuple(buffer.to_torch(each[0]) for each in (buffer.hidden_states_pi, buffer.cell_states_pi))

    def passes() -> Any:
        return model.policy.get_distribution(observations, states, starts)[0].log_prob(actions)

    by_environment = groups.reshape(steps, environments).T.ravel()
    explained = explained_variance(buffer.values, buffer.returns)
    return Rows(passes, flat(buffer.advantages), by_environment, flat(buffer.log_probs), explained)
