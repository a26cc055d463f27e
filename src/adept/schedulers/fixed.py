"""The baseline: always the same arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adept.schedulers.base import Scheduler
from adept.schedulers.validation import Arm, distinct_arms

if TYPE_CHECKING:
    from typing_extensions import Self


class Fixed(Scheduler[Arm]):
    """Choose always the same arm, whatever the rewards."""

    def __init__(self, arm: Arm, *, seed: int = 0) -> None:
        super().__init__([arm], seed=seed)

    @classmethod
    def from_arms(cls, arms: Sequence[Arm], *, seed: int = 0, **options: Any) -> Self:
        """Build from a list of one arm."""
        arms = distinct_arms(arms)
        if len(arms) > 1:
            raise ValueError(
                f"a fixed scheduler takes exactly one arm, got {arms!r}; for example [{arms[0]!r}]. To choose among "
                "several, use ucb"
            )
        return cls(arms[0], seed=seed, **options)

    def __repr__(self) -> str:
        return f"Fixed({self._arms[0]!r})"

    def _choose(self) -> int:
        return 0

    def _credit(self, index: int, reward: float) -> None:
        """Rewards change nothing."""
