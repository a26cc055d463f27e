"""Hindsight for a training loop of one's own: monitor every update, and let the result set the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from adept.controllers import Choice, Controller, make_controller
from adept.hindsight.advice import Advice, advise
from adept.hindsight.estimates import Groups, time_groups
from adept.hindsight.judge import Judge, LogProbs, ModuleWeights, Parameters, as_numpy, explained_variance
from adept.hindsight.verdict import Verdict
from adept.schedulers.validation import real_number, whole_number

if TYPE_CHECKING:
    from torch import nn


class Hindsight:
    """Judge each update on the next rollout, and set epochs and learning-rate factor (scale) of the next update.

    ```
    hindsight = adept.Hindsight(policy, epochs=10)
    for iteration in range(iterations):
        rollout = collect(policy)
        plan = hindsight.step(lambda: log_prob(policy, rollout), rollout.advantages)
        update(policy, rollout, plan.epochs, learning_rate * plan.lr_scale)
    ```
    Call `step` once per rollout, after collecting it and before updating on it. `mark` after an epoch and `stops`
    inside the update are optional.

    Args:
        policy: any PyTorch module; its trainable parameters are judged.
        epochs: epochs per update that the loop was tuned for.
        control: set epochs and scale. With False the plan is always (epochs, 1), and updates are only judged.
        optimize_for: what the controller saves, "samples" or "compute" (see `adept.controllers.Hindsight`).
        learning_rate: that of the loop's first update. With `optimize_for="compute"` epochs are then traded for it.
        host_copy: keep the copies of the parameters on the host, to save device memory; each judged policy then costs
            two transfers.
        gains_every: iterations between two measurements of gains (`verdict.update_gain`, `by_length`, `by_epoch`).
            The slope is measured every time, at two forward passes; gains take five more, and one for each epoch
            marked. 0 means never.
        options: further options of the controller, such as gain or leak.
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
        gains_every: int = 10,
        **options: Any,
    ) -> None:
        self.controller: Controller = make_controller("hindsight", epochs, optimize_for=optimize_for, **options)
        if learning_rate is not None:
            self.controller.begin(real_number("learning_rate", learning_rate, above=0, example=3e-4))
        self.control = control
        self.verdict: Verdict | None = None
        """what the last rollout said of the update before it"""
        self.plan = Choice(self.controller.epochs)
        """what the last call of `step` returned"""
        self._gains_every = whole_number("gains_every", gains_every, at_least=0, example=10)
        self._judge: Judge[Parameters] = Judge(ModuleWeights(policy, host_copy=host_copy))
        self._records: list[dict[str, float]] = []
        self._steps = 0

    def step(
        self,
        log_probs: LogProbs,
        advantages: npt.ArrayLike,
        *,
        values: npt.ArrayLike | None = None,
        critic: LogProbs | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Choice:
        """Judge the last update on this rollout, and return epochs and scale of the next one.

        Args:
            log_probs: returns the log-probabilities of the rollout's actions under the present parameters of the
                policy, one per row, in the order of the advantages. Called several times, with other parameters in
                place; everything is restored, also when it raises.
            advantages: of the same rows, as (steps, environments). Flat ones must be in order of time or of
                environment, not shuffled.
            values: the critic's predictions for the same rows, if there is a critic and the advantages are not
                normalised: returns are taken to be their sum. The controller then holds still while the critic is
                worse than none (explained variance below -¼), for example before any reward is met.
            critic: returns the critic's predictions for the same rows under the present parameters of the policy, of
                which it is a part. With `values`, the critic is judged as well, and `plan.critic_rate(learning_rate)`
                is the rate of the parameters that only the critic has.
            groups: the group of each row, where neither holds; rows of different groups are independent.
        """
        judged = as_numpy(advantages)
        due = bool(self._gains_every) and self._steps % self._gains_every == 0
        rows = _groups(judged) if groups is None else groups
        self.verdict = self._judge.judge(log_probs, judged, rows, gains_too=due)
        if self.verdict is not None and not self.verdict.moved:
            self.verdict = None
        if self.verdict is not None and values is not None and critic is not None:
            lag = self._judge.judge_critic(critic, as_numpy(values).ravel(), judged.ravel(), rows)
            self.verdict = replace(self.verdict, critic=lag)
        evidence = None if self.verdict is None else self.verdict.evidence()
        if evidence is not None and values is not None:
            predicted = as_numpy(values).ravel()
            explained = explained_variance(predicted, predicted + judged.ravel())
            evidence = replace(evidence, explained_variance=explained)
        if self.control:
            self.plan = self.controller.step(evidence)
        self._steps += 1
        self._note()
        self._judge.begin()
        return self.plan

    def mark(self, epoch: int) -> None:
        """Copy the parameters after an epoch of the update, so that the gain of its first epochs is judged, too."""
        if self._gains_every and self._steps % self._gains_every == 0:
            self._judge.mark(epoch)

    def stops(self, kl: float) -> bool:
        """Return whether the update must end after an epoch with this approximate KL; always False without control."""
        return self.control and self.controller.stops(kl)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the controller, JSON-safe. The first update after loading is not judged."""
        return {"steps": self._steps, "controller": self.controller.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; the update before it was not made here, and is not judged."""
        steps = whole_number("steps", state["steps"], at_least=0, example=0)
        self.controller.load_state_dict(state["controller"])
        self._steps = steps
        self._judge.clear()

    def advice(self) -> Advice:
        """Return the advice on learning rate and epochs from the updates so far; `str` gives the text."""
        names = dict.fromkeys(name for record in self._records for name in record)
        found = advise({name: [record.get(name, math.nan) for record in self._records] for name in names})
        return found.calling("Hindsight(policy)", 'Hindsight(policy, optimize_for="compute")')

    def _note(self) -> None:
        """Keep what was seen for the advice: the last thousand updates."""
        record = {"epochs": float(self.plan.epochs)} | ({"lr_scale": self.plan.lr_scale} if self.control else {})
        judged = {} if self.verdict is None else {**self.verdict.columns(), "update_kl": self.verdict.kl}
        self._records = [*self._records[-999:], record | judged]


def _groups(advantages: npt.NDArray[Any]) -> Groups:
    """Return the groups of rows by the shape of the advantages: (steps, environments), or flat and in order."""
    if advantages.ndim > 1:
        return time_groups(advantages.shape[0], int(np.prod(advantages.shape[1:])))
    return time_groups(len(advantages), 1)
