"""Variants of the hindsight rule that leave out or change one of its parts: the ablations."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import ClassVar

from adept.hindsight.estimates import UNKNOWN, Estimate
from adept.hindsight.evaluation import Feedback
from adept.rules import RULES, HindsightRule
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


class LinearRise(HindsightRule):
    """The rate rises as if the KL grew in proportion to it, not as its square: clipping slows the growth."""

    def _move_rate(self, feedback: Feedback) -> None:
        before = self._x
        super()._move_rate(feedback)
        self._x = self._bounded(self._x + max(0.0, self._x - before))


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
    "linear-rise": LinearRise,
    "fewer-epochs": FewerEpochs,
    "half-epochs": HalfEpochs,
}


def register() -> None:
    """Let configurations name the variants."""
    RULES.update(VARIANTS)
