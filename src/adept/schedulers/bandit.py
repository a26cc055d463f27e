"""What the two bandits of the paper share: the value of an arm is the mean of its last W rewards."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from adept.schedulers.base import Scheduler
from adept.schedulers.validation import Arm, whole_number


class Bandit(Scheduler[Arm]):
    """Choose the arm with the highest score, from the mean Q(K) of each arm's last W rewards, at first 0 (eq. 3).

    Deviation: equation 3 of the paper divides by W, its Algorithm 1 by the number of rewards held; the latter is
    followed, since a window that is not yet full would punish an arm for being new.
    """

    saved: ClassVar[tuple[str, ...]] = ("rewards",)

    def __init__(self, arms: Sequence[Arm], window: int, *, seed: int) -> None:
        super().__init__(arms, seed=seed)
        self._window = whole_number("window", window, at_least=1, at_most=sys.maxsize, example=10)
        self._rewards: list[list[float]] = [[] for _ in self.arms]

    @abstractmethod
    def _scores(self) -> list[float]:
        """Return the numbers by which the next choice compares the arms."""

    def _values(self) -> list[float]:
        """Return the value of each arm."""
        # An exact sum over the window, not a running one: no drift, and a restored state sums to the same bits.
        return [math.fsum(rewards) / len(rewards) if rewards else 0.0 for rewards in self._rewards]

    def _choose(self) -> int:
        scores = self._scores()
        return scores.index(max(scores))

    def _credit(self, index: int, reward: float) -> None:
        self._rewards[index] = [*self._rewards[index], reward][-self._window :]

    def _diagnose(self) -> dict[str, Sequence[float]]:
        return {"value": self._values()}
