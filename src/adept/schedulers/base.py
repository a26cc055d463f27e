"""The contract that every scheduler keeps, with the bookkeeping that all of them share."""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import numpy as np

from adept.schedulers.saved import generator_state, label, restored_generator
from adept.schedulers.validation import Arm, distinct_arms, finite_reward, whole_number

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 50
"""Choices after which an untried arm causes a warning."""


class Scheduler(ABC, Generic[Arm]):
    """Choose one of several arms before every update, from the rewards of earlier choices.

    To write a rule, implement `_choose` and `_credit`. Override `options` if it has options, set `saved` if it keeps
    state, and override `_diagnose` if it has numbers to plot. In these methods an arm is its index in `arms`.
    """

    saved: ClassVar[tuple[str, ...]] = ()
    """names of the rule's state: JSON-safe values in attributes that begin with an underscore"""
    STANDARDIZED = ""
    """class and name of the scheduler that explores whatever the size of rewards, where this rule may not"""

    def __init__(self, arms: Sequence[Arm], *, seed: int = 0) -> None:
        self._arms = distinct_arms(arms)
        self._index = {arm: index for index, arm in enumerate(self._arms)}
        self._rng = np.random.default_rng(whole_number("seed", seed, at_least=0, example=0))
        self._choices = [0] * len(self._arms)
        self._pending: int | None = None

    @classmethod
    def from_arms(cls, arms: Sequence[Arm], *, seed: int = 0, **options: Any) -> Self:
        """Build from a list of arms, whatever the constructor takes."""
        return cls(arms, seed=seed, **options)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms in the order given; ties go to the first."""
        return self._arms

    @property
    def options(self) -> Mapping[str, float | str]:
        """The options of this rule; a saved state can be loaded only with the same ones."""
        return {}

    def __repr__(self) -> str:
        knobs = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({list(self._arms)!r}{knobs})"

    def select(self) -> Arm:
        """Make the next choice; credit it with `observe`."""
        return self._arms[self._select()]

    def observe(self, arm: Arm, reward: float) -> None:
        """Credit the named arm with a reward."""
        value = finite_reward(reward)
        try:
            index = self._index[arm]
        except (KeyError, TypeError):
            raise ValueError(f"unknown arm {arm!r}; the arms are {self._arms!r}, name one of them") from None
        self._credit(index, value)

    def step(self, reward: float | None) -> Arm:
        """Credit the previous choice of `step` with the reward of this rollout, then make the next choice.

        The rollout at hand was collected by the policy that the *previous* choice produced, so the first call
        credits no arm. `None` means that there is nothing to credit, for example because no episode ended.

        Deviation: the authors' scripts choose first and credit the new choice with the rollout already there; the
        paper credits the choice with the return of the policy that it produced, as here.
        """
        if reward is not None:
            value = finite_reward(reward)
            if self._pending is not None:
                self._credit(self._pending, value)
        self._pending = self._select()
        return self._arms[self._pending]

    def diagnostics(self) -> dict[str, float]:
        """Return numbers to plot, as `name/arm` → number.

        `choices` counts the choices of an arm. Where a rule compares the arms by a number, `score` is that
        number: the last draw where the rule draws, else as it stands now.
        """
        names = [arm if isinstance(arm, str) else label(arm) for arm in self._arms]
        # Where two arms would share a name, their places tell them apart.
        names = [name if names.count(name) == 1 else f"{name}#{place}" for place, name in enumerate(names)]
        return {
            f"{quantity}/{name}": float(value)
            for quantity, values in {"choices": self._choices, **self._diagnose()}.items()
            for name, value in zip(names, values, strict=True)
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the future choices depend on, as JSON-safe values."""
        return {
            "scheduler": type(self).__name__,
            "arms": [label(arm) for arm in self._arms],
            "options": dict(self.options),
            "choices": list(self._choices),
            "pending": self._pending,
            "generator": generator_state(self._rng),
            "rule": self._state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; on one that is not this scheduler's, raise `ValueError` and change nothing."""
        mine = self.state_dict()
        # A copy takes the state, so that nothing is half loaded; the arms stay the user's own objects.
        restored = copy.deepcopy(self, {id(kept): kept for kept in (self._arms, self._index)})
        try:
            if not isinstance(state, Mapping) or state.keys() != mine.keys():
                raise ValueError(f"it must be a mapping with the keys {', '.join(mine)}, got {state!r}")
            for key in ("scheduler", "arms", "options"):
                if state[key] != mine[key]:
                    raise ValueError(f"it is of a scheduler with {key} {state[key]!r}, this one has {mine[key]!r}")
            restored._choices, restored._pending = list(state["choices"]), state["pending"]
            restored._rng = restored_generator(state["generator"])
            restored._restore(state["rule"])
            if restored.state_dict() != state or len(restored._choices) != len(self._arms):
                raise ValueError("it is not whole, or of another version")
            restored.diagnostics()  # numbers of another kind, or for fewer arms, are noticed here
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            raise ValueError(
                f"cannot load this state into {type(self).__name__}: {error}; nothing was changed, load what "
                "`state_dict` of the same scheduler, with the same arms and options, returned"
            ) from error
        self.__dict__.update(restored.__dict__)

    def _select(self) -> int:
        index = self._choose()
        self._choices[index] += 1
        if sum(self._choices) == PATIENCE and 0 in self._choices:  # once, also over several processes of one run
            untried = ", ".join(repr(arm) for arm, times in zip(self._arms, self._choices, strict=True) if not times)
            instead = f"; {self.STANDARDIZED} standardises rewards and tries every arm" if self.STANDARDIZED else ""
            warnings.warn(
                f"{self!r} has not tried {untried} in its first {PATIENCE} choices: its exploration is small for "
                f"rewards of this size{instead}",
                stacklevel=3,
            )
        return index

    @abstractmethod
    def _choose(self) -> int:
        """Return the index of the next arm."""

    @abstractmethod
    def _credit(self, index: int, reward: float) -> None:
        """Take note of a finite reward of one arm."""

    def _state(self) -> dict[str, Any]:
        """Return the rule's own state, JSON-safe, under the same keys at all times."""
        return copy.deepcopy({name: getattr(self, f"_{name}") for name in self.saved})

    def _restore(self, rule: Mapping[str, Any]) -> None:
        """Set the rule's own state from what `_state` returned; what `_state` then returns must be equal to it."""
        for name in self.saved:
            setattr(self, f"_{name}", copy.deepcopy(rule[name]))

    def _diagnose(self) -> dict[str, Sequence[float]]:
        """Return the rule's own numbers, a list over the arms for each name."""
        return {}
