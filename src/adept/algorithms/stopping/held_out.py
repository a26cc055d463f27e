"""The held-out stop: a share of the environments is kept from training and says when it no longer gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from adept.algorithms.stopping.base import StoppingRule

if TYPE_CHECKING:
    from torch import Tensor

    from adept.algorithms.learner import Learner
    from adept.rollout import Rollout
    from adept.rules import Settings

BLOCKS = 32
"""Blocks of time that rows are drawn from where there is one environment."""


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

    def start(self, learner: Learner, rollout: Rollout, settings: Settings, seed: int) -> Rollout:
        """Draw the rows to keep back; return the rest."""
        held = held_out_rows(len(rollout), rollout.environments, self.limit, seed)
        self.forward_rows = 0
        self._learner, self._clip_range, self._best = learner, settings.clip_range, 0.0
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
