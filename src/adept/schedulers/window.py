"""The last W rewards of each arm: their mean is the value Q(K) that the bandits of the paper share."""

from __future__ import annotations

import itertools
import math
import sys
from collections import deque

from adept.schedulers.validation import whole_number

ROUNDING = 1e-12
"""Rewards whose deviation is below this share of their size count as equal."""


class RewardWindows:
    """Keep the last `window` rewards of each arm; the value of an arm is their mean, 0 before the first one.

    Deviation: equation 3 of the paper divides by W, its Algorithm 1 by the number of rewards held; the latter is
    followed, since a window that is not yet full would punish an arm for being new.
    """

    def __init__(self, arms: int, window: int) -> None:
        self.window = whole_number("window", window, at_least=1, at_most=sys.maxsize, example=10)
        self._rewards: list[deque[float]] = [deque(maxlen=self.window) for _ in range(arms)]
        self.means = [0.0] * arms

    @property
    def sizes(self) -> list[int]:
        """How many rewards of each arm are held."""
        return [len(rewards) for rewards in self._rewards]

    def append(self, index: int, reward: float) -> None:
        """Add a reward of one arm."""
        rewards = self._rewards[index]
        rewards.append(reward)
        # An exact sum over the window, not a running one: no drift, and a restored state sums to the same bits.
        self.means[index] = math.fsum(rewards) / len(rewards)

    def moments(self) -> tuple[float, float]:
        """Return mean and standard deviation of all rewards held; the latter is 0 where they are equal."""
        rewards = list(itertools.chain.from_iterable(self._rewards))
        mean = math.fsum(rewards) / len(rewards) if rewards else 0.0
        deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards)))
        largest = max(map(abs, rewards), default=0.0)
        return mean, deviation if deviation > ROUNDING * largest else 0.0

    def state(self) -> list[list[float]]:
        """Return the windows, oldest reward first."""
        return [list(rewards) for rewards in self._rewards]
