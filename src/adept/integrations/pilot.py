"""What every integration does once per rollout: judge the last update, choose for the next one, and keep account.

A framework's module tells the pilot four things: the rows of the rollout at hand (`Rows`), when an epoch ends (`mark`),
how many epochs were done (`finished`), and where its checkpoints are (`state_dict`, `load_state_dict`). It gets the
epochs and the scale of the next update (`step`), numbers for its logger (`metrics`) and words for its user (`advice`).

Where nothing is chosen, an error while judging does not reach the host: it is told in a warning and in the advice, and
the rest of the run is not judged. A controller needs what is judged, so that with one the error is raised.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.controllers import CONTROLLERS, Choice, Controller, Evidence, make_controller
from adept.hindsight.advice import Advice, advise
from adept.hindsight.estimates import kl
from adept.hindsight.judge import Judge, Weights, as_numpy
from adept.hindsight.verdict import Verdict
from adept.integrations import contract
from adept.names import unknown_name
from adept.schedulers import SCHEDULERS, Scheduler, as_scheduler, epoch_arms
from adept.schedulers.validation import whole_number

GAINS_EVERY = 4
"""Updates between two that are judged by epoch and by length, unless told otherwise."""
MOST_ROWS = 4096
"""Rows of a rollout that are judged, unless told otherwise; of larger rollouts every second, third, … is."""
EPSILON = 1e-6
"""Epochs that an update may lack of those asked for, by rounding, and still count as whole."""
LONGEST = 10_000
"""Updates that the advice remembers."""


@dataclass(frozen=True)
class CriticRows:
    """What the judge needs of the critic, one value per row, in the units of what the critic learns from."""

    values: Callable[[], Any]
    """values of the rows under the parameters that are in place when it is called"""
    deployed: npt.ArrayLike
    """values under the parameters that collected the rows"""
    errors: npt.ArrayLike
    """returns less `deployed`: the advantages, where nobody normalised them"""


@dataclass(frozen=True)
class Rows:
    """The rollout at hand, as the judge needs it: one value per row, in an order of the integration's choice."""

    log_probs: Callable[[], Any]
    """log-probabilities of the rows' actions under the parameters that are in place when it is called"""
    advantages: npt.ArrayLike
    groups: npt.ArrayLike
    """which rows depend on each other (`adept.hindsight.time_groups`)"""
    deployed: npt.ArrayLike | None = None
    """log-probabilities under the parameters that collected the rows, where the rollout has them: saves a pass"""
    explained_variance: float | None = None
    """of the rollout's returns by the critic (`explained_variance`), where there is one"""
    critic: CriticRows | None = None
    """the same rows, as the critic sees them; it is then judged as well"""

    def divergence(self) -> float:
        """Return the KL of the present policy from the one that collected the rows, which must be known."""
        assert self.deployed is not None
        return kl(as_numpy(self.deployed), as_numpy(self.log_probs()))


def chosen_rows(rows: int, most: int, environments: int = 1) -> npt.NDArray[np.int64]:
    """Return which rows are judged: all, or evenly spread ones where there are more than `most`.

    `environments` is how many of them alternate in the order of the rows: each is then chosen as often as the others.
    """
    apart = max(1, math.ceil(rows / most))
    while apart < rows and math.gcd(apart, environments) > 1:
        apart += 1
    return np.arange(0, rows, apart, dtype=np.int64)


def _alone(evidence: Evidence | None) -> Evidence | None:
    return evidence


class Pilot:
    """Judge every update by the rollout after it, and choose the next one where told to.

    Args:
        given: who chooses. `None`: nobody, updates are only judged. The name of a controller (`"hindsight"`,
            `"kl-rate"`, `"kl-epochs"`) or a mapping with one: epochs and scale. What `as_scheduler` takes: epochs.
        monitor: judge updates; without it only schedulers can choose.
        gains_every: updates between two that are judged by epoch and by length; 0 means never.
        rows: rows of a rollout that are judged at most.
        call: how the user of this host asks for the hindsight controller, for the advice.
        pool: makes one of the evidence of several learners, where the host has them; called before each choice of a
            controller, with None where this learner knows nothing.
    """

    def __init__(
        self,
        given: Any = None,
        *,
        monitor: bool = True,
        gains_every: int = GAINS_EVERY,
        rows: int = MOST_ROWS,
        call: str = 'attach(…, "hindsight")',
        pool: Callable[[Evidence | None], Evidence | None] = _alone,
    ) -> None:
        self._given, self._epochs = given, 0
        self.chooser = chooser(given, epochs=1)  # what is wrong with it is said now; the host's epochs come later
        self._fresh = self.state_dict()
        self.monitor, self._call, self._pool = monitor, call, pool
        self.most_rows = whole_number("rows", rows, at_least=1, example=MOST_ROWS)
        self._gains_every = whole_number("gains_every", gains_every, at_least=0, example=GAINS_EVERY)
        self.verdict: Verdict | None = None
        """what the last rollout said of the update before it"""
        self.choice = Choice(1)
        """for the update to come, or the one that runs"""
        self._judge: Judge[Any] | None = None
        self._steps = 0
        self._started = 0.0
        self._reward: float | None = None
        self._rows: list[dict[str, float]] = []
        self._failure = ""

    def attach(self, epochs: int, weights: Weights[Any] | None, learning_rate: float | None = None) -> None:
        """Meet the host: its own epochs per update, the parameters to judge, and its learning rate, where known."""
        if epochs != self._epochs:
            self._epochs, self.choice = epochs, Choice(epochs)
            self._rebuild(epochs)
        if isinstance(self.chooser, Controller) and not self._steps and learning_rate is not None:
            self.chooser.begin(learning_rate)
        if self._judge is None and self.monitor and weights is not None and not self._failure:
            self._judge = Judge(weights)
        if self._judge is None and isinstance(self.chooser, Controller):
            raise ValueError(
                f"{self.chooser!r} chooses by what updates were worth, which is not judged here; a scheduler such as "
                "'ucb' can do without: give one, or leave monitor on"
            )

    def _rebuild(self, epochs: int) -> None:
        """Build a chooser given as data for the host's epochs; one that does not depend on them stays as it is."""
        if self._is_data:
            built = chooser(self._given, epochs=epochs)
            fresh = {} if built is None else built.state_dict()
            if fresh != self._fresh:
                self.chooser, self._fresh = built, fresh

    def forget(self) -> None:
        """Forget the parameters of the last update: those at hand were not made by it."""
        self._judge = None

    def restart(self, *, loads: bool = False) -> None:
        """Begin another run, which is told its epochs with `attach`: nothing of the last one counts there.

        A chooser given as data is built again. An object that chose already is refused, since the other run's return
        would be credited to its last choice; unless a saved state is about to take the place of its own (`loads`).
        """
        if self._is_data:
            self.chooser = chooser(self._given, epochs=1)
            self._fresh = self.state_dict()
        elif not loads and self.state_dict() != self._fresh:
            raise ValueError(
                f"{self.chooser!r} has chosen for another model, and would be credited with this one's return; an "
                "object serves one model: build a new one for each model, or give it as data, such as 'ucb'"
            )
        self._epochs, self._steps, self._failure = 0, 0, ""
        self._judge = self.verdict = self._reward = None
        self._rows = []

    @property
    def _is_data(self) -> bool:
        return self._given is not None and not isinstance(self._given, Scheduler | Controller)

    @property
    def waits(self) -> bool:
        """Whether the chooser may depend on the host's epochs, which are not known yet."""
        return not self._epochs and self._is_data

    @property
    def epochs(self) -> int:
        """The host's own epochs per update, as it last told them."""
        return self._epochs

    @property
    def updates(self) -> int:
        """How many updates were chosen or monitored so far."""
        return self._steps

    @property
    def controls(self) -> bool:
        """Whether anything is chosen at all."""
        return self.chooser is not None

    @property
    def wants_reward(self) -> bool:
        """Whether the choice follows a reward, so that the integration has to compute it."""
        return isinstance(self.chooser, Scheduler)

    @property
    def wants_rows(self) -> bool:
        """Whether the next `step` judges anything."""
        return self._judge is not None and self._judge.start is not None

    @property
    def kl_stop(self) -> float | None:
        """The KL at which the controller's guard ends an update, for hosts with such a rule of their own."""
        limit = self.chooser.options.get("kl_stop") if isinstance(self.chooser, Controller) else None
        return float(limit) if limit is not None else None

    @property
    def marking(self) -> bool:
        """Whether the update that runs is one of those judged by epoch."""
        return self._judge is not None and bool(self._gains_every) and self._steps % self._gains_every == 0

    @contextmanager
    def _kept_from_host(self) -> Iterator[None]:
        """Let an error end the judging instead of the training, unless a controller needs what is judged.

        What is inside is judging alone, and its copies are freed: where memory ran out for them, training can go on.
        Errors of the host's own code are outside, and interrupts are never caught.
        """
        try:
            yield
        except Exception as error:
            if isinstance(self.chooser, Controller):
                raise
            text = f"{type(error).__name__}: {error}"
            self._judge = None
            self._failure = f"Judging stopped at update {self._steps}: {text.splitlines()[0].rstrip('.: ')}."
            warnings.warn(
                f"adept stopped judging the updates of this run, training goes on unchanged: {text}",
                RuntimeWarning,
                stacklevel=2,
            )

    def rollout(self, build: Callable[[], Rows | None]) -> Rows | None:
        """Return the rows of the rollout at hand, built if they are judged or the controller's guard needs them."""
        if self.wants_rows or self.kl_stop is not None:
            with self._kept_from_host():
                return build()
        return None

    def step(self, *, reward: float | None = None, rows: Rows | None = None) -> Choice:
        """Judge the last update on this rollout, choose for the next, and take the parameters as they are."""
        self.verdict = None
        with self._kept_from_host():
            self.verdict = self._judged(rows)
        self._reward = reward
        if isinstance(self.chooser, Scheduler):
            self.choice = Choice(self.chooser.step(reward))
        elif isinstance(self.chooser, Controller):
            self.choice = self.chooser.step(self._pool(self._evidence(rows)))
        self._steps += 1
        self._rows = [*self._rows[-LONGEST:], self._row()]
        if self._judge is not None:
            with self._kept_from_host():
                self._judge.begin()
        self._started = time.perf_counter()
        return self.choice

    def _judged(self, rows: Rows | None) -> Verdict | None:
        if rows is None or self._judge is None:
            return None
        due = bool(self._gains_every) and self._steps % self._gains_every == 0
        found = self._judge.judge(rows.log_probs, rows.advantages, rows.groups, deployed=rows.deployed, gains_too=due)
        if found is None or not found.moved:
            return None
        if rows.critic is None:
            return found
        critic = rows.critic
        return replace(
            found, critic=self._judge.judge_critic(critic.values, critic.deployed, critic.errors, rows.groups)
        )

    def _evidence(self, rows: Rows | None) -> Evidence | None:
        if self.verdict is None or rows is None:
            return None
        last = self._rows[-1] if self._rows else {}
        done = last.get("epochs_done")
        evidence = self.verdict.evidence(
            epochs_done=None if done is None else round(done),
            stopped=done is not None and done < last["epochs"] - EPSILON,
        )
        return replace(evidence, explained_variance=rows.explained_variance)

    def mark(self, epoch: int) -> None:
        """Take note that an epoch of the update ended, the first being 1; the last one is the update itself."""
        if self.marking and self._judge is not None and epoch < self.choice.epochs:
            with self._kept_from_host():
                self._judge.mark(epoch)

    def stops(self, kl: float) -> bool:
        """Say whether the update must end after an epoch with this KL."""
        return isinstance(self.chooser, Controller) and self.chooser.stops(kl)

    def finished(self, epochs_done: float) -> None:
        """Take note of the epochs that the update really did."""
        if self._rows:
            self._rows[-1]["epochs_done"] = epochs_done
            self._rows[-1]["update_seconds"] = time.perf_counter() - self._started

    def metrics(self) -> dict[str, float]:
        """Return what this rollout adds to the host's log: the verdict on the last update, the chooser's numbers."""
        numbers: dict[str, float] = {}
        if self._reward is not None:
            numbers["reward"] = float(self._reward)
        if isinstance(self.chooser, Scheduler):
            numbers |= contract.arm_numbers(self.chooser)
        elif isinstance(self.chooser, Controller):
            numbers |= {**self.chooser.diagnostics(), "lr_scale": self.choice.lr_scale}
            if self.choice.critic_lr_scale is not None:
                numbers["critic_lr_scale"] = self.choice.critic_lr_scale
        return contract.logged(self.verdict, **numbers)

    def update_metrics(self) -> dict[str, float]:
        """Return what is known once an update is over: the epochs asked for and done."""
        if not self._rows or "epochs_done" not in self._rows[-1]:
            return {}
        return contract.prefixed({name: self._rows[-1][name] for name in ("epochs", "epochs_done")})

    def advice(self) -> Advice:
        """Return what the updates so far say of the host's epochs and learning rate."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        found = advise({name: [row.get(name, math.nan) for row in self._rows] for name in names})
        compute = self._call.replace('"hindsight"', '{"name": "hindsight", "optimize_for": "compute"}')
        found = found.calling(self._call, compute)
        return replace(found, sentences=(*found.sentences, self._failure)) if self._failure else found

    def state_dict(self) -> dict[str, Any]:
        """Return the chooser's state, JSON-safe; empty where nothing is chosen.

        Parameters are not in it: the first update after a load is not judged.
        """
        return {} if self.chooser is None else self.chooser.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, forget: str) -> None:
        """Continue from a state found in the host's checkpoint; `forget` tells how to do without it.

        The state of a run that was only judged is empty, and leaves the chooser as it is.
        """
        if self._judge is not None:
            self._judge.clear()  # the parameters that come with the state are not those of the last update
        if self.chooser is None or not state:
            return
        try:
            self.chooser.load_state_dict(state)
        except ValueError as error:
            raise ValueError(f"{error}; or {forget} to start it afresh") from error

    def _row(self) -> dict[str, float]:
        row = {"epochs": float(self.choice.epochs)}
        if isinstance(self.chooser, Controller):
            row["lr_scale"] = self.choice.lr_scale
        return row if self.verdict is None else {**row, **self.verdict.columns(), "update_kl": self.verdict.kl}


def chooser(given: Any, *, epochs: int) -> Scheduler[int] | Controller | None:
    """Return who chooses, from what a user gave: None, a controller, a scheduler, or data that name one of these.

    A controller starts from the host's epochs per update, and a scheduler that names no arms chooses among these, half
    of them and one.
    """
    if given is None or isinstance(given, Controller):
        if given is not None:
            given.require_updates(type(given).__name__)
        return given
    values = dict(given) if isinstance(given, Mapping) else {"name": given}
    name = values.pop("name", None)
    if isinstance(name, str) and name in CONTROLLERS:
        CONTROLLERS[name].require_updates(name)
        return make_controller(name, values.pop("epochs", epochs), **values)
    if isinstance(name, str) and name not in SCHEDULERS and ":" not in name:
        raise unknown_name("scheduler or controller", name, (*SCHEDULERS, *CONTROLLERS))
    scheduler = as_scheduler(given, arms=tuple(dict.fromkeys((epochs, max(1, epochs // 2), 1))))
    epoch_arms(scheduler.arms)
    return scheduler
