"""Our variants of the paper's two bandits: rewards are standardised, and every arm is tried once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from adept.schedulers.bandit import Bandit
from adept.schedulers.thompson import GaussianThompson
from adept.schedulers.ucb import UCB
from adept.schedulers.validation import Arm

ROUNDING = 1e-12
"""Rewards whose deviation is below this share of their size count as equal."""


class Standardized(Bandit[Arm]):
    """Try every arm once, in order, then let the rule decide from standardised values.

    The value of an arm is (Q(K) − mean) / deviation: the mean of its last W rewards, in standard deviations of the
    rewards that all windows hold. An arm without a reward is worth 0, the mean. Rewards times ten or plus a thousand
    lead to the same choices.
    """

    def _choose(self) -> int:
        tried = [choices or len(held) for choices, held in zip(self._choices, self._rewards, strict=True)]
        return super()._choose() if all(tried) else tried.index(0)

    def _values(self) -> list[float]:
        rewards = list(itertools.chain.from_iterable(self._rewards))
        mean = math.fsum(rewards) / max(1, len(rewards))
        deviation = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards)))
        if deviation <= ROUNDING * max(map(abs, rewards), default=0.0):
            return [0.0] * len(self.arms)
        values = zip(super()._values(), self._rewards, strict=True)
        return [(value - mean) / deviation if held else 0.0 for value, held in values]


class StandardizedUCB(Standardized[Arm], UCB[Arm]):
    """Choose as `UCB` does, after every arm was tried once, from standardised rewards.

    Deviation: the paper uses rewards as they are; its rule leaves no arm for another one where returns are far above c.
    `experiments/exploration` chose c = 1.

    Args:
        arms: distinct hashable values, for example numbers of epochs.
        exploration: the coefficient c ≥ 0, in standard deviations of the rewards; 0 is greedy.
        window: how many rewards of an arm its value averages, W ≥ 1. Small forgets fast.
        seed: not used.
    """

    def __init__(self, arms: Sequence[Arm], exploration: float = 1.0, window: int = 10, *, seed: int = 0) -> None:
        super().__init__(arms, exploration, window, seed=seed)


class StandardizedThompson(Standardized[Arm], GaussianThompson[Arm]):
    """Choose as `GaussianThompson` does, after every arm was tried once, from standardised rewards.

    Deviation: N starts at 1, not 0, since N(0, 1) is then a belief that is worth a reward.

    Args:
        arms: distinct hashable values, for example numbers of epochs.
        step_size: η in (0, 1]; smaller moves μ less per reward.
        window: how many rewards of an arm its value averages, W ≥ 1.
        seed: of the generator that the draws come from.
    """

    PRIOR_COUNT = 1
