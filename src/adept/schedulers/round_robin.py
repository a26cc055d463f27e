"""ADEPT(R): the arms in turn."""

from __future__ import annotations

from adept.schedulers.base import Scheduler
from adept.schedulers.validation import Arm


class RoundRobin(Scheduler[Arm]):
    """Choose the arms in turn, whatever the rewards (paper, eq. 6).

    Deviation: t counts from 0, not 1, so that the first arm comes first.
    """

    def _choose(self) -> int:
        return sum(self._choices) % len(self.arms)

    def _credit(self, index: int, reward: float) -> None:
        """Rewards change nothing."""
