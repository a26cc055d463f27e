"""The contract of controllers: from what the last update left behind to the epochs and scale of the next one."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, SupportsFloat

from adept.schedulers.saved import mapping
from adept.schedulers.validation import whole_number

FASTEST_CRITIC = 0.01
"""Learning rate that a scale of the critic's own does not exceed.

Adam moves a weight by up to its rate per step. At 0.01 that is a twelfth of a typical weight of 64 units (1/√64).
At 0.03 layers of tanh units saturated on CartPole, and the critic did not recover.
"""


@dataclass(frozen=True)
class Evidence:
    """What the last update left behind, judged by the next rollout; None where it is not known."""

    slope_z: float | None = None
    """slope along the update at its end, in standard errors"""
    critic_slope: float | None = None
    """how much further the critic's part of the update should have gone, as a share of it; positive: it lags"""
    critic_slope_z: float | None = None
    """the same in standard errors"""
    gain: float | None = None
    """gain of the whole update, in standard deviations of the advantage"""
    gain_error: float | None = None
    kl: float | None = None
    """approximate KL of the last epoch of the update"""
    clip_fraction: float | None = None
    epochs_done: int | None = None
    stopped: bool = False
    """whether a rule of the loop's own, such as a KL target, ended the update early: a longer step would end sooner"""
    explained_variance: float | None = None
    """of the next rollout's returns by the critic; well below 0 where advantages are the critic's own errors"""
    gains: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """by epoch: gain over the parameters before the update, and its standard error"""
    decayed: float = 1.0
    """factor of the learning rate's schedule for the next update"""


@dataclass(frozen=True)
class Choice:
    """What the next update is made with."""

    epochs: int
    lr_scale: float = 1.0
    """factor of the scheduled learning rate"""
    critic_lr_scale: float | None = None
    """another factor for the parameters that only the critic has; None: the same"""

    def critic_rate(self, scheduled: float) -> float:
        """Return the learning rate of what only the critic has, given the scheduled one; see `FASTEST_CRITIC`."""
        rate = scheduled * self.lr_scale
        if self.critic_lr_scale is None:
            return rate
        return min(scheduled * self.critic_lr_scale, max(rate, FASTEST_CRITIC))


class Vector(Protocol):
    """A flat array or tensor, on any device."""

    def __matmul__(self, other: Any, /) -> Any:
        """Return the scalar product."""


class Controller(ABC):
    """Set epochs and learning-rate factor (scale) of every update from measurements of the last one.

    A new rule implements `_choose`, `_state` and `_restore`. Override `options` if it has options, `diagnostics` if it
    has numbers to plot, `stops` if it guards an update, and `adapt` if it sets the learning rate of gradient steps.
    Numbers that are not finite reach `_choose` as None, except for an infinite KL, which a guard must see.

    Args:
        epochs: epochs per update that the rule starts from, K ≥ 1.
        seed: for rules that draw random numbers.
    """

    needs_slope: ClassVar[bool] = False
    """whether the rule wants `Evidence.slope_z` after every update: two forward passes of the policy"""
    guards: ClassVar[bool] = False
    """whether `stops` may end an update; where the loop can, it then undoes the epoch that went too far"""
    adapts_minibatches: ClassVar[bool] = False
    """whether `adapt` sets the learning rate of every gradient step; the trainer alone asks it"""
    resets_steps: ClassVar[bool] = False
    """whether Adam's step count starts at 0 with every update, its moments kept; the trainer alone does it"""

    def __init__(self, epochs: int, *, seed: int = 0) -> None:
        self._epochs = whole_number("epochs", epochs, at_least=1, example=10)
        self._seed = whole_number("seed", seed, at_least=0, example=0)

    @property
    def epochs(self) -> int:
        """The preset's epochs."""
        return self._epochs

    @property
    def options(self) -> dict[str, float | str]:
        """The options of this rule; a saved state can be loaded only with the same ones."""
        return {}

    def begin(self, learning_rate: float) -> None:  # noqa: B027
        """Take note of the scheduled learning rate of the first update, where the loop knows it; before any step."""

    def step(self, evidence: Evidence | None) -> Choice:
        """Return epochs and scale of the next update, given measurements of the last one (None: there are none)."""
        return self._choose(None if evidence is None else _finite(evidence))

    @property
    def wants_slope(self) -> bool:
        """Whether the slope of the last update would count now; where it would not, nobody needs to measure it."""
        return self.needs_slope

    def stops(self, kl: float) -> bool:
        """Return whether the update must end after an epoch with this approximate KL."""
        return False

    def retry(self, kl: float) -> float | None:
        """Return the factor of the learning rate with which an undone epoch is tried again; None: the update ends."""
        return None

    def repeat(self, kl: float) -> float | None:
        """Return the factor of the learning rate with which the whole update is made again; None: it stays."""
        return None

    def passes(self, kl: float) -> bool:
        """Return whether the update is long enough after an epoch with this approximate KL."""
        return False

    def adapt(self, rate: float, *, kl: SupportsFloat, gradient: Vector, direction: Vector | None) -> float:
        """Return the learning rate of the next gradient step, given that of the one before.

        At the first step of an update `rate` is the scheduled learning rate times `Choice.lr_scale`.

        Args:
            rate: learning rate of the step before.
            kl: the minibatch's approximate KL before the step, mean (ρ - 1) - ln ρ.
            gradient: the gradient of all parameters, clipped.
            direction: Adam's last step over its learning rate, -m̂/(√v̂ + ε); None before the first.
        """
        return rate

    @classmethod
    def require_updates(cls, name: str) -> None:
        """Raise `ValueError` where a rule acts within updates, which only the trainer lets it do."""
        if cls.adapts_minibatches or cls.resets_steps:
            raise ValueError(
                f"{name!r} acts on every gradient step, which only `adept train` and studies let it do; "
                "use a rule that acts once per update, such as 'kl-rate' or 'hindsight'"
            )

    def diagnostics(self) -> dict[str, float]:
        """Return numbers to plot, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the future choices depend on, as JSON-safe values."""
        return {
            "controller": type(self).__name__,
            "epochs": self._epochs,
            "options": self.options,
            "rule": self._state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; on a state that does not fit, raise `ValueError` and change nothing."""
        restored = copy.deepcopy(self)
        try:
            restored._load(state)
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            raise ValueError(
                f"cannot load this state into {type(self).__name__}: {error}; nothing was changed, load what "
                "`state_dict` of the same controller, with the same epochs and options, returned"
            ) from error
        self.__dict__.update(restored.__dict__)

    def _load(self, state: Mapping[str, Any]) -> None:
        mine = self.state_dict()
        mapping("the state", state, mine)
        for key in ("controller", "epochs", "options"):
            if state[key] != mine[key]:
                raise ValueError(f"it is of a controller with {key} {state[key]!r}, this one has {mine[key]!r}")
        self._restore(mapping("the rule's state", state["rule"], mine["rule"]))

    @abstractmethod
    def _choose(self, evidence: Evidence | None) -> Choice:
        """Return epochs and scale of the next update."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Return the rule's own state, JSON-safe, under the same keys at all times."""

    @abstractmethod
    def _restore(self, rule: Mapping[str, Any]) -> None:
        """Set the rule's own state from what `_state` returned; raise `ValueError` where it cannot have."""

    def __repr__(self) -> str:
        knobs = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({self._epochs}{knobs})"


def _finite(evidence: Evidence) -> Evidence:
    """Return the evidence with numbers that are not finite as None, or left out."""

    def known(value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None

    kl = evidence.kl
    return replace(
        evidence,
        slope_z=known(evidence.slope_z),
        critic_slope=known(evidence.critic_slope),
        critic_slope_z=known(evidence.critic_slope_z),
        gain=known(evidence.gain),
        gain_error=known(evidence.gain_error),
        kl=kl if kl is None or kl == math.inf else known(kl),
        clip_fraction=known(evidence.clip_fraction),
        explained_variance=known(evidence.explained_variance),
        gains={epoch: pair for epoch, pair in evidence.gains.items() if all(map(math.isfinite, pair))},
    )
