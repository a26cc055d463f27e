"""Variants of the hindsight rule that leave out or change one of its parts: the ablations."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import ClassVar

from adept.hindsight.estimates import UNKNOWN, Estimate
from adept.hindsight.feedback import Feedback
from adept.rules import RULES, HindsightRule, Settings
from adept.rules.hindsight import MAX_RATE
from adept.studies.results import load_results
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


@cache
def recorded_slopes() -> tuple[float, ...]:
    """Return the slopes of another task's run, in standard errors: hindsight on Hopper-v4, seed 116, tournament-2."""
    results = load_results(Path(__file__).parents[2] / "results" / "tournament-2")
    slopes = results.curve(results.cell("hindsight-samples", "envpool/Hopper-v4", 116))["slope_z"]
    return tuple(float(slope) for slope in slopes if math.isfinite(slope))


class OtherSlopes(HindsightRule):
    """Slopes of another task's run, in a loop, instead of the run's own."""

    _place = 0

    def _move_distance(self, feedback: Feedback) -> None:
        if feedback.slope.known:
            slopes = recorded_slopes()
            feedback = replace(feedback, slope=Estimate(slopes[self._place % len(slopes)], 1.0))
            self._place += 1
        super()._move_distance(feedback)


class MinEpochs(HindsightRule):
    """At least 4 and at most 10 epochs, whatever the loop has."""

    def _planned(self) -> int:
        return max(4, min(10, self.epochs))


class NeverRaised(HindsightRule):
    """The learning rate is never raised above 0.01, also where the user's own is above it; few epochs are made 8."""

    def begin(self, learning_rate: float) -> None:
        """Take note of the scale that makes the learning rate 0.01."""
        self._cap = math.log(MAX_RATE / learning_rate)

    def step(self, feedback: Feedback | None) -> Settings:
        """Bound the rate by the one before."""
        self._limit = max(self._cap, self._x)
        return super().step(feedback)

    def repeat(self, kl: float) -> float | None:
        """Bound the rate by the one before."""
        self._limit = max(self._cap, self._x)
        return super().repeat(kl)

    def _planned(self) -> int:
        epochs = self.epochs if self.epochs >= 4 else 8
        return epochs if self._options["optimize_for"] == "samples" else max(3, round(epochs * self.compute_share))


class SixEpochs(HindsightRule):
    """At least so many epochs, whatever the loop has."""

    floor: ClassVar[int] = 6

    def _planned(self) -> int:
        return max(self.floor, super()._planned())


class EightEpochs(SixEpochs):
    """At least 8 epochs."""

    floor: ClassVar[int] = 8


class TenEpochs(SixEpochs):
    """At least 10 epochs."""

    floor: ClassVar[int] = 10


class ThreeEpochs(SixEpochs):
    """At least 3 epochs."""

    floor: ClassVar[int] = 3


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
    "other-slopes": OtherSlopes,
    "min-epochs": MinEpochs,
    "never-raised": NeverRaised,
    "three-epochs": ThreeEpochs,
    "six-epochs": SixEpochs,
    "eight-epochs": EightEpochs,
    "ten-epochs": TenEpochs,
    "fewer-epochs": FewerEpochs,
    "half-epochs": HalfEpochs,
}


def register() -> None:
    """Let configurations name the variants."""
    RULES.update(VARIANTS)
