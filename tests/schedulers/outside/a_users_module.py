"""A scheduler as a user would write one, in a module of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from adept.schedulers import Scheduler
from adept.schedulers.validation import Arm, real_number


class Softmax(Scheduler[Arm]):
    """Draw an arm with probability ∝ exp(last reward / temperature)."""

    def __init__(self, arms: Sequence[Arm], temperature: float = 2.0, *, seed: int = 0) -> None:
        super().__init__(arms, seed=seed)
        self._temperature = real_number("temperature", temperature, above=0, example=2)
        self._last = [0.0] * len(self.arms)

    @property
    def options(self) -> dict[str, float]:
        return {"temperature": self._temperature}

    def _choose(self) -> int:
        highest = max(self._last)
        weights = [math.exp((last - highest) / self._temperature) for last in self._last]
        point = self._rng.random() * sum(weights)
        for index, weight in enumerate(weights):
            point -= weight
            if point < 0:
                return index
        return self._last.index(highest)

    def _credit(self, index: int, reward: float) -> None:
        self._last[index] = reward

    def _state(self) -> dict[str, Any]:
        return {"last": list(self._last)}

    def _restore(self, rule: Mapping[str, Any]) -> None:
        self._last = list(rule["last"])

    def _diagnose(self) -> dict[str, Sequence[float]]:
        return {"last": self._last}
