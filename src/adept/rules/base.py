"""The contract of rules: from feedback on the last update to the settings of the next one."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, SupportsFloat

from adept.hindsight.evaluation import Feedback
from adept.schedulers.validation import whole_number

MAX_CRITIC_RATE = 0.01
"""Learning rate that a scale of the critic's own does not exceed.

Adam moves a weight by up to its rate per step. At 0.01 that is a twelfth of a typical weight of 64 units (1/√64).
At 0.03 layers of tanh units saturated on CartPole, and the critic did not recover.
"""


@dataclass(frozen=True)
class Settings:
    """Settings of one update. A rule sets the first three; a trainer fills in the others for its loss."""

    epochs: int
    lr_scale: float = 1.0
    """factor of the scheduled learning rate"""
    critic_lr_scale: float | None = None
    """another factor for the parameters that only the critic has; None: the same"""
    _: KW_ONLY
    learning_rate: float = 0.0
    """scheduled rate × `lr_scale`; 0 where the host fills in its own, as in the next two"""
    clip_range: float = 0.0
    entropy_coefficient: float = 0.0
    augmentation: str | None = None
    """image augmentation; None where the algorithm augments nothing"""
    critic_learning_rate: float | None = None
    """learning rate of the parameters that only the critic has; None: the same"""

    def critic_rate(self, scheduled: float) -> float:
        """Return the critic's learning rate, given the scheduled one; see `MAX_CRITIC_RATE`."""
        rate = scheduled * self.lr_scale
        if self.critic_lr_scale is None:
            return rate
        return min(scheduled * self.critic_lr_scale, max(rate, MAX_CRITIC_RATE))


class Rule:
    """Set every update from feedback on the last one; this class itself makes every update alike.

    A new rule implements `step`. What the constructor takes by keyword, the seed aside, is an attribute of the same
    name. Set `saved` if the rule keeps state, and override `diagnostics` if it has numbers to plot, `stops` if it
    guards an update by more than `kl_stop`, and `adapt` if it sets the learning rate of every gradient step.

    Args:
        epochs: epochs per update that the rule starts from, K ≥ 1.
        seed: for rules that draw random numbers.
    """

    needs_slope: ClassVar[bool] = False
    """whether the rule needs `Feedback.slope` after every update: two forward passes of the policy"""
    needs_reward: ClassVar[bool] = False
    """whether the rule needs `Feedback.reward`; one that does needs nothing else"""
    adapts_minibatches: ClassVar[bool] = False
    """whether `adapt` sets the learning rate of every gradient step; the trainer alone asks it"""
    resets_steps: ClassVar[bool] = False
    """whether Adam's step count starts at 0 with every update, its moments kept; the trainer alone does it"""
    saved: ClassVar[tuple[str, ...]] = ()
    """names of the rule's state: JSON-safe values in attributes that begin with an underscore"""
    kl_stop: float | None = None
    """KL of an epoch above which the update ends; where the loop can, it then undoes the epoch"""

    def __init__(self, epochs: int, *, seed: int = 0) -> None:
        self.epochs = whole_number("epochs", epochs, at_least=1, example=10)
        self.seed = whole_number("seed", seed, at_least=0, example=0)

    @property
    def options(self) -> Mapping[str, float | str]:
        """The options of this rule; a saved state can be loaded only with the same ones."""
        return {name: getattr(self, name) for name in rule_options(type(self))}

    def begin(self, learning_rate: float) -> None:
        """Take note of the scheduled learning rate of the first update, where the loop knows it; before any step."""

    def step(self, feedback: Feedback | None) -> Settings:
        """Return the settings of the next update, given feedback on the last one (None: there is none)."""
        return Settings(self.epochs)

    @property
    def wants_slope(self) -> bool:
        """Whether the slope of the last update would count now; if not, it need not be measured."""
        return self.needs_slope

    def stops(self, kl: float) -> bool:
        """Return whether the update must end after an epoch with this approximate KL."""
        return self.kl_stop is not None and not kl <= self.kl_stop

    def retry(self, kl: float) -> float | None:
        """Return the factor of the learning rate with which an undone epoch is tried again; None: the update ends."""
        return None

    def repeat(self, kl: float) -> float | None:
        """Return the factor of the learning rate with which the whole update is made again; None: it stays."""
        return None

    def adapt(self, rate: float, *, kl: SupportsFloat, gradient: Any, direction: Any) -> float:
        """Return the learning rate of the next gradient step, given that of the one before.

        At the first step of an update `rate` is the scheduled learning rate times `Settings.lr_scale`.

        Args:
            rate: learning rate of the step before.
            kl: the minibatch's approximate KL before the step, mean (ρ - 1) - ln ρ.
            gradient: the gradient of all parameters, clipped, as a flat array or tensor.
            direction: Adam's last step over its learning rate, -m̂/(√v̂ + ε), likewise; None before the first.
        """
        return rate

    def require_updates(self) -> None:
        """Raise `ValueError` if this rule acts within updates, which only the trainer lets it do."""
        if self.adapts_minibatches or self.resets_steps:
            raise ValueError(
                f"{self!r} acts on every gradient step, which only `adept train` and studies let it do; "
                "use a rule that acts once per update, such as 'kl-rate' or 'hindsight'"
            )

    def diagnostics(self) -> dict[str, float]:
        """Return numbers to plot, by name."""
        return {}

    def columns(self, settings: Settings) -> dict[str, float]:
        """Return the rule's numbers and its last settings as columns of a record."""
        own = settings.critic_lr_scale
        scales = {"lr_scale": settings.lr_scale, "critic_lr_scale": settings.lr_scale if own is None else own}
        return {f"rule_{name}": value for name, value in self.diagnostics().items()} | scales

    def metrics(self, settings: Settings) -> dict[str, float]:
        """Return the columns that have a value yet, for a log whose columns may change."""
        return self.columns(settings)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the future settings depend on, as JSON-safe values."""
        state = {name: copy.deepcopy(getattr(self, f"_{name}")) for name in self.saved}
        return {"rule": type(self).__name__, "epochs": self.epochs, "options": dict(self.options), "state": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; on one of another rule or version, raise `ValueError` and change nothing."""
        mine = self.state_dict()
        try:
            for key in ("rule", "epochs", "options"):
                if state[key] != mine[key]:
                    raise ValueError(f"it has {key} {state[key]!r}, this one {mine[key]!r}")
            if state["state"].keys() != mine["state"].keys():
                raise ValueError(f"it is {state['state']!r}, a state of today looks like {mine['state']!r}")
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ValueError(
                f"cannot load this state into {self!r}: {error}; nothing was changed, load what `state_dict` of the "
                "same rule, with the same epochs and options, returned"
            ) from error
        for name in self.saved:
            setattr(self, f"_{name}", copy.deepcopy(state["state"][name]))

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{type(self).__name__}({self.epochs}{options})"


def rule_options(cls: type[Rule]) -> list[str]:
    """Return the names of a rule's own options: its constructor's named parameters but the seed."""
    named = inspect.signature(cls).parameters.values()
    return [each.name for each in named if each.kind is inspect.Parameter.KEYWORD_ONLY and each.name != "seed"]
