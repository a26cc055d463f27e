"""`adept.Hindsight`, the engine for a training loop of one's own: evaluate every update, and set the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from adept.engine import Engine
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import GAINS_EVERY, CriticRows, LogProbs, Rows, as_numpy, explained_variance
from adept.hindsight.weights import ModuleWeights
from adept.rules import HindsightRule, Settings
from adept.schedulers.validation import real_number

if TYPE_CHECKING:
    from torch import nn


class Hindsight(Engine):
    """Evaluate each update on the next rollout, and set epochs and learning-rate factor (scale) of the next update.

    ```
    hindsight = adept.Hindsight(policy, epochs=10)
    for iteration in range(iterations):
        rollout = collect(policy)
        settings = hindsight.step(lambda: log_prob(policy, rollout), rollout.advantages)
        update(policy, rollout, settings.epochs, learning_rate * settings.lr_scale)
    ```
    Call `step` once per rollout, after collecting it and before updating on it. `mark` after an epoch, `stops` inside
    the update and `finished` after it are optional.

    Args:
        policy: any PyTorch module; its trainable parameters are evaluated.
        epochs: epochs per update that the loop was tuned for.
        control: set epochs and scale. With False the settings are always (epochs, 1), and updates are only evaluated.
        optimize_for: what is expensive, "samples" or "compute" (see `adept.rules.HindsightRule`).
        learning_rate: that of the loop's first update. The rule then starts at 0.001 or below, and stays within 0.01.
        host_copy: keep the copies of the parameters on the host, to save device memory; each evaluated policy then
            costs two transfers.
        gains_every: iterations between two measurements of gains (`feedback.update_gain`, `gain_by_length`,
            `gain_by_epoch`). The slope is measured every time, at two forward passes; gains take five more, and one for
            each epoch marked: the powers of two and the last. 0 means never.
        options: further options of the rule, such as gain or leak.
    """

    def __init__(
        self,
        policy: nn.Module,
        epochs: int = 10,
        *,
        control: bool = True,
        optimize_for: str = "samples",
        learning_rate: float | None = None,
        host_copy: bool = False,
        gains_every: int = GAINS_EVERY,
        **options: Any,
    ) -> None:
        rule = HindsightRule(epochs, optimize_for=optimize_for, **options)
        if learning_rate is not None:
            real_number("learning_rate", learning_rate, above=0, example=3e-4)
        super().__init__(rule if control else None, gains_every=gains_every, host="own-loop")
        self.attach(rule.epochs, ModuleWeights(policy, host_copy=host_copy), learning_rate)

    def step(
        self,
        log_probs: LogProbs,
        advantages: npt.ArrayLike,
        *,
        values: npt.ArrayLike | None = None,
        critic: LogProbs | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Settings:
        """Evaluate the last update on this rollout, and return epochs and scale of the next one.

        Args:
            log_probs: returns the log-probabilities of the rollout's actions under the present parameters of the
                policy, one per row, in the order of the advantages. Called several times, with other parameters in
                place; everything is restored, also when it raises.
            advantages: of the same rows, as (steps, environments). Flat ones must be in order of time or of
                environment, not shuffled.
            values: the critic's predictions for the same rows, if there is a critic and the advantages are not
                normalised: returns are taken to be their sum. Slopes then do not count while the critic is worse than
                none (explained variance below -¼), for example before any reward is found.
            critic: returns the critic's predictions for the same rows under the present parameters of the policy, of
                which it is a part. With `values`, the critic is evaluated as well, and
                `settings.critic_rate(learning_rate)` is the rate of the parameters that only the critic has.
            groups: the group of each row, where neither holds; rows of different groups are independent.
        """
        errors = as_numpy(advantages)
        if groups is None:  # (steps, environments), or flat and in order
            groups = time_groups(len(errors), int(np.prod(errors.shape[1:])))
        explained, critic_rows = None, None
        if values is not None:
            predicted = as_numpy(values).ravel()
            explained = explained_variance(predicted, predicted + errors.ravel())
            critic_rows = None if critic is None else CriticRows(critic, predicted, errors.ravel())
        return self.begin(Rows(log_probs, errors, groups, None, explained, critic_rows))
