"""The baseline: always the same arm."""

from __future__ import annotations

from adept.schedulers.base import Scheduler
from adept.schedulers.validation import Arm


class Fixed(Scheduler[Arm]):
    """Choose always the same arm, whatever the rewards."""

    def __init__(self, arm: Arm, *, seed: int = 0) -> None:
        super().__init__([arm], seed=seed)

    def __repr__(self) -> str:
        return f"Fixed({self._arms[0]!r})"

    def _choose(self) -> int:
        return 0

    def _credit(self, index: int, reward: float) -> None:
        """Rewards change nothing."""
