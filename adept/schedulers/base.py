"""The contract that every scheduler keeps, with the validation and the state that all of them share."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np

Arm = TypeVar("Arm", bound=Hashable)

LARGEST_REWARD = 1e100
"""Rewards beyond this are refused: their square, which a variance needs, would no longer be finite."""


class Scheduler(ABC, Generic[Arm]):
    """Choose one of several arms, again and again, from the reward that each choice led to.

    A new rule implements `_choose` and `_credit`, and, where it keeps state, `_state`, `_restore` and
    `_diagnose`. Arms are handled by their index in `arms` there; the public methods translate and validate.
    """

    def __init__(self, arms: Sequence[Arm], *, seed: int = 0) -> None:
        self._arms = distinct_arms(arms)
        self._index = {arm: index for index, arm in enumerate(self._arms)}
        self._rng = np.random.default_rng(whole_number("seed", seed, at_least=0))
        self._choices = [0] * len(self._arms)
        self._pending: int | None = None

    @classmethod
    def from_arms(cls, arms: Sequence[Arm], *, seed: int = 0, **options: Any) -> Self:
        """Build from a list of arms; for rules whose constructor takes something else."""
        return cls(arms, seed=seed, **options)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms in the order given; ties go to the first."""
        return self._arms

    @property
    def options(self) -> dict[str, float]:
        """The knobs of this rule, as given; a saved state fits only a scheduler with the same ones."""
        return {}

    def select(self) -> Arm:
        """Make the next choice."""
        index = self._choose()
        self._choices[index] += 1
        return self._arms[index]

    def observe(self, arm: Arm, reward: float) -> None:
        """Credit the named arm with a reward."""
        value = finite_reward(reward)
        try:
            index = self._index[arm]
        except (KeyError, TypeError):
            raise ValueError(f"unknown arm {arm!r}; the arms are {self._arms!r}") from None
        self._credit(index, value)

    def step(self, reward: float | None) -> Arm:
        """Credit the previous choice with the reward of this rollout, then make the next choice.

        The rollout at hand was collected by the policy that the *previous* choice produced, so the first call
        credits nobody. `None` means that there is nothing to credit, for example because no episode ended.
        """
        if reward is not None:
            value = finite_reward(reward)
            if self._pending is not None:
                self._credit(self._pending, value)
        arm = self.select()
        self._pending = self._index[arm]
        return arm

    def diagnostics(self) -> dict[str, float]:
        """Return what a plot of the decisions wants, as `name/arm` → number.

        `choices` counts the choices of an arm; what else there is depends on the rule, and `score` is always
        the number by which the arms were last compared.
        """
        table = {"choices": [float(count) for count in self._choices], **self._diagnose()}
        return {
            f"{name}/{arm}": value
            for name, values in table.items()
            for arm, value in zip(self._arms, values, strict=True)
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the future choices depend on, as JSON-safe values."""
        return {
            "scheduler": type(self).__name__,
            "arms": [_label(arm) for arm in self._arms],
            "options": self.options,
            "choices": list(self._choices),
            "pending": self._pending,
            "generator": _generator_state(self._rng),
            "rule": self._state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; on a state that does not fit, raise `ValueError` and change nothing."""
        restored = copy.deepcopy(self)
        try:
            restored._load(state)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"damaged scheduler state: {type(error).__name__}: {error}") from error
        self.__dict__.update(restored.__dict__)

    def _load(self, state: Mapping[str, Any]) -> None:
        mine = self.state_dict()
        for key in ("scheduler", "arms", "options"):
            if state[key] != mine[key]:
                raise ValueError(
                    f"the state is of a scheduler with {key} {state[key]!r}, this one has {mine[key]!r}; "
                    "build the scheduler as it was when the state was saved"
                )
        self._choices = counts(state["choices"], len(self._arms))
        pending = state["pending"]
        if pending is not None:
            pending = whole_number("pending", pending, at_least=0)
            if pending >= len(self._arms):
                raise ValueError(f"damaged scheduler state: pending is {pending}, of {len(self._arms)} arms")
        self._pending = pending
        self._rng.bit_generator.state = _generator_from(state["generator"])
        self._restore(state["rule"])

    @abstractmethod
    def _choose(self) -> int:
        """Return the index of the next arm."""

    @abstractmethod
    def _credit(self, index: int, reward: float) -> None:
        """Take note of a finite reward of one arm."""

    def _state(self) -> dict[str, Any]:
        """Return the rule's own state, JSON-safe."""
        return {}

    def _restore(self, rule: Mapping[str, Any]) -> None:
        """Set the rule's own state from what `_state` returned, checking it with `counts` and `numbers`."""

    def _diagnose(self) -> dict[str, Sequence[float]]:
        """Return the rule's own numbers, a list over the arms for each name."""
        return {}


def epoch_arms(arms: Sequence[int]) -> tuple[int, ...]:
    """Check that arms are numbers of update epochs: distinct whole numbers ≥ 1."""
    return distinct_arms([whole_number("a number of epochs", arm, at_least=1) for arm in _listed(arms)])


def distinct_arms(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Check that arms are one or more distinct hashable values."""
    listed = _listed(arms)
    try:
        distinct = len(set(listed)) == len(listed) > 0
    except TypeError:
        distinct = False
    if not distinct:
        raise ValueError(f"arms must be one or more distinct hashable values, got {arms!r}; for example [3, 2, 1]")
    return listed


def finite_reward(reward: Any) -> float:
    """Check that a reward is a finite number; anything that `float` takes will do, strings aside."""
    try:
        value = math.nan if isinstance(reward, str | bytes) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST_REWARD:
        raise ValueError(
            f"a reward must be a finite number of at most {LARGEST_REWARD:g} in size, got {reward!r}; "
            "pass None to `step` where there is nothing to credit"
        )
    return value


def whole_number(name: str, value: Any, *, at_least: int) -> int:
    """Check that a value is a whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise ValueError(f"{name} must be a whole number ≥ {at_least}, got {value!r}")
    return int(value)


def real_number(name: str, value: Any, *, above: float = -math.inf, at_least: float = -math.inf,
                at_most: float = math.inf) -> float:
    """Check that a value is a finite number within bounds."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value > above and value >= at_least and value <= at_most):
        bounds = [f"> {above:g}"] if above > -math.inf else []
        bounds += [f"≥ {at_least:g}"] if at_least > -math.inf else []
        bounds += [f"≤ {at_most:g}"] if at_most < math.inf else []
        raise ValueError(f"{name} must be a finite number {' and '.join(bounds)}, got {value!r}".replace(" ,", ","))
    return float(value)


def counts(values: Any, length: int) -> list[int]:
    """Check a saved list of counters, one per arm."""
    return [whole_number("a saved counter", value, at_least=0) for value in _saved_list(values, length)]


def numbers(values: Any, length: int, *, at_least: float = -math.inf) -> list[float]:
    """Check a saved list of finite numbers, one per arm."""
    return [real_number("a saved number", value, at_least=at_least) for value in _saved_list(values, length)]


def _saved_list(values: Any, length: int) -> list[Any]:
    if not isinstance(values, list) or len(values) != length:
        raise ValueError(f"damaged scheduler state: expected a list of {length} values, got {values!r}")
    return values


def _listed(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    if isinstance(arms, str | bytes):
        raise ValueError(f"arms must be a list of values, got the text {arms!r}; for example [3, 2, 1]")
    try:
        return tuple(arms)
    except TypeError:
        raise ValueError(f"arms must be a list of values, got {arms!r}; for example [3, 2, 1]") from None


def _label(arm: object) -> str:
    """Name an arm the same way in every process, so that a state can be checked against its scheduler."""
    if isinstance(arm, np.generic):
        arm = arm.item()
    name = getattr(arm, "__qualname__", None)
    return repr(arm) if name is None else f"{getattr(arm, '__module__', '')}.{name}"


def _generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the generator's state with its 128-bit integers as text, which every JSON reader keeps whole."""
    state = rng.bit_generator.state
    return {
        "name": state["bit_generator"],
        "state": str(state["state"]["state"]),
        "inc": str(state["state"]["inc"]),
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def _generator_from(saved: Mapping[str, Any]) -> dict[str, Any]:
    if saved["name"] != "PCG64":
        raise ValueError(f"damaged scheduler state: generator {saved['name']!r}, expected 'PCG64'")
    return {
        "bit_generator": "PCG64",
        "state": {"state": int(saved["state"]), "inc": int(saved["inc"])},
        "has_uint32": int(saved["has_uint32"]),
        "uinteger": int(saved["uinteger"]),
    }
