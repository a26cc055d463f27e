"""Rollouts: collecting them, advantages and returns."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from adept.config import Config
from adept.envs.base import Array, Continuous, Environments
from adept.networks import Actor, ActorCritic
from adept.normalization import ObservationNormalizer, RewardNormalizer, RunningMoments
from adept.seeding import generator, stream_seed

Floats = npt.NDArray[np.float32]
VALUE_CHUNK = 1024
"""Rows of one call where values of many rows are asked for: enough to be fast, few enough for little memory."""


@dataclass(frozen=True)
class Rollout:
    """One rollout, flattened over steps and environments, on the network's device; and what it tells of itself.

    On the CPU the tensors share the collector's storage: they hold until the next rollout is collected.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    mean_return: float
    """Mean of the GAE returns (advantage + value): the paper's reward of the previous choice."""
    episode_returns: tuple[float, ...]
    """Undiscounted returns of the episodes that ended in this rollout."""
    episode_lengths: tuple[int, ...]
    environment_seconds: float
    inference_seconds: float
    environments: int = 1
    """Rows are in the order of steps, then of so many environments."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.returns)

    @cached_property
    def explained_variance(self) -> float:
        """1 - Var(R - V)/Var(R): 1 for a critic that predicts the returns, 0 for a constant one."""
        variance = float(self.returns.var()) if len(self) > 1 else 0.0
        return math.nan if variance == 0 else 1 - float((self.returns - self.values).var()) / variance

    def take(self, rows: npt.NDArray[np.int64]) -> Rollout:
        """Return a copy of some rows, as those of one environment."""
        chosen = torch.from_numpy(rows).to(self.returns.device)
        names = ("observations", "actions", "log_probs", "values", "advantages", "returns")
        columns = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, environments=1, **columns)


def gae(rewards: Array, values: Array, next_values: Array, done: Array, discount: float, coefficient: float) -> Floats:
    """Return generalised advantage estimates of (steps, environments).

    A_t = δ_t + γλ·(1 - done_t)·A_{t+1},  δ_t = r_t + γ·V'_t - V_t, where V'_t is the value of what came after
    step t: of the next observation, of the final one where a time limit cut the episode, 0 where it truly ended.
    """
    advantages = rewards + discount * next_values - values
    decay = (discount * coefficient * ~done).astype(advantages.dtype)
    for step in range(len(rewards) - 2, -1, -1):
        advantages[step] += decay[step] * advantages[step + 1]
    return advantages.astype(np.float32, copy=False)


class Collector:
    """Step the environments with the policy, N at a time for T steps, into storage that is allocated once."""

    def __init__(
        self, config: Config, environments: Environments, network: ActorCritic, actor: Actor, device: torch.device
    ) -> None:
        self._config, self._environments = config, environments
        self._network, self._actor, self._device = network, actor, device
        steps, count = config.rollout_length, config.environments
        distribution, shape = network.distribution, environments.observation_shape
        dtype = torch.uint8 if environments.observation_dtype == np.uint8 else torch.float32
        self._storage = torch.zeros((steps, count, *shape), dtype=dtype, device=device)
        self._rows = self._storage.unbind(0)
        self._host = self._storage.numpy() if device.type == "cpu" else None  # the same memory, sooner written to
        self._actions = torch.zeros((steps, count, *distribution.action_shape), dtype=distribution.action_dtype).numpy()
        self._log_probs, self._values, self._rewards = (np.zeros((steps, count), np.float32) for _ in range(3))
        self._terminated, self._truncated = (np.zeros((steps, count), np.bool_) for _ in range(2))
        self._bounds: tuple[Array, ...] = ()
        if isinstance(bounds := environments.actions, Continuous):
            self._bounds = (np.array(bounds.low, np.float32), np.array(bounds.high, np.float32))
        self._rng = generator(config.seed, "actions")
        self.normalize_observations = ObservationNormalizer(shape) if config.normalize_observations else None
        self.normalize_rewards = RewardNormalizer(count, config.discount) if config.normalize_rewards else None
        self._restarted_at = -1
        self._taken: list[Array] = []
        self._observations: Array = np.zeros(0)
        self._episode_return, self._episode_length = np.zeros(count), np.zeros(count, np.int64)
        self.recent_returns: deque[float] = deque(maxlen=100)

    def restart(self, iteration: int) -> None:
        """Restart every environment from seeds of this iteration; unfinished episodes are dropped and not counted."""
        self._observations = self._environments.restart(stream_seed(self._config.seed, "environments", iteration))
        self._restarted_at = iteration
        self._taken.clear()
        self._episode_return[:], self._episode_length[:] = 0.0, 0
        if self.normalize_rewards is not None:
            self.normalize_rewards.restart()
        if self.normalize_observations is not None:
            self.normalize_observations.update(self._observations)

    def collect(self) -> Rollout:
        """Collect one rollout with the network's present parameters."""
        steps, count = self._rewards.shape
        self._actor.refresh()
        noise = self._network.distribution.noise(self._rng, steps, count)
        finals: list[Array] = []
        episode_returns: list[float] = []
        episode_lengths: list[int] = []
        started, environment_seconds = time.perf_counter(), 0.0
        for step in range(steps):
            decision = self._actor.act(self._store(step, self._observations), noise[step])
            self._actions[step], self._log_probs[step] = decision.actions, decision.log_probs
            if decision.values is not None:
                self._values[step] = decision.values
            before = time.perf_counter()
            result = self._environments.step(self._bounded(self._actions[step]))
            environment_seconds += time.perf_counter() - before
            self._observations = result.observations
            self._rewards[step] = result.rewards
            self._terminated[step], self._truncated[step] = result.terminated, result.truncated
            self._episode_return += result.rewards
            self._episode_length += 1
            if result.final_observations is not None:
                done = result.terminated | result.truncated
                finals.extend(result.final_observations[result.truncated[done]])
                episode_returns.extend(self._episode_return[done].tolist())
                episode_lengths.extend(self._episode_length[done].tolist())
                self._episode_return[done], self._episode_length[done] = 0.0, 0
            if self.normalize_observations is not None:
                self.normalize_observations.update(self._observations)
        self._taken.append(self._actions.copy())
        self.recent_returns.extend(episode_returns)
        advantages = self._advantages(finals, values_given=decision.values is not None)
        returns = advantages + self._values
        return Rollout(
            self._storage.flatten(0, 1),
            self._to_device(self._actions),
            self._to_device(self._log_probs),
            self._to_device(self._values),
            self._to_device(advantages),
            self._to_device(returns),
            float(returns.mean(dtype=np.float64)),
            tuple(episode_returns),
            tuple(episode_lengths),
            environment_seconds,
            time.perf_counter() - started - environment_seconds,
            count,
        )

    def _store(self, step: int, observations: Array) -> Tensor:
        """Write the (normalised) observations into the storage, once; return them where the network is."""
        if self.normalize_observations is not None:
            observations = self.normalize_observations(observations)
        if self._host is not None:
            self._host[step] = observations
        else:
            self._rows[step].copy_(torch.from_numpy(observations))
        return self._rows[step]

    def _bounded(self, actions: Array) -> Array:
        if not self._bounds:
            return actions
        low, high = self._bounds
        return np.minimum(np.maximum(actions, low), high)  # np.clip costs more than both on so few numbers

    @torch.inference_mode()
    def _values_of(self, observations: Tensor) -> Floats:
        chunks = [self._network.values(rows) for rows in torch.split(observations, VALUE_CHUNK)]
        return torch.cat(chunks).cpu().numpy()

    def _advantages(self, finals: list[Array], *, values_given: bool) -> Floats:
        """Bootstrap, normalise rewards, and return advantages."""
        config, observations = self._config, self._storage.flatten(0, 1)
        if observations.is_floating_point() and not bool(torch.isfinite(observations).all()):
            raise ValueError(f"{config.env} gave observations that are not finite numbers; the run stops here")
        if not np.isfinite(self._rewards).all():
            step, which = np.argwhere(~np.isfinite(self._rewards))[0].tolist()
            raise ValueError(
                f"{config.env} gave the reward {self._rewards[step, which]} in step {step + 1} of the rollout, "
                f"environment {which + 1} of {config.environments}; rewards must be finite numbers, the run stops here"
            )
        if not values_given:
            self._values[:] = self._values_of(observations).reshape(self._values.shape)
        extra = np.concatenate([self._observations, *(final[None] for final in finals)])
        if self.normalize_observations is not None:
            extra = self.normalize_observations(extra).astype(np.float32)
        bootstrap = self._values_of(torch.from_numpy(np.ascontiguousarray(extra)).to(self._device))
        next_values = np.concatenate([self._values[1:], bootstrap[None, : config.environments]])
        next_values[self._terminated] = 0.0
        # Time limits come in the order of steps, then of environments: that of the rows collected.
        next_values[self._truncated] = 0.0 if config.time_limit_ends else bootstrap[config.environments :]
        done = self._terminated | self._truncated
        rewards = self._rewards if self.normalize_rewards is None else self.normalize_rewards(self._rewards, done)
        return gae(rewards, self._values, next_values, done, config.discount, config.gae_coefficient)

    def _to_device(self, column: Array) -> Tensor:
        return torch.from_numpy(column).flatten(0, 1).to(self._device)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what the next rollout depends on, as JSON-safe values and arrays.

        The state of the environments themselves cannot be had from every backend; what leads to it can: the
        iteration of the last restart, whose seeds are known, and the actions taken since.
        """
        arrays = {"taken": np.stack(self._taken) if self._taken else np.zeros((0, *self._actions.shape))}
        arrays |= {"episode_return": self._episode_return, "episode_length": self._episode_length}
        arrays |= {"recent_returns": np.array(self.recent_returns, np.float64)}
        for name, part in self._normalizers():
            arrays |= {f"{name}/{key}": value for key, value in part.state().items()}
        return {"restarted_at": self._restarted_at, "rng": self._rng.bit_generator.state}, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state: restart as then, and take the same actions again."""
        per_environment = {"episode_return": self._episode_return.shape, "episode_length": self._episode_length.shape}
        for name, shape in {**per_environment, "taken": (*arrays["taken"].shape[:1], *self._actions.shape)}.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} has shape {arrays[name].shape} where this run's has {shape}")
        self.restart(values["restarted_at"])
        self._taken = [taken.astype(self._actions.dtype) for taken in arrays["taken"]]
        for taken in self._taken:
            for actions in taken:
                self._observations = self._environments.step(self._bounded(actions)).observations
        self._rng.bit_generator.state = values["rng"]
        self._episode_return, self._episode_length = arrays["episode_return"], arrays["episode_length"]
        self.recent_returns = deque(arrays["recent_returns"].tolist(), maxlen=100)
        for name, part in self._normalizers():
            part.load(arrays_of(name, arrays))

    def _normalizers(self) -> list[tuple[str, RunningMoments]]:
        parts = {"observations": self.normalize_observations, "rewards": self.normalize_rewards}
        return [(f"normalize_{name}", part) for name, part in parts.items() if part is not None]


def arrays_of(part: str, arrays: dict[str, Array]) -> dict[str, Array]:
    """Return the arrays of a part of a saved state, which are named part/name, by their own names."""
    prefix = f"{part}/"
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
