"""ADEPT(R): the arms in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

    def _restore(self, rule: Mapping[str, Any]) -> None:
        total, arms = sum(self._choices), len(self.arms)
        if self._choices != [(total + arms - 1 - index) // arms for index in range(arms)]:
            raise ValueError(f"choices {self._choices} are not those of the arms in turn")
