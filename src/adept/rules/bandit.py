"""A bandit as a rule: the reward is credited to the last choice, and the arm chosen next is the number of epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from adept.hindsight.evaluation import Feedback
from adept.rules.base import Rule, Settings
from adept.schedulers import Scheduler, epoch_arms


class BanditRule(Rule):
    """Let a scheduler choose the epochs, and leave the learning rate alone.

    Args:
        scheduler: a scheduler whose arms are numbers of epochs.
    """

    needs_reward: ClassVar[bool] = True

    def __init__(self, scheduler: Scheduler[int]) -> None:
        super().__init__(max(epoch_arms(scheduler.arms)))
        self.scheduler = scheduler

    @property
    def options(self) -> Mapping[str, float | str]:
        """The scheduler's options."""
        return self.scheduler.options

    def step(self, feedback: Feedback | None) -> Settings:
        """Credit the last choice with the reward, and make the next one."""
        return Settings(self.scheduler.step(None if feedback is None else feedback.reward))

    def diagnostics(self) -> dict[str, float]:
        """Return the scheduler's numbers."""
        return self.scheduler.diagnostics()

    def columns(self, settings: Settings) -> dict[str, float]:
        """Return the numbers of every arm as columns of a record."""
        return {f"arm_{name}": value for name, value in self.diagnostics().items()}

    def metrics(self, settings: Settings) -> dict[str, float]:
        """Return the columns of arms that were chosen, without values of those that got no reward, and their shares."""
        numbers = self.diagnostics()
        arms = [name.partition("/")[2] for name in numbers if name.startswith("choices/")]
        chosen = {arm: numbers[f"choices/{arm}"] for arm in arms if numbers[f"choices/{arm}"]}
        rewards = self.scheduler.state_dict()["rule"].get("rewards", [])  # of bandits, by arm
        unknown = {arm for arm, held in zip(arms, rewards, strict=False) if not held}
        columns = {f"arm_share/{arm}": times / sum(chosen.values()) for arm, times in chosen.items()}
        for name, value in numbers.items():
            quantity, _, arm = name.partition("/")
            if arm in chosen and (quantity == "choices" or arm not in unknown):
                columns[f"arm_{name}"] = value
        return columns

    def state_dict(self) -> dict[str, Any]:
        """Return the scheduler's state."""
        return self.scheduler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the scheduler's state."""
        self.scheduler.load_state_dict(state)

    def __repr__(self) -> str:
        return repr(self.scheduler)
