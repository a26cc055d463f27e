"""ADEPT(G): Thompson sampling with a Gaussian belief about each arm."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adept.schedulers.bandit import Bandit
from adept.schedulers.validation import Arm, real_number


class GaussianThompson(Bandit[Arm]):
    """Choose the argmax of one draw per arm from N(μ(K), σ²(K)): the paper's rule with its constants (eq. 4 and 5).

    A credit of arm K with N earlier ones, Q(K) being the mean of the arm's last W rewards:
    σ² ← (N·σ² + (Q−μ)²)/(N+1),  μ ← μ + η·(Q−μ)/(N+1),  N ← N+1, with μ = 0, σ² = 1, N = 0 at the start.

    Deviation: the authors' script shares one window among the arms, leaves η out and draws from NumPy's global
    generator; the paper's equations, a window per arm and a generator of its own are followed here.

    Args:
        arms: distinct hashable values, for example numbers of epochs.
        step_size: η in (0, 1]; smaller moves μ less per reward.
        window: how many rewards of an arm Q(K) averages, W ≥ 1.
        seed: of the generator that the draws come from.
    """

    saved = ("rewards", "counts", "means", "variances", "draws")
    STANDARDIZED = "adept.StandardizedThompson ('standardized-thompson')"
    PRIOR_COUNT = 0
    """Rewards that the belief N(0, 1) counts for before the first one."""

    def __init__(self, arms: Sequence[Arm], step_size: float = 1.0, window: int = 50, *, seed: int = 0) -> None:
        super().__init__(arms, window, seed=seed)
        self._step_size = real_number("step_size", step_size, above=0, at_most=1, example=1)
        self._counts = [0] * len(self.arms)
        self._means = [0.0] * len(self.arms)
        self._variances = [1.0] * len(self.arms)
        self._draws = [0.0] * len(self.arms)

    @property
    def options(self) -> dict[str, float | str]:
        """The paper's η and W."""
        return {"step_size": self._step_size, "window": self._window}

    def _scores(self) -> list[float]:
        noise = self._rng.standard_normal(len(self.arms)).tolist()
        belief = zip(self._means, self._variances, noise, strict=True)
        self._draws = [mean + math.sqrt(variance) * draw for mean, variance, draw in belief]
        return self._draws

    def _credit(self, index: int, reward: float) -> None:
        super()._credit(index, reward)
        surprise = self._values()[index] - self._means[index]
        count = self._counts[index] + self.PRIOR_COUNT
        self._variances[index] = (count * self._variances[index] + surprise**2) / (count + 1)
        self._means[index] += self._step_size * surprise / (count + 1)
        self._counts[index] += 1

    def _diagnose(self) -> dict[str, Sequence[float]]:
        std = [math.sqrt(variance) for variance in self._variances]
        return {**super()._diagnose(), "mean": self._means, "std": std, "score": self._draws}
