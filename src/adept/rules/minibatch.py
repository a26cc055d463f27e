"""What rules that set the learning rate of every gradient step have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, SupportsFloat

from adept.hindsight.evaluation import Feedback
from adept.rules.base import Rule, Settings


class MinibatchRate(Rule, ABC):
    """Keep the learning rate of the last gradient step, as a factor of the scheduled one, for the next update.

    A schedule of the learning rate goes on: between two updates the rate changes as the scheduled one does. The epochs
    are the preset's. A new rule implements `_rate`.
    """

    adapts_minibatches: ClassVar[bool] = True
    saved: ClassVar[tuple[str, ...]] = ("lr_scale",)

    def __init__(self, epochs: int, *, seed: int = 0) -> None:
        super().__init__(epochs, seed=seed)
        self._lr_scale = 1.0

    def adapt(self, rate: float, *, kl: SupportsFloat, gradient: Any, direction: Any) -> float:
        """Return the learning rate of the next gradient step."""
        adapted = self._rate(rate, kl, gradient, direction)
        self._lr_scale *= adapted / rate
        return adapted

    @abstractmethod
    def _rate(self, rate: float, kl: SupportsFloat, gradient: Any, direction: Any) -> float:
        """Return the learning rate of the next gradient step, above 0."""

    def step(self, feedback: Feedback | None) -> Settings:
        """Return the preset's epochs at the present rate."""
        return Settings(self.epochs, self._lr_scale)
