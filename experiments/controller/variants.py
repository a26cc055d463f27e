"""Variants of the hindsight rule that leave out or change one of its parts: the ablations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from adept.hindsight.estimates import UNKNOWN, Estimate
from adept.hindsight.feedback import Feedback
from adept.rules import RULES, HindsightRule, Settings
from experiments.controller.former.rule import FormerHindsight


class NoSlopes(HindsightRule):
    """The distance stays where it starts."""

    def _move_distance(self, feedback: Feedback) -> None:
        super()._move_distance(replace(feedback, slope=UNKNOWN))


class CriticAlone(HindsightRule):
    """The actor's learning rate stays as it is; the critic's has its own factor."""

    max_repeats: ClassVar[int] = 0

    def retry(self, kl: float) -> float | None:
        """End the update with the undone epoch."""
        return None

    def _move_rate(self, feedback: Feedback) -> None:
        pass


class SeeingCritic(HindsightRule):
    """Slopes count from an explained variance of 0.1 on."""

    min_explained_variance: ClassVar[float] = 0.1


class NoRepeats(HindsightRule):
    """The first update is taken as it is."""

    max_repeats: ClassVar[int] = 0


class CloserRepeats(HindsightRule):
    """The first update is made again if its KL is off by more than a factor 2."""

    max_first_error: ClassVar[float] = math.log(2)


class BlindHolds(HindsightRule):
    """While the critic is worse than none, the learning rate does not follow the KL."""

    def _move_rate(self, feedback: Feedback) -> None:
        if self.wants_slope:
            super()._move_rate(feedback)


class EarlyEnd(HindsightRule):
    """An update ends after the epoch that passes the distance."""

    def passes(self, kl: float) -> bool:
        """Return whether the update has come far enough."""
        return kl >= math.exp(self._t)

    def _move_rate(self, feedback: Feedback) -> None:
        super()._move_rate(replace(feedback, epochs_done=None))


class RandomSlopes(HindsightRule):
    """Slopes of another task's run instead of the run's own: those of the preset on Hopper-v4, seed 1, in a loop."""

    slopes: ClassVar[tuple[float, ...]] = ()
    _place = 0

    def _move_distance(self, feedback: Feedback) -> None:
        if feedback.slope.known:
            self._place += 1
            feedback = replace(feedback, slope=Estimate(self.slopes[self._place % len(self.slopes)], 1.0))
        super()._move_distance(feedback)


class MinEpochs(HindsightRule):
    """At least 4 and at most 10 epochs, whatever the loop has."""

    def _planned(self) -> int:
        return max(4, min(10, self.epochs))


class FewerEpochs(HindsightRule):
    """`compute` with 30 % of the epochs, at least 3."""

    compute_share: ClassVar[float] = 0.3


class HalfEpochs(HindsightRule):
    """`compute` with half of the epochs, at least 3."""

    compute_share: ClassVar[float] = 0.5


VARIANTS = {
    "former": FormerHindsight,
    "no-slopes": NoSlopes,
    "critic-alone": CriticAlone,
    "seeing-critic": SeeingCritic,
    "no-repeats": NoRepeats,
    "closer-repeats": CloserRepeats,
    "blind-holds": BlindHolds,
    "early-end": EarlyEnd,
    "other-slopes": RandomSlopes,
    "min-epochs": MinEpochs,
    "fewer-epochs": FewerEpochs,
    "half-epochs": HalfEpochs,
}


def register() -> None:
    """Let configurations name the variants."""
    RULES.update(VARIANTS)


__all__ = ["VARIANTS", "Settings", "register"]
