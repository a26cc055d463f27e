"""CleanRL's PPO in its manner: one loop over tensors, PyTorch's distributions, autograd and Adam.

Written here. Its wrappers of HalfCheetah are the two classes of running moments.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions.categorical import Categorical
from torch.distributions.normal import Normal

from benchmarks.rivals.pool import Pool
from benchmarks.rivals.tasks import CLIP_RANGE, DISCOUNT, GAE_COEFFICIENT, MAX_GRADIENT_NORM, Task

Array = np.ndarray[Any, np.dtype[Any]]


def layer(module: nn.Linear | nn.Conv2d, gain: float = 2**0.5) -> nn.Module:
    """Start a layer from orthogonal weights and zero biases."""
    nn.init.orthogonal_(module.weight, gain)
    assert module.bias is not None
    nn.init.zeros_(module.bias)
    return module


class Agent(nn.Module):
    """Actor and critic, with MiniGrid's convolutions before them or without."""

    def __init__(self, pool: Pool, task: Task) -> None:
        super().__init__()
        outputs = int(pool.action_space.n if pool.discrete else pool.action_space.shape[0])
        self.network: nn.Module = nn.Identity()
        if task.convolutions:
            self.network = nn.Sequential(
                layer(nn.Conv2d(pool.shape[0], 16, 2)), nn.ReLU(), nn.MaxPool2d(2),
                layer(nn.Conv2d(16, 32, 2)), nn.ReLU(), layer(nn.Conv2d(32, 64, 2)), nn.ReLU(), nn.Flatten(),
            )  # fmt: skip
            sizes = [64, 64]
        else:
            sizes = [pool.shape[0], 64, 64]
        self.actor, self.critic = self.tower([*sizes, outputs], 0.01), self.tower([*sizes, 1], 1.0)
        self.logstd = None if pool.discrete else nn.Parameter(torch.zeros(1, outputs))

    @staticmethod
    def tower(sizes: list[int], gain: float) -> nn.Sequential:
        """Make layers with tanh between them."""
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes[:-1]):
            layers += [layer(nn.Linear(inputs, outputs)), nn.Tanh()]
        return nn.Sequential(*layers, layer(nn.Linear(sizes[-2], sizes[-1]), gain))

    def value(self, x: Tensor) -> Tensor:
        """Return values."""
        return self.critic(self.network(x))

    def action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return actions, sampled unless given, their log-probabilities, entropies and values."""
        hidden = self.network(x)
        outputs = self.actor(hidden)
        if self.logstd is None:
            probs: Any = Categorical(logits=outputs)
        else:
            probs = Normal(outputs, self.logstd.expand_as(outputs).exp())
        if action is None:
            action = probs.sample()
        log_prob, entropy = probs.log_prob(action), probs.entropy()
        if self.logstd is not None:
            log_prob, entropy = log_prob.sum(1), entropy.sum(1)
        return action, log_prob, entropy, self.critic(hidden)


class Moments:
    """Running mean and variance of rows."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean, self.var, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def update(self, rows: Array) -> None:
        """Take rows in."""
        mean, var, count = rows.mean(axis=0), rows.var(axis=0), len(rows)
        delta, total = mean - self.mean, self.count + count
        squares = self.var * self.count + var * count + delta**2 * self.count * count / total
        self.mean, self.var, self.count = self.mean + delta * count / total, squares / total, total


class Environments:
    """The wrappers: normalise and clip observations and rewards, and sum episodes' rewards."""

    def __init__(self, pool: Pool, *, normalize: bool) -> None:
        self._pool, self._normalize = pool, normalize
        self._seen, self._sums = Moments(pool.shape), Moments(())
        self._sum, self._episode = np.zeros(pool.count), np.zeros(pool.count)
        self.finished: list[float] = []

    def reset(self) -> Array:
        """Start all episodes."""
        return self._observed(self._pool.reset())

    def step(self, actions: Array) -> tuple[Array, Array, Array]:
        """Take one action in each environment."""
        observations, rewards, terminated, truncated, _ = self._pool.step(actions)
        done = terminated | truncated
        self._episode += rewards
        self.finished.extend(self._episode[done])
        self._episode[done] = 0.0
        if self._normalize:
            self._sum = self._sum * DISCOUNT * (1 - terminated) + rewards
            self._sums.update(self._sum)
            rewards = np.clip(rewards / np.sqrt(self._sums.var + 1e-8), -10, 10)
        return self._observed(observations), rewards, done

    def _observed(self, observations: Array) -> Array:
        if not self._normalize:
            return observations
        self._seen.update(observations)
        return np.clip((observations - self._seen.mean) / np.sqrt(self._seen.var + 1e-8), -10, 10)


def make(task: Task) -> Callable[[], int]:
    """Return what runs one iteration and tells its steps."""
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    pool = Pool(task)
    envs, agent = Environments(pool, normalize=task.normalize), Agent(pool, task)
    optimizer = torch.optim.Adam(agent.parameters(), lr=task.learning_rate, eps=1e-5)
    size = (task.rollout_length, task.environments)
    obs = torch.zeros((*size, *pool.shape))
    actions = torch.zeros(size if pool.discrete else (*size, *pool.action_space.shape))
    logprobs, rewards, dones, values = (torch.zeros(size) for _ in range(4))
    state = {"obs": torch.Tensor(envs.reset()), "done": torch.zeros(task.environments)}

    def iterate() -> int:
        next_obs, next_done = state["obs"], state["done"]
        for step in range(task.rollout_length):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                action, logprob, _, value = agent.action_and_value(next_obs)
            actions[step], logprobs[step], values[step] = action, logprob, value.flatten()
            observed, reward, done = envs.step(action.numpy())
            rewards[step] = torch.tensor(reward).view(-1)
            next_obs, next_done = torch.Tensor(observed), torch.Tensor(done)
        state["obs"], state["done"] = next_obs, next_done

        with torch.no_grad():
            next_value = agent.value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards)
            last: Any = 0
            for t in reversed(range(task.rollout_length)):
                end = t == task.rollout_length - 1
                alive = 1.0 - (next_done if end else dones[t + 1])
                following = next_value if end else values[t + 1]
                delta = rewards[t] + DISCOUNT * following * alive - values[t]
                advantages[t] = last = delta + DISCOUNT * GAE_COEFFICIENT * alive * last
            returns = advantages + values

        b_obs, b_actions = obs.flatten(0, 1), actions.flatten(0, 1)
        b_logprobs, b_advantages = logprobs.flatten(), advantages.flatten()
        b_returns, b_values = returns.flatten(), values.flatten()
        order, clipfracs = np.arange(task.batch_size), []
        for _ in range(task.epochs):
            rng.shuffle(order)
            for start in range(0, task.batch_size, task.minibatch_size):
                rows = order[start : start + task.minibatch_size]
                _, newlogprob, entropy, newvalue = agent.action_and_value(b_obs[rows], b_actions[rows])
                logratio = newlogprob - b_logprobs[rows]
                ratio = logratio.exp()
                with torch.no_grad():
                    ((ratio - 1) - logratio).mean()
                    clipfracs.append(((ratio - 1.0).abs() > CLIP_RANGE).float().mean().item())
                chosen = b_advantages[rows]
                chosen = (chosen - chosen.mean()) / (chosen.std() + 1e-8)
                bounded = torch.clamp(ratio, 1 - CLIP_RANGE, 1 + CLIP_RANGE)
                pg_loss = torch.max(-chosen * ratio, -chosen * bounded).mean()
                newvalue = newvalue.view(-1)
                v_clipped = b_values[rows] + torch.clamp(newvalue - b_values[rows], -CLIP_RANGE, CLIP_RANGE)
                v_loss = torch.max((newvalue - b_returns[rows]) ** 2, (v_clipped - b_returns[rows]) ** 2)
                loss = pg_loss - task.entropy_coefficient * entropy.mean() + 0.5 * 0.5 * v_loss.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRADIENT_NORM)
                optimizer.step()
        return task.batch_size

    return iterate
