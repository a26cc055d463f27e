"""What the two bandits of the paper share: the value of an arm is the mean of its last W rewards."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from adept.schedulers.base import Scheduler
from adept.schedulers.validation import Arm
from adept.schedulers.window import RewardWindows


class Bandit(Scheduler[Arm]):
    """Learn the value Q(K) of each arm from the last W rewards it led to; before the first one it is 0 (eq. 3)."""

    def __init__(self, arms: Sequence[Arm], window: int, *, seed: int) -> None:
        super().__init__(arms, seed=seed)
        self._windows = RewardWindows(len(self.arms), window)
        self._values: list[float] = list(self._windows.means)

    def _choose(self) -> int:
        return self._best()

    def _credit(self, index: int, reward: float) -> None:
        self._windows.append(index, reward)
        self._revalue()
        self._learn(index)

    def _revalue(self) -> None:
        """Bring the arms' values up to date with their windows."""
        self._values = list(self._windows.means)

    def _restore_windows(self, rewards: Sequence[Sequence[float]]) -> None:
        """Set windows and values from saved rewards of each arm."""
        self._windows = RewardWindows(len(self.arms), self._windows.window)
        for index, held in enumerate(rewards):
            for reward in held:
                self._windows.append(index, reward)
        self._revalue()

    def _diagnose(self) -> dict[str, Sequence[float]]:
        return {"value": self._values}

    @abstractmethod
    def _best(self) -> int:
        """Return the index of the arm that the rule prefers."""

    @abstractmethod
    def _learn(self, index: int) -> None:
        """Take note that an arm got a reward, which its value contains already."""
