"""Distance: slopes set how far an update moves the policy, as a KL, and the learning rate follows the KL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from adept.hindsight.feedback import Feedback
from adept.names import unknown_name
from adept.rules.base import Rule, Settings
from adept.rules.hindsight import (
    CRITIC,
    MAX_CRITIC_FACTOR,
    MAX_UNEXPLAINED_RISE,
    MIN_CRITIC_FACTOR,
    MIN_EXPLAINED_VARIANCE,
    MIN_UNEXPLAINED,
    OPTIMIZE_FOR,
    _averaged,
    _Slopes,
    _within,
)
from adept.schedulers.validation import real_number, whole_number

MAX_RATE = 0.01
"""Learning rate that the rule does not exceed, unless the user's own is above it: layers of tanh units saturate."""
MAX_FALL, MAX_RISE = math.log(10), math.log(4)
"""Bounds on the logarithm of one update's change of the learning rate."""
MIN_KL = 1e-9
"""KL below which an update counts as this long."""
MAX_FIRST_ERROR = math.log(4)
"""Logarithm of KL/target within which the first update is taken as it is."""
MAX_RETRIES = 5
"""Times that an epoch that went too far is tried again."""
MIN_EPOCHS = 3
"""Epochs that `optimize_for="compute"` does not go below, unless the preset has fewer."""


class Distance(Rule):
    """Set the KL of every update by slopes, and the learning rate by the KL.

    d is the KL that updates aim at. Slopes add up and are spent: with S the sum of the last n slopes, each over its
    standard error, and Z = S/√n, after every update

        t = tanh(sign(Z)·max(0, |Z| - deadband)/2),   S ← (1 - |t|)·S,   n ← (1 - |t|)·n,
        ln d ← ln d₀ + (1 - leak)·(ln d - ln d₀) + gain·t   within ln lowest … ln highest.

    The learning rate follows. With the KL of the last update and the factor f of a schedule of the learning rate, a KL
    grows as the square of the rate, so that the scale e^x of the learning rate moves by

        x ← x + follow·½·ln(d·f/KL),   one move within ÷ 10 and × 4, the rate at most 0.01.

    First update: while its KL is more than a factor 4 from d, it is undone and made again with the rate × √(d/KL), at
    most `repeats` times. Guard: an epoch with a KL above `kl_stop` is undone and made again with a smaller rate.
    """

    needs_slope: ClassVar[bool] = True
    guards: ClassVar[bool] = True

    def __init__(
        self,
        epochs: int,
        *,
        optimize_for: str = "samples",
        distance: float = 0.01,
        lowest: float = 0.003,
        highest: float = 0.03,
        follow: float = 0.7,
        gain: float = 0.5,
        leak: float = 0.01,
        deadband: float = 1.5,
        share: float = 0.4,
        kl_stop: float = 0.1,
        repeats: float = 3,
        critic: str = "own",
        trial: str = "",
        seed: int = 0,
    ) -> None:
        super().__init__(epochs, seed=seed)
        if optimize_for not in OPTIMIZE_FOR:
            raise unknown_name("optimize_for", str(optimize_for), OPTIMIZE_FOR)
        if critic not in CRITIC:
            raise unknown_name("critic", str(critic), CRITIC)
        self._optimize_for, self._critic_has = optimize_for, critic
        self._lowest = real_number("lowest", lowest, above=0, example=0.003)
        self._highest = real_number("highest", highest, at_least=self._lowest, example=0.03)
        self._start = real_number("distance", distance, at_least=self._lowest, at_most=self._highest, example=0.01)
        self._follow = real_number("follow", follow, at_least=0, at_most=1, example=0.7)
        self._gain = real_number("gain", gain, at_least=0, at_most=10, example=0.5)
        self._leak = real_number("leak", leak, at_least=0, at_most=1, example=0.01)
        self._deadband = real_number("deadband", deadband, at_least=0, at_most=100, example=1.5)
        self._share = real_number("share", share, above=0, at_most=1, example=0.4)
        self._kl_stop = real_number("kl_stop", kl_stop, above=0, example=0.1)
        self._repeats = whole_number("repeats", int(repeats), at_least=0, example=3)
        self._trial = trial.split("+") if trial else []
        self._t = math.log(self._start)
        self._x = self._z = 0.0
        self._limit = 32.0
        self._slopes, self._critic_slopes = _Slopes(), _Slopes()
        self._explained: float | None = None
        self._y: float | None = None
        self._unexplained: float | None = None
        self._repeated: int | None = 0
        self._retries = 0

    @property
    def options(self) -> dict[str, float | str]:
        """The knobs, by the names of the constructor."""
        return {
            "optimize_for": self._optimize_for,
            "distance": self._start,
            "lowest": self._lowest,
            "highest": self._highest,
            "follow": self._follow,
            "gain": self._gain,
            "leak": self._leak,
            "deadband": self._deadband,
            "share": self._share,
            "kl_stop": self._kl_stop,
            "repeats": self._repeats,
            "critic": self._critic_has,
            "trial": "+".join(self._trial),
        }

    def begin(self, learning_rate: float) -> None:
        """Bound the scale, so that the learning rate stays within 0.01 or the user's own."""
        self._limit = max(0.0, math.log(MAX_RATE / learning_rate))

    @property
    def wants_slope(self) -> bool:
        """Whether advantages are more than the critic's errors; while they are not, slopes would not count."""
        return self._explained is None or self._explained >= (
            0.1 if "seeing" in self._trial else MIN_EXPLAINED_VARIANCE
        )

    def stops(self, kl: float) -> bool:
        """Say whether an epoch with this approximate KL went too far, so that it must be undone."""
        return not kl <= self._kl_stop

    def retry(self, kl: float) -> float | None:
        """Return the factor of the rate with which an undone epoch is tried again; None: the update ends."""
        if self._retries >= MAX_RETRIES:
            return None
        self._retries += 1
        size = math.sqrt(kl / 0.025) if math.isfinite(kl) else math.inf
        factor = 1 / max(2.0, min(10.0, size))
        self._x += math.log(factor)
        return factor

    def repeat(self, kl: float) -> float | None:
        """Return the factor of the rate with which the whole update is made again; None: it is taken as it is."""
        if self._repeated is None or self._repeated >= self._repeats:
            self._repeated = None
            return None
        off = self._t - math.log(max(kl, MIN_KL) if math.isfinite(kl) else math.inf)
        if abs(off) <= MAX_FIRST_ERROR:
            self._repeated = None
            return None
        wanted = max(-math.log(30), min(math.log(30), 0.5 * off))
        moved = min(self._limit, self._x + wanted) - self._x
        if abs(moved) < math.log(1.5):
            self._repeated = None
            return None
        self._x += moved
        self._repeated += 1
        self._retries = 0
        return math.exp(moved)

    def passes(self, kl: float) -> bool:
        """Say whether an update has come far enough after an epoch with this KL (a trial)."""
        return "early" in self._trial and kl >= math.exp(self._t)

    def diagnostics(self) -> dict[str, float]:
        """Return the KL that updates aim at, the Z that moved it last, and the critic's factor."""
        return {"distance": math.exp(self._t), "z": self._z, "critic": math.exp(self._y or 0.0)}

    def step(self, feedback: Feedback | None) -> Settings:
        """Move the distance by the slope of the last update, and the scale by its KL."""
        self._retries = 0
        if feedback is not None:
            self._repeated = None
            seeing = self._learn(feedback)
            self._learn_critic(feedback)
            if seeing or "hold" not in self._trial:
                self._follow_kl(feedback)
        made = self._made()
        scale = self._x
        if "actor-1" in self._trial:
            scale = 0.0
        return Settings(made, math.exp(scale), None if self._y is None else math.exp(scale + self._y))

    def _made(self) -> int:
        """Return the epochs of an update."""
        if self._optimize_for == "samples":
            return self.epochs
        return max(min(MIN_EPOCHS, self.epochs), round(self.epochs * self._share))

    def _learn(self, feedback: Feedback) -> bool:
        """Move the distance by the slope, if it counts; return whether slopes count at all now."""
        if feedback.explained_variance is not None:
            self._explained = _averaged(self._explained, max(-1.0, feedback.explained_variance))
        slope = feedback.slope.z if feedback.slope.known and self.wants_slope else None
        if slope is not None and feedback.stopped:
            slope = min(slope, 0.0)
        if slope is not None and "no-slopes" not in self._trial:
            self._slopes.add(slope)
        self._z = self._slopes.z
        moved = self._slopes.spend(self._deadband)
        start = math.log(self._start)
        self._t = start + (1 - self._leak) * (self._t - start) + self._gain * moved
        self._t = min(math.log(self._highest), max(math.log(self._lowest), self._t))
        return self.wants_slope

    def _follow_kl(self, feedback: Feedback) -> None:
        """Move the scale towards the distance."""
        kl = feedback.kl
        if kl is None:
            return
        target = self._t + math.log(max(feedback.lr_decay, 1e-3))
        off = 0.5 * (target - math.log(min(1.0, max(kl, MIN_KL))))
        whole = feedback.epochs_done is None or feedback.epochs_done >= self._made() or "early" in self._trial
        if whole or off < 0:
            self._x += self._follow * max(-MAX_FALL, min(MAX_RISE, off))
        self._x = min(self._x, self._limit)

    def _learn_critic(self, feedback: Feedback) -> None:
        """Move the critic's own factor, if its slope is known and counts."""
        slope = feedback.critic_slope
        if self._critic_has == "shared" or not slope.known or not self.wants_slope:
            return
        self._critic_slopes.add(slope.z)
        sure = self._critic_slopes.spend(self._deadband)
        wanted = math.log(min(MAX_CRITIC_FACTOR, max(MIN_CRITIC_FACTOR, 1 + slope.value)))
        step = abs(sure) * wanted if sure * wanted > 0 else 0.0
        if feedback.explained_variance is not None:
            unexplained = math.log(min(1.0, max(MIN_UNEXPLAINED, 1 - feedback.explained_variance)))
            rise = 0.0 if self._unexplained is None else unexplained - self._unexplained
            self._unexplained = _averaged(self._unexplained, unexplained)
            if rise > MAX_UNEXPLAINED_RISE:
                step = -self._gain
            elif step > 0:
                step *= 1 - max(0.0, rise) / MAX_UNEXPLAINED_RISE
        self._y = max(0.0, _within((1 - self._leak) * (self._y or 0.0) + step))

    def _state(self) -> dict[str, Any]:
        return {
            "t": self._t,
            "x": self._x,
            "z": self._z,
            "limit": self._limit,
            "repeated": self._repeated,
            "slopes": [self._slopes.sum, self._slopes.count],
            "explained": self._explained,
            "y": self._y,
            "critic_slopes": [self._critic_slopes.sum, self._critic_slopes.count],
            "unexplained": self._unexplained,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._t, self._x, self._z = state["t"], state["x"], state["z"]
        self._limit, self._repeated = state["limit"], state["repeated"]
        self._slopes, self._critic_slopes = _Slopes(*state["slopes"]), _Slopes(*state["critic_slopes"])
        self._explained, self._y, self._unexplained = state["explained"], state["y"], state["unexplained"]
