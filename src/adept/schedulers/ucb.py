"""ADEPT(U): the arm with the highest upper confidence bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adept.schedulers.bandit import Bandit
from adept.schedulers.validation import Arm, real_number


class UCB(Bandit[Arm]):
    """Choose argmax Q(K) + c·√(ln t / N(K)): the paper's rule with the paper's constants (eq. 2, Algorithm 1).

    Q(K) is the mean of the last W rewards of arm K, 0 before the first one (eq. 3). N(K) and t start at 1 and grow by 1
    with each credit. Ties go to the arm listed first, so nothing here is random.

    Deviation: the paper's text raises N(K) with the choice, its Algorithm 1 with the credit; the latter is followed,
    since a count without a reward would shrink the bonus of an arm about which nothing was learnt.

    Args:
        arms: distinct hashable values, for example numbers of epochs.
        exploration: the coefficient c ≥ 0, in units of the reward; 0 is greedy.
        window: how many rewards of an arm its value averages, W ≥ 1. Small forgets fast.
        seed: not used.
    """

    saved = ("rewards", "counts")
    STANDARDIZED = "adept.StandardizedUCB ('standardized-ucb')"

    def __init__(self, arms: Sequence[Arm], exploration: float = 5.0, window: int = 10, *, seed: int = 0) -> None:
        super().__init__(arms, window, seed=seed)
        self._exploration = real_number("exploration", exploration, at_least=0, example=5)
        self._counts = [1] * len(self.arms)

    @property
    def options(self) -> dict[str, float | str]:
        """The paper's c and W."""
        return {"exploration": self._exploration, "window": self._window}

    def _scores(self) -> list[float]:
        log_time = math.log(1 + sum(self._counts) - len(self._counts))  # every credit raises one N(K), and t
        return [
            value + self._exploration * math.sqrt(log_time / count)
            for value, count in zip(self._values(), self._counts, strict=True)
        ]

    def _credit(self, index: int, reward: float) -> None:
        super()._credit(index, reward)
        self._counts[index] += 1

    def _diagnose(self) -> dict[str, Sequence[float]]:
        return {**super()._diagnose(), "score": self._scores()}
