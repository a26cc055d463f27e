"""What the two bandits of the paper share: a window of rewards for each arm, and the scale that rewards are read in."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from adept.schedulers.base import Scheduler
from adept.schedulers.validation import Arm
from adept.schedulers.window import RewardWindows

Scale = Literal["auto"] | None


class Bandit(Scheduler[Arm]):
    """Learn the value of each arm from the last W rewards it led to.

    With `scale="auto"` every arm is tried once, in order, before the rule decides, and the value of an arm is
    (Q(K) − mean) / deviation: the mean of its last W rewards, in standard deviations of the rewards that all windows
    hold. An arm without a reward is worth 0, the mean. Rewards times ten or plus a thousand lead to the same choices.

    With `scale=None` the value is Q(K) itself, 0 before the first reward, and no arm is tried for its own sake: the
    paper's rule, whose knobs are in units of the reward.
    """

    def __init__(self, arms: Sequence[Arm], window: int, scale: Scale, *, seed: int) -> None:
        super().__init__(arms, seed=seed)
        if scale not in ("auto", None):
            raise ValueError(f"scale must be 'auto' or None (the paper's rule), got {scale!r}; for example 'auto'")
        self._scale = scale
        self._windows = RewardWindows(len(self.arms), window)
        self._values: list[float] = list(self._windows.means)

    @property
    def options(self) -> dict[str, float | str]:
        """The knobs; the scale is among them where there is one, so that states of the paper's rule stay readable."""
        knobs: dict[str, float | str] = {**self._knobs(), "window": self._windows.window}
        return knobs if self._scale is None else {**knobs, "scale": self._scale}

    def _shown(self) -> dict[str, Any]:
        return {**self.options, "scale": self._scale}

    def _choose(self) -> int:
        if self._scale is not None:
            for index, (chosen, held) in enumerate(zip(self._choices, self._windows.sizes, strict=True)):
                if not chosen and not held:
                    return index
        return self._best()

    def _credit(self, index: int, reward: float) -> None:
        self._windows.append(index, reward)
        self._revalue()
        self._learn(index)

    def _revalue(self) -> None:
        """Bring the arms' values up to date with their windows."""
        if self._scale is None:
            self._values = list(self._windows.means)
            return
        mean, deviation = self._windows.moments()
        held = zip(self._windows.means, self._windows.sizes, strict=True)
        self._values = [(value - mean) / deviation if size and deviation else 0.0 for value, size in held]

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
    def _knobs(self) -> dict[str, float]:
        """Return the rule's own knobs."""

    @abstractmethod
    def _best(self) -> int:
        """Return the index of the arm that the rule prefers."""

    @abstractmethod
    def _learn(self, index: int) -> None:
        """Take note that an arm got a reward, which its value contains already."""
