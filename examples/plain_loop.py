"""PPO on CartPole in one file, with ADEPT in a loop of your own: the lines marked `ADEPT`.

Everything else is the usual single-file PPO (vectorised environments, GAE, clipped surrogate). The script trains the
same agent in three ways, and prints what each reached and spent, and the advice on the first:

1. fixed epochs, monitored: nothing changes, and `hindsight.advice()` recommends other ones;
2. hindsight: it sets the learning rate of every update, and its epochs with optimize_for="compute";
3. a bandit: it chooses the epochs from the mean return of each rollout. `adept.UCB` is the paper's rule, which at
   CartPole's returns stays with its first arm; `adept.StandardizedUCB`, used here, is our variant of it.

    python examples/plain_loop.py [--steps 30000] [--seeds 3]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import adept

ENVIRONMENTS, HORIZON, MINIBATCHES = 8, 64, 4
LEARNING_RATE, DISCOUNT, GAE_LAMBDA = 1e-3, 0.99, 0.95
CLIP, ENTROPY_COEFFICIENT, VALUE_COEFFICIENT, MAX_GRADIENT_NORM = 0.2, 0.01, 0.5, 0.5

EPOCHS, ARMS = 4, (4, 2, 1)
METHODS = ("fixed 4", "hindsight", "bandit")


class Agent(nn.Module):
    """Separate actor and critic, two tanh layers of 64."""

    def __init__(self, observation_size: int, actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(
            _layer(observation_size, 64), nn.Tanh(), _layer(64, 64), nn.Tanh(), _layer(64, actions, gain=0.01)
        )
        self.critic = nn.Sequential(
            _layer(observation_size, 64), nn.Tanh(), _layer(64, 64), nn.Tanh(), _layer(64, 1, gain=1.0)
        )

    def policy(self, observations: torch.Tensor) -> Categorical:
        """Return the distribution over actions."""
        return Categorical(logits=self.actor(observations), validate_args=False)

    def value(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the value of each observation."""
        return self.critic(observations).squeeze(-1)


def _layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


@dataclass(frozen=True)
class Outcome:
    """What one training run reached and spent."""

    last_return: float  # mean over the last 100 episodes
    choices: Counter[int]
    lr_scale: float  # factor of the learning rate in the last update
    seconds: float
    advice: str


def train(method: str, seed: int, steps: int) -> Outcome:
    """Train one agent, its updates monitored, and set by hindsight or a bandit if the method says so."""
    started = time.perf_counter()
    torch.manual_seed(seed)
    envs = gym.make_vec(
        "CartPole-v1",
        num_envs=ENVIRONMENTS,
        vectorization_mode="sync",
        # A finished episode restarts within its last step, so every row of the rollout is a real transition.
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
    )
    agent = Agent(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    groups = [{"params": agent.actor.parameters()}, {"params": agent.critic.parameters()}]
    optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE, eps=1e-5)

    hindsight = adept.Hindsight(agent, EPOCHS, control=method == "hindsight", gains_every=4)  # ADEPT, 1 of 4
    bandit = adept.StandardizedUCB(ARMS) if method == "bandit" else None

    observations = torch.zeros(HORIZON, ENVIRONMENTS, *envs.single_observation_space.shape)
    actions = torch.zeros(HORIZON, ENVIRONMENTS, dtype=torch.long)
    log_probs, rewards, dones, values = (torch.zeros(HORIZON, ENVIRONMENTS) for _ in range(4))
    episode_returns: list[float] = []
    running_return = np.zeros(ENVIRONMENTS)
    choices: Counter[int] = Counter()

    observation, _ = envs.reset(seed=seed)
    iterations = max(1, steps // (HORIZON * ENVIRONMENTS))
    for iteration in range(iterations):
        # The learning rate follows iterations: gradient steps vary with the epochs.
        learning_rate = LEARNING_RATE * (1 - iteration / iterations)

        with torch.no_grad():
            for t in range(HORIZON):
                observations[t] = torch.as_tensor(observation)
                policy = agent.policy(observations[t])
                actions[t] = policy.sample()
                log_probs[t], values[t] = policy.log_prob(actions[t]), agent.value(observations[t])
                observation, reward, terminated, truncated, info = envs.step(actions[t].numpy())
                running_return += reward
                rewards[t] = torch.as_tensor(reward)
                done = terminated | truncated
                dones[t] = torch.as_tensor(done)
                for cut in np.flatnonzero(truncated & ~terminated):
                    # The time limit is not the end of the task: the value of the last state stands for the rest.
                    last = torch.as_tensor(info["final_obs"][cut])
                    rewards[t, cut] += DISCOUNT * agent.value(last)
                episode_returns += running_return[done].tolist()
                running_return[done] = 0.0
            advantages = _gae(rewards, values, dones, agent.value(torch.as_tensor(observation)))
            returns = advantages + values

        # This rollout evaluates the last update. Without control the settings are always (EPOCHS, 1).
        settings = hindsight.step(  # ADEPT, 2 of 4
            lambda: agent.policy(observations).log_prob(actions), advantages, values=values,
            critic=lambda: agent.value(observations),
        )  # fmt: skip
        optimizer.param_groups[0]["lr"] = learning_rate * settings.lr_scale
        optimizer.param_groups[1]["lr"] = settings.critic_rate(learning_rate)  # a critic that lags is faster
        # A bandit credits its previous choice with this rollout, then makes the next one.
        epochs = settings.epochs if bandit is None else bandit.step(returns.mean().item())

        choices[epochs] += 1
        batch = [part.flatten(0, 1) for part in (observations, actions, log_probs, advantages, returns)]
        for epoch in range(epochs):
            for rows in torch.randperm(HORIZON * ENVIRONMENTS).chunk(MINIBATCHES):
                loss = _loss(agent, *(part[rows] for part in batch))
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRADIENT_NORM)
                optimizer.step()
            hindsight.mark(epoch + 1)  # ADEPT, 3 of 4: optional, what each epoch gained
            if hindsight.stops(_kl(agent, *batch[:3])):  # optional, the rule's limit; False without control
                break

    envs.close()
    advice = str(hindsight.advice())  # ADEPT, 4 of 4
    seconds = time.perf_counter() - started
    return Outcome(float(np.mean(episode_returns[-100:])), choices, settings.lr_scale, seconds, advice)


def _gae(rewards: torch.Tensor, values: torch.Tensor, dones: torch.Tensor, last_value: torch.Tensor) -> torch.Tensor:
    advantages = torch.zeros_like(rewards)
    following, next_value = torch.zeros_like(last_value), last_value
    for t in reversed(range(HORIZON)):
        alive = 1.0 - dones[t]
        surprise = rewards[t] + DISCOUNT * next_value * alive - values[t]
        advantages[t] = following = surprise + DISCOUNT * GAE_LAMBDA * alive * following
        next_value = values[t]
    return advantages


@torch.no_grad()
def _kl(agent: Agent, observations: torch.Tensor, actions: torch.Tensor, old_log_probs: torch.Tensor) -> float:
    log_ratio = agent.policy(observations).log_prob(actions) - old_log_probs
    return float((log_ratio.exp() - 1 - log_ratio).mean())


def _loss(
    agent: Agent,
    observations: torch.Tensor,
    actions: torch.Tensor,
    old_log_probs: torch.Tensor,
    advantages: torch.Tensor,
    returns: torch.Tensor,
) -> torch.Tensor:
    policy = agent.policy(observations)
    ratio = (policy.log_prob(actions) - old_log_probs).exp()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    surrogate = torch.min(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages).mean()
    value_loss = 0.5 * (agent.value(observations) - returns).square().mean()
    return -surrogate + VALUE_COEFFICIENT * value_loss - ENTROPY_COEFFICIENT * policy.entropy().mean()


def table(outcomes: dict[str, list[Outcome]]) -> str:
    """Lay out what each method reached and spent, as mean ± standard deviation over the seeds."""
    lines = [f"{'method':<10} {'return':>13} {'epochs':>8} {'last rate':>9} {'seconds':>8}   share of each K"]
    for method, runs in outcomes.items():
        returns = [run.last_return for run in runs]
        epochs = np.mean([sum(arm * count for arm, count in run.choices.items()) for run in runs])
        total = sum((run.choices for run in runs), Counter())
        shares = "  ".join(f"{arm}: {count / total.total():4.0%}" for arm, count in sorted(total.items(), reverse=True))
        spread = f"{np.mean(returns):.0f} ± {np.std(returns):.0f}"
        seconds, lr_scale = (np.mean([getattr(run, name) for run in runs]) for name in ("seconds", "lr_scale"))
        lines.append(f"{method:<10} {spread:>13} {epochs:>8.0f} {lr_scale:>8.2f}× {seconds:>8.1f}   {shares}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="PPO on CartPole: fixed epochs, hindsight and a bandit.")
    parser.add_argument("--steps", type=int, default=30_000, help="environment steps per run")
    parser.add_argument("--seeds", type=int, default=3, help="runs per method")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.seeds < 1:
        parser.error("--steps and --seeds must be at least 1")

    torch.set_num_threads(1)  # the network is small: more threads only wait for each other
    outcomes: dict[str, list[Outcome]] = {}
    for method in METHODS:
        outcomes[method] = [train(method, seed, arguments.steps) for seed in range(arguments.seeds)]
        print(f"{method} done", flush=True)
    print(f"\nCartPole-v1, {arguments.steps} steps, {arguments.seeds} seeds; return of the last 100 episodes\n")
    print(table(outcomes))
    print(f"\nadvice on {METHODS[0]}, seed 0: {outcomes[METHODS[0]][0].advice}")


if __name__ == "__main__":
    main()
