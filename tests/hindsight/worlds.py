"""Small worlds where J, its derivative and every expectation are exact."""

from __future__ import annotations

import numpy as np


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


class Bandit:
    """One state, four actions with noisy rewards; the policy is a softmax over four logits."""

    rewards = np.array([1.0, 0.2, -0.3, 0.6])
    start = np.array([0.0, 0.1, 0.2, -0.1])
    end = np.array([0.25, 0.0, 0.05, 0.1])

    def at(self, length):
        return self.start + length * (self.end - self.start)

    def value(self, logits):
        return float(np.exp(log_softmax(logits)) @ self.rewards)

    def derivative(self):
        """dJ/dα at α = 1, by the chain rule: Σ_a π_a·(r_a - J)·v_a with v the change of the logits."""
        policy = np.exp(log_softmax(self.end))
        return float(policy * (self.rewards - policy @ self.rewards) @ (self.end - self.start))

    def collect(self, rng, rows, noise):
        actions = rng.choice(4, rows, p=np.exp(log_softmax(self.end)))
        return actions, self.rewards[actions] + noise * rng.standard_normal(rows)


class Chain:
    """Four states in a row and ten steps; right pays at the end and slips back now and then, left pays little."""

    states, horizon = 4, 10
    slip = 0.2

    def __init__(self):
        rng = np.random.default_rng(5)
        self.start = 0.3 * rng.standard_normal((self.states, 2))
        self.end = self.start + np.stack([-0.05 * np.ones(self.states), 0.10 * np.ones(self.states)], 1)
        self.moves = np.zeros((self.states, 2, self.states))
        for state in range(self.states):
            self.moves[state, 0, max(state - 1, 0)] = 1.0
            self.moves[state, 1, min(state + 1, self.states - 1)] += 1 - self.slip
            self.moves[state, 1, 0] += self.slip
        self.rewards = np.zeros((self.states, 2))
        self.rewards[0, 0], self.rewards[-1, 1] = 0.1, 1.0

    def at(self, length):
        return self.start + length * (self.end - self.start)

    def values(self, logits):
        """Q and V of every step: (horizon, states, 2) and (horizon + 1, states)."""
        policy = np.exp(log_softmax(logits))
        q, v = np.zeros((self.horizon, self.states, 2)), np.zeros((self.horizon + 1, self.states))
        for step in reversed(range(self.horizon)):
            q[step] = self.rewards + self.moves @ v[step + 1]
            v[step] = (policy * q[step]).sum(-1)
        return q, v

    def value(self, logits):
        return float(self.values(logits)[1][0, 0])

    def derivative(self):
        """dJ/dα at α = 1, by differences so fine that only rounding is left."""
        fine = 1e-5
        return (self.value(self.at(1 + fine)) - self.value(self.at(1 - fine))) / (2 * fine)

    def first_order(self, length):
        """Σ_t Σ_s d_t(s)·Σ_a π_length(a|s)·A_t(s, a): what another policy would gain in the states of the last one."""
        policy, other = (np.exp(log_softmax(self.at(each))) for each in (1.0, length))
        q, v = self.values(self.end)
        visits, total = np.eye(self.states)[0], 0.0
        for step in range(self.horizon):
            total += visits @ (other * (q[step] - v[step][:, None])).sum(-1)
            visits = np.einsum("s,sa,san->n", visits, policy, self.moves)
        return float(total)

    def collect(self, rng, environments):
        """Return states, actions and returns to go less V, each (horizon, environments)."""
        policy = np.exp(log_softmax(self.end))
        _, v = self.values(self.end)
        cumulated = self.moves.cumsum(-1)
        at = np.zeros(environments, int)
        states, actions, rewards = (np.zeros((self.horizon, environments)) for _ in range(3))
        for step in range(self.horizon):
            action = (rng.random(environments) < policy[at, 1]).astype(int)
            states[step], actions[step], rewards[step] = at, action, self.rewards[at, action]
            at = (cumulated[at, action] < rng.random(environments)[:, None]).sum(-1)
        states, actions = states.astype(int), actions.astype(int)
        to_go = rewards[::-1].cumsum(0)[::-1]
        return states, actions, to_go - v[np.arange(self.horizon)[:, None], states]
