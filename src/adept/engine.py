"""The engine: evaluate the last update on this rollout, let a rule set the next one, and keep account.

The trainer, `adept.Hindsight` and every framework are adapters of it: they give it the rows of each rollout (`begin`),
the end of each epoch (`mark`) and what an update did (`finished`).

Where no rule needs the evaluation, an error in it does not reach the host: it is reported in a warning and in the
advice, and the rest of the run is not evaluated. Otherwise the error is raised.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from adept.hindsight.advice import Advice, advise
from adept.hindsight.estimates import UNKNOWN
from adept.hindsight.evaluation import GAINS_EVERY, Evaluator, Feedback, Rows
from adept.hindsight.weights import Weights
from adept.rules import BanditRule, Rule, Settings, make_rule
from adept.schedulers import Scheduler
from adept.schedulers.validation import LARGEST_NUMBER, whole_number
from adept.seeding import stream_seed

PREFIX = "adept"
"""Everything that hosts log starts with it."""
MAX_ROWS = 4096
"""Rows of a rollout that evaluate an update, unless told otherwise."""
MAX_UPDATES = 10_000
"""Updates that the advice remembers."""
EPSILON = 1e-6
"""Epochs that an update may lack of those asked for, by rounding, and still count as whole."""


class Engine:
    """Evaluate every update on the rollout after it, and let a rule set the next one.

    Gains are measured every `gains_every` updates. The slope is measured after every update, or with
    `every_slope=False` only with the gains and where the rule needs it.

    An update that did not move the policy, for example because the guard undid its only epoch, has no slope and no
    gain. Its KL still reaches the rule where the host gives it to `finished`: the KL of the undone epoch is above the
    guard's limit, so that the rule shrinks the next step.

    Args:
        given: who sets updates. `None`: nobody, updates are only evaluated. Else what `adept.make_rule` takes.
        monitor: evaluate updates; without it only bandits can choose.
        gains_every: updates between two whose gains by epoch and by length are measured; 0 means never.
        rows: rows of a rollout that evaluate an update at most, drawn at random.
        every_slope: measure the slope of every update, also where no rule needs it.
        seed: of the stream that draws rows.
        host: the host, whose options the advice names (`adept.hindsight.advice_text.HOSTS`).
        pool: makes one feedback of that of several learners, where the host has them; called for every update, with
            None where this learner knows nothing.
    """

    sees_gradients: ClassVar[bool] = False
    """whether the host lets a rule act on every gradient step"""

    def __init__(
        self,
        given: Any = None,
        *,
        monitor: bool = True,
        gains_every: int = GAINS_EVERY,
        rows: int = MAX_ROWS,
        every_slope: bool = True,
        seed: int = 0,
        host: str = "own-loop",
        pool: Callable[[Feedback | None], Feedback | None] | None = None,
    ) -> None:
        self._given = given
        self.is_object = isinstance(given, Scheduler | Rule)
        """whether the rule came as an object, which is not built again"""
        self.controls = given is not None
        """whether a rule sets updates; without one they stay the host's"""
        self.monitor, self._host, self._pool, self._seed = monitor, host, pool, seed
        self.max_rows = whole_number("rows", rows, at_least=1, example=MAX_ROWS)
        self._gains_every = whole_number("gains_every", gains_every, at_least=0, example=GAINS_EVERY)
        self._every_slope = every_slope
        self.rewards_scaled = False
        """whether the host divides rewards by their scale, for the advice"""
        self._fresh: dict[str, Any] = {}
        """state of the rule when it was built"""
        self._build(1)  # what is wrong with it is said now; the host's epochs come later
        self.epochs = 0
        """the host's own epochs per update, as it last told them"""
        self.settings = Settings(1)
        """of the update to come, or of the one that runs"""
        self.updates = 0
        """how many updates were set or evaluated so far"""
        self.feedback: Feedback | None = None
        """what the last rollout says of the update before it; None where it says nothing"""
        self._evaluator = Evaluator()
        self._last: dict[str, Any] = {}
        """what the last update itself said"""
        self._deployed: int | None = None
        """whole epochs that the deployed parameters are after, where known"""
        self._rule_ended = False
        self._started = 0.0
        self._failure = ""
        self._history: deque[dict[str, float]] = deque(maxlen=MAX_UPDATES)

    def _build(self, epochs: int) -> None:
        """Build the rule for the host's epochs; one that does not depend on them stays as it is."""
        rule = make_rule(self._given, epochs=epochs) if self.controls else Rule(epochs)
        if not self.sees_gradients:
            rule.require_updates()
        fresh = rule.state_dict()
        if fresh != self._fresh:
            self.rule, self._fresh = rule, fresh

    def attach(self, epochs: int, weights: Weights | None, learning_rate: float | None = None) -> None:
        """Meet the host: its own epochs per update, the parameters to evaluate, and its learning rate, where known."""
        if epochs != self.epochs:
            self.epochs, self.settings = epochs, Settings(epochs)
            if not self.is_object:
                self._build(epochs)
        if not self.updates and learning_rate is not None:
            self.rule.begin(learning_rate)
        if self._evaluator.weights is None and self.monitor and not self._failure:
            self._evaluator = Evaluator(weights)
        if self._evaluator.weights is None and self.needs_evaluation:
            raise ValueError(
                f"{self.rule!r} needs measurements of updates, which are not made here; a bandit such as 'ucb' does "
                "not: name one, or leave monitor on"
            )

    def forget(self) -> None:
        """Forget the parameters of the last update: those at hand were not made by it."""
        self._evaluator = Evaluator()

    @property
    def waits(self) -> bool:
        """Whether the rule may depend on the host's epochs, which are not known yet."""
        return self.controls and not self.is_object and not self.epochs

    @property
    def needs_evaluation(self) -> bool:
        """Whether the rule goes by measurements of updates."""
        return self.controls and not self.rule.needs_reward

    @property
    def wants_rows(self) -> bool:
        """Whether the next `begin` evaluates anything."""
        return self._evaluator.start is not None

    @property
    def marks(self) -> tuple[int, ...]:
        """The epochs whose gain is measured: the powers of two up to the largest number, and the arms."""
        return marked_epochs(self.rule.scheduler.arms if isinstance(self.rule, BanditRule) else (self.epochs,))

    @property
    def _gains_due(self) -> bool:
        """Whether the next rollout measures the gains of the update before it."""
        return self.monitor and bool(self._gains_every) and self.updates > 0 and self.updates % self._gains_every == 0

    @contextmanager
    def _kept_from_host(self) -> Iterator[None]:
        """Let an error end the evaluation instead of the training, unless a rule needs the evaluation.

        What is inside is evaluation alone, and its copies are freed: where memory ran out for them, training can go
        on. Errors of the host's own code are outside, and interrupts are never caught.
        """
        try:
            yield
        except Exception as error:
            if self.needs_evaluation:
                raise
            text = f"{type(error).__name__}: {error}"
            self._evaluator = Evaluator()
            self._failure = f"Evaluation stopped at update {self.updates}: {text.splitlines()[0].rstrip('.: ')}."
            warnings.warn(
                f"adept stopped evaluating the updates of this run, training goes on unchanged: {text}",
                RuntimeWarning,
                stacklevel=2,
            )

    def rollout(self, build: Callable[[], Rows | None]) -> Rows | None:
        """Return the rows of the rollout at hand, built if they evaluate anything or the rule's guard needs them."""
        if self.wants_rows or self.rule.kl_stop is not None:
            with self._kept_from_host():
                return build()
        return None

    def choose_rows(self, rows: int, limit: int | None = None) -> npt.NDArray[np.int64]:
        """Return which of so many rows evaluate the update, in order: all, or as many random ones as the limit."""
        limit = self.max_rows if limit is None else limit
        if rows <= limit:
            return np.arange(rows, dtype=np.int64)
        rng = np.random.default_rng(stream_seed(self._seed, "monitor", self.updates))
        return np.sort(rng.choice(rows, limit, replace=False))

    def begin(
        self,
        rows: Rows | None = None,
        *,
        reward: float | None = None,
        lr_decay: float = 1.0,
        learning_rate: float | None = None,
        score: float | None = None,
    ) -> Settings:
        """Evaluate the last update on this rollout, set the next one and return its settings, and copy the parameters.

        `lr_decay` is the factor of the host's learning-rate schedule for the next update, where it has one. The
        scheduled `learning_rate` itself and the `score`, a mean return, are for the advice.
        """
        wanted = self.rule.wants_slope  # before this rollout tells anything
        found: Feedback | None = None
        with self._kept_from_host():
            found = self._evaluate(rows, wanted=wanted)
        explained = None if rows is None else rows.explained_variance
        if found is not None or reward is not None or "kl" in self._last:
            found = replace(
                found or Feedback(), **self._last, explained_variance=explained, reward=reward, lr_decay=lr_decay
            )
        self.feedback = found = found if self._pool is None else self._pool(found)
        if found is not None and not wanted:  # monitoring may have measured a slope: it changes no number of a run
            found = replace(found, slope=UNKNOWN, critic_slope=UNKNOWN)
        self.settings = self.rule.step(found)
        self.updates += 1
        lr_scale = self.settings.lr_scale if self.needs_evaluation else None
        told = {"explained_variance": explained, "learning_rate": learning_rate, "score": score, "lr_scale": lr_scale}
        known = {name: value for name, value in told.items() if value is not None}
        self._history.append({"epochs": float(self.settings.epochs), **self._measured(), **known})
        with self._kept_from_host():
            if self._every_slope or self.rule.needs_slope or self._gains_due:
                self._evaluator.begin()
            else:
                self._evaluator.clear()
        self._last, self._deployed, self._rule_ended = {}, None, False
        self._started = time.perf_counter()
        return self.settings

    def _evaluate(self, rows: Rows | None, *, wanted: bool) -> Feedback | None:
        """Return the estimates of the last update; None where none are due, or it did not move the policy."""
        gains = self._gains_due
        if rows is None or not (gains or wanted or self._every_slope):
            return None
        deployed = self._deployed if self._deployed in self.marks else None
        found = self._evaluator.evaluate(rows, gains=gains, deployed=deployed)
        return None if found is None or found.kl == 0 else found

    def mark(self, epoch: int) -> None:
        """Take note that an epoch of the update ended, the first being 1; its gain is measured where that is due."""
        if epoch >= self.settings.epochs:
            self._deployed = epoch
        elif self._gains_due and epoch in self.marks and self.wants_rows:
            with self._kept_from_host():
                self._evaluator.mark(epoch)

    def stops(self, kl: float) -> bool:
        """Say whether the rule's guard ends the update after an epoch with this KL; False without a rule."""
        self._rule_ended = self.rule.stops(kl)
        return self._rule_ended

    def repeat(self, kl: float) -> float | None:
        """Return the factor of the learning rate with which the whole update is made again; None: it stays."""
        factor = self.rule.repeat(kl)
        if factor is not None:
            self._evaluator.marked.clear()
        return factor

    def finished(
        self, epochs_done: float, *, kl: float | None = None, clip_fraction: float | None = None, undone: bool = False
    ) -> None:
        """Take note of the epochs that the update really did, and of its last epoch's numbers, where they are known.

        Give the KL of an epoch that was undone, too: a KL that is not finite counts as very large.
        """
        short = epochs_done < self.settings.epochs - EPSILON
        whole = abs(epochs_done - round(epochs_done)) < EPSILON
        self._deployed = round(epochs_done) - undone if whole else None
        self._last = {"epochs_done": round(epochs_done), "stopped": short and not (self._rule_ended or undone)}
        if kl is not None:
            self._last["kl"] = kl if math.isfinite(kl) else LARGEST_NUMBER
        if clip_fraction is not None and math.isfinite(clip_fraction):
            self._last["clip_fraction"] = clip_fraction
        if self._history:
            self._history[-1]["epochs_done"] = epochs_done
            self._history[-1]["update_seconds"] = time.perf_counter() - self._started

    def _measured(self) -> dict[str, float]:
        """Return the feedback on the last update as columns; none where there is no feedback."""
        return {} if self.feedback is None else self.feedback.columns()

    def metrics(self) -> dict[str, float]:
        """Return what is known for the host's log: estimates, reward, the rule's numbers, and epochs once finished."""
        numbers = self._measured()
        if self.controls:
            numbers |= self.rule.metrics(self.settings)
        if self._history and "epochs_done" in self._history[-1]:
            numbers |= {name: self._history[-1][name] for name in ("epochs", "epochs_done")}
        return {f"{PREFIX}/{name}": float(value) for name, value in numbers.items() if math.isfinite(value)}

    def advice(self) -> Advice:
        """Return what the updates so far say of the host's epochs and learning rate."""
        names = dict.fromkeys(name for row in self._history for name in row)
        columns = {name: [row.get(name, math.nan) for row in self._history] for name in names}
        found = advise(columns, host=self._host, rewards_scaled=self.rewards_scaled)
        return replace(found, notes=(self._failure,) if self._failure else ())

    def state_dict(self) -> dict[str, Any]:
        """Return the state, JSON-safe; empty where nothing is chosen.

        Parameters are not in it: the first update after a load is not evaluated, unless the host saves them, too.
        """
        if not self.controls:
            return {}
        own = {"updates": self.updates, "deployed": self._deployed, "last": self._last}
        return {**own, "rule": self.rule.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any], *, forget: str = "leave it out") -> None:
        """Continue from a saved state; `forget` tells how to do without one that was found in the host's checkpoint.

        The state of a run that was only evaluated is empty, and leaves the rule as it is.
        """
        self._evaluator.clear()  # the parameters that come with the state are not those of the last update
        if not self.controls or not state:
            return
        try:
            if not isinstance(state, Mapping) or state.keys() != self.state_dict().keys():
                raise ValueError(f"{self.rule!r} cannot load {state!r}, which is no state of this version of ADEPT")
            self.rule.load_state_dict(state["rule"])
        except ValueError as error:
            raise ValueError(f"{error}; or {forget} to start it afresh") from error
        self.updates, self._deployed, self._last = state["updates"], state["deployed"], dict(state["last"])


def marked_epochs(arms: tuple[int, ...]) -> tuple[int, ...]:
    """Return the epochs whose gain is measured: the powers of two up to the largest arm, and the arms."""
    powers = (2**power for power in range(max(arms).bit_length()))
    return tuple(sorted({*powers, *arms}))
