"""Learning rate by KL: the rule of legged-robot training, from rsl_rl, skrl and rl_games."""

from __future__ import annotations

from typing import ClassVar

from adept.hindsight.evaluation import Feedback
from adept.rules.base import Rule, Settings
from adept.schedulers.validation import real_number


class KLRate(Rule):
    """Divide the learning rate by 1.5 above twice a target KL, multiply it by 1.5 below half the target.

    After each update with KL d: s ← max(s/factor, 1/furthest) if d > band·target, s ← min(s·factor, furthest) if
    0 < d < target/band. The epochs are the preset's.

    Source: rsl_rl (`desired_kl`, schedule "adaptive"), skrl (`KLAdaptiveLR`), rl_games (`AdaptiveScheduler`); all three
    use factor 1.5 and band 2. Deviation: they adapt after every minibatch or epoch, here once per update; and they
    bound the learning rate to [1e-6 or 1e-5, 1e-2], here its factor, so that a schedule of the learning rate goes on.

    Args:
        epochs: epochs of every update.
        target: the KL aimed at.
        factor: how much one update changes the learning rate.
        band: how far from the target, as a factor, nothing is done.
        furthest: largest factor of the learning rate; its inverse is the smallest.
        seed: not used.
    """

    saved: ClassVar[tuple[str, ...]] = ("lr_scale",)

    def __init__(
        self,
        epochs: int,
        *,
        target: float = 0.01,
        factor: float = 1.5,
        band: float = 2.0,
        furthest: float = 32.0,
        seed: int = 0,
    ) -> None:
        super().__init__(epochs, seed=seed)
        self.target = real_number("target", target, above=0, example=0.01)
        self.factor = real_number("factor", factor, at_least=1, at_most=100, example=1.5)
        self.band = real_number("band", band, at_least=1, example=2)
        self.furthest = real_number("furthest", furthest, at_least=1, at_most=1e6, example=32)
        self._lr_scale = 1.0

    def step(self, feedback: Feedback | None) -> Settings:
        """Move the learning rate by the KL of the last update."""
        if feedback is not None and feedback.kl is not None:
            if feedback.kl > self.band * self.target:
                self._lr_scale = max(self._lr_scale / self.factor, 1 / self.furthest)
            elif 0 < feedback.kl < self.target / self.band:
                self._lr_scale = min(self._lr_scale * self.factor, self.furthest)
        return Settings(self.epochs, self._lr_scale)
