"""The mean of the last W rewards of each arm, the value Q(K) that the bandits of the paper share."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from adept.schedulers.base import finite_reward, whole_number


class RewardWindows:
    """Keep the last `window` rewards of each arm; the value of an arm is their mean, 0 before the first one."""

    def __init__(self, arms: int, window: int) -> None:
        self.window = whole_number("window", window, at_least=1)
        self._rewards: list[deque[float]] = [deque(maxlen=self.window) for _ in range(arms)]
        self.values = [0.0] * arms

    def append(self, index: int, reward: float) -> float:
        """Add a reward of one arm and return the arm's new value."""
        rewards = self._rewards[index]
        rewards.append(reward)
        # An exact sum over the window, not a running one: no drift, and a restored state sums to the same bits.
        self.values[index] = math.fsum(rewards) / len(rewards)
        return self.values[index]

    def state(self) -> list[list[float]]:
        """Return the windows, oldest reward first."""
        return [list(rewards) for rewards in self._rewards]

    def restored(self, saved: Any) -> RewardWindows:
        """Return windows with the saved rewards."""
        if not isinstance(saved, list) or len(saved) != len(self.values):
            raise ValueError(f"damaged scheduler state: expected {len(self.values)} reward windows, got {saved!r}")
        windows = RewardWindows(len(saved), self.window)
        for index, rewards in enumerate(saved):
            if not isinstance(rewards, list) or len(rewards) > self.window:
                raise ValueError(f"damaged scheduler state: not a window of ≤ {self.window} rewards: {rewards!r}")
            for reward in rewards:
                windows.append(index, finite_reward(reward))
        return windows
