"""Stopping rules: objects asked after each epoch whether the update ends there. A new rule is a class and a table line.

A rule has one number. The table needs no PyTorch: the configuration checks names and numbers with it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from adept.names import unknown_name

if TYPE_CHECKING:
    from torch import Tensor

    from adept.algorithms.learner import Learner
    from adept.plan import Plan
    from adept.rollout import Rollout

BLOCKS = 32
"""Blocks of time that the held-out rule draws from where there is one environment."""


class StoppingRule(ABC):
    """Decide after each epoch of an update whether it was the last."""

    allowed: ClassVar[str] = "a number > 0"
    metric: ClassVar[str | None] = None
    """metric of an epoch that the rule compares with its limit, if it is of that kind"""

    def __init__(self, limit: float) -> None:
        if not self._allows(limit):
            raise ValueError(f"got {limit!r}, allowed is {self.allowed}")
        self.limit = limit
        self.forward_rows = 0
        """rows of forward passes that the rule made in the present update"""

    @staticmethod
    def _allows(limit: float) -> bool:
        return 0 < limit < math.inf

    def start(self, learner: Learner, rollout: Rollout, plan: Plan, seed: int) -> Rollout:
        """Prepare for an update; return the rollout to train on, all of it unless the rule keeps rows back."""
        del learner, plan, seed
        self.forward_rows = 0
        return rollout

    @abstractmethod
    def stop(self, epoch: Mapping[str, float]) -> bool:
        """Return whether the update ends after this epoch, given its metrics."""


class TargetKL(StoppingRule):
    """Stop after an epoch whose mean KL estimate, mean (ρ-1) - ln ρ, passes the limit.

    As in Spinning Up (Achiam, 2018) and Stable-Baselines3, but asked after whole epochs.
    """

    metric = "approx_kl"

    def stop(self, epoch: Mapping[str, float]) -> bool:
        """Return whether the epoch's KL estimate is above the limit."""
        return epoch["approx_kl"] > self.limit


class RatioDeviation(StoppingRule):
    """Stop after an epoch whose mean |ρ-1| passes the limit; ρ = π(a|s)/π_old(a|s).

    ESPO (Sun et al., 2022, "You May Not Need Ratio Clipping in PPO"), whose limit is 0.25. Deviation: ESPO drops the
    clipping; here the loss is that of the run.
    """

    metric = "ratio_deviation"

    def stop(self, epoch: Mapping[str, float]) -> bool:
        """Return whether the epoch's mean deviation of the ratio from 1 is above the limit."""
        return epoch["ratio_deviation"] > self.limit


class HeldOut(StoppingRule):
    """Keep a share of the rollout from training; stop when the clipped surrogate on it no longer improves.

    L(k) = mean min(ρ·A, clip(ρ, 1-ε, 1+ε)·A) over the held-out rows after epoch k. A is centred on these rows and
    divided by the standard deviation over the whole rollout. L(0) = 0, since ρ = 1 and A is centred. The update ends
    after the first epoch k with L(k) ≤ max(L(0), …, L(k-1)): early stopping on held-out data (Prechelt, 1998, "Early
    Stopping, But When?"). Rows of one episode are correlated, so whole environments are held out, drawn again for
    each update; of a single environment, blocks of time.
    """

    allowed = "a share between 0 and 0.5, for example 0.125"

    @staticmethod
    def _allows(limit: float) -> bool:
        return 0 < limit <= 0.5

    def start(self, learner: Learner, rollout: Rollout, plan: Plan, seed: int) -> Rollout:
        """Draw the rows to keep back; return the rest."""
        held = held_out_rows(len(rollout), rollout.environments, self.limit, seed)
        self.forward_rows = 0
        self._learner, self._clip_range, self._best = learner, plan.clip_range, 0.0
        self._held = rollout.take(np.flatnonzero(held))
        advantages = self._held.advantages
        self._advantages = (advantages - advantages.mean()) / (rollout.advantages.std() + 1e-8)
        return rollout.take(np.flatnonzero(~held))

    def stop(self, epoch: Mapping[str, float]) -> bool:
        """Return whether the objective on the held-out rows is no better than after the best epoch before."""
        del epoch
        self.forward_rows += len(self._held)
        ratio = (self._learner.log_probs(self._held) - self._held.log_probs).exp()
        objective = clipped_objective(ratio, self._advantages, self._clip_range)
        if objective <= self._best:
            return True
        self._best = objective
        return False


def held_out_rows(rows: int, environments: int, share: float, seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows of a rollout, (steps, environments) flattened, are kept back: at least one unit of them."""
    units = environments if environments > 1 else min(BLOCKS, rows)
    chosen = np.random.default_rng(seed).permutation(units)[: max(1, round(share * units))]
    row = np.arange(rows)
    unit = row % environments if environments > 1 else row * units // rows
    held: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.isin(unit, chosen)
    return held


def clipped_objective(ratio: Tensor, advantages: Tensor, clip_range: float) -> float:
    """Return mean min(ρ·A, clip(ρ, 1-ε, 1+ε)·A)."""
    clipped = ratio.clamp(1 - clip_range, 1 + clip_range) * advantages
    return float((ratio * advantages).minimum(clipped).mean())


STOPPING: dict[str, type[StoppingRule]] = {
    "target-kl": TargetKL,
    "ratio-deviation": RatioDeviation,
    "held-out": HeldOut,
}


def make_rules(stopping: Mapping[str, float]) -> list[StoppingRule]:
    """Build rules from their names and numbers."""
    rules = []
    for name, limit in stopping.items():
        if name not in STOPPING:
            raise unknown_name("stopping rule", name, STOPPING)
        try:
            rules.append(STOPPING[name](limit))
        except (TypeError, ValueError) as error:
            raise ValueError(f"stopping rule {name!r}: {error}; for example --stopping target-kl 0.02") from None
    return rules
