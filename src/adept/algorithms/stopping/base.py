"""The contract of stopping rules: asked after each epoch whether the update ends there. A rule has one number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from adept.algorithms.learner import Learner
    from adept.rollout import Rollout
    from adept.rules import Settings


class StoppingRule:
    """Decide after each epoch of an update whether it was the last."""

    allowed: ClassVar[str] = "a number > 0"
    metric: ClassVar[str | None] = None
    """metric of an epoch above whose limit the update ends; a rule without one has a `stop` of its own"""

    def __init__(self, limit: float) -> None:
        if not self._allows(limit):
            raise ValueError(f"got {limit!r}, allowed is {self.allowed}")
        self.limit = limit
        self.forward_rows = 0
        """rows of forward passes that the rule made in the present update"""

    @staticmethod
    def _allows(limit: float) -> bool:
        return 0 < limit < math.inf

    def start(self, learner: Learner, rollout: Rollout, settings: Settings, seed: int) -> Rollout:
        """Prepare for an update; return the rollout to train on, all of it unless the rule keeps rows back."""
        del learner, settings, seed
        self.forward_rows = 0
        return rollout

    def stop(self, epoch: Mapping[str, float]) -> bool:
        """Return whether the update ends after this epoch, given its metrics."""
        assert self.metric is not None
        return epoch[self.metric] > self.limit
