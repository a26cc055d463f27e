"""The hindsight rule: slopes set how far an update moves the policy, as a KL, and the learning rate follows the KL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from adept.hindsight.feedback import Feedback
from adept.names import unknown_name
from adept.rules.base import Rule, Settings
from adept.schedulers.validation import real_number

MAX_RATE = 0.01
"""Learning rate that the rule does not exceed: at more, tanh layers saturate."""
MAX_FIRST_RATE = 1e-3
"""Learning rate of the first update at most.

A rate that is too small shows in the KL. One that is too large need not, because clipping bounds the KL: on DoorKey-6x6
first updates at 0.001 and at 0.0056 both had a KL of 0.02, and after the second the runs did not learn.
"""
MAX_FALL, MAX_RISE = math.log(10), math.log(4)
"""Bounds on the logarithm of the factor by which the learning rate falls or rises between two updates."""
MIN_KL, MAX_KL = 1e-9, 1.0
"""A KL outside of these counts as the nearer one."""
MIN_DECAY = 1e-3
"""Factor of a learning-rate schedule below which the distance falls no further."""
MAX_FIRST_FACTOR = math.log(30)
"""Bound on the logarithm of the factor by which the first update's learning rate changes at once."""
MIN_FIRST_FACTOR = math.log(1.5)
"""A smaller change is not worth making the first update again."""
GUARD_TARGET = 0.025
"""KL that the retry of an undone epoch aims at."""
MAX_RETRIES = 5
"""Times that the epochs of one update are tried again."""
CRITIC_SMOOTHING = 0.2
"""Weight of the newest rollout in moving averages of the explained variance."""
MIN_EXPLAINED_VARIANCE = -0.25
"""Explained variance below which advantages are the critic's own errors; one that only says nothing yet is near 0."""
MIN_CRITIC_FACTOR, MAX_CRITIC_FACTOR = 0.5, 4.0
"""The critic's own factor is multiplied by at least and at most this after one update."""
MAX_LOG_CRITIC = math.log(32)
"""Bound on the logarithm of the critic's own factor."""
MAX_UNEXPLAINED_RISE = math.log(2)
"""Rise of u, the logarithm of the unexplained share, above its moving average that counts as overshooting."""
MIN_UNEXPLAINED = 1e-3
"""The share of the returns' variance below which it makes no difference that a critic leaves some unexplained."""
MIN_EPOCHS, USUAL_EPOCHS = 4, 8
"""A loop with fewer epochs than the first number gets the second."""
MIN_COMPUTE_EPOCHS = 3
"""Epochs that `optimize_for="compute"` does not go below."""
OPTIMIZE_FOR = ("samples", "compute")
CRITIC = ("own", "shared")


@dataclass
class SlopeSum:
    """Slopes in standard errors, which add up until they are spent."""

    sum: float = 0.0
    count: float = 0.0

    def add(self, z: float) -> None:
        """Add a slope."""
        self.sum, self.count = self.sum + z, self.count + 1

    @property
    def z(self) -> float:
        """The sum in its own standard errors."""
        return self.sum / math.sqrt(self.count) if self.count > 0 else 0.0

    def spend(self, deadband: float) -> float:
        """Return t in -1…1, how significant the sum is beyond the deadband, and remove that share of it."""
        moved = math.tanh(math.copysign(max(0.0, abs(self.z) - deadband), self.z) / 2)
        self.sum, self.count = (1 - abs(moved)) * self.sum, (1 - abs(moved)) * self.count
        return moved


class HindsightRule(Rule):
    """Set the KL of every update by slopes, and the learning rate by the KL.

    **Distance.** d is the KL that updates aim at, d₀ = `distance` at the start. Slopes add up and are spent: with S the
    sum of the last n slopes, each over its standard error, and Z = S/√n, after every update

        t = tanh(sign(Z)·max(0, |Z| - deadband)/2),   S ← (1 - |t|)·S,   n ← (1 - |t|)·n,
        ln d ← ln d₀ + (1 - leak)·(ln d - ln d₀) + gain·t,   d within d₀/max_factor … d₀·max_factor.

    Slopes do not count while the critic is worse than none (moving average of its explained variance below -¼): then
    advantages are its errors. Where a KL target of the loop's own ended the update, a positive slope counts as 0.

    **Learning rate.** A KL grows as the square of the learning rate. With the KL of the last update and the factor f of
    the loop's learning-rate schedule, the scale e^x of the learning rate follows the distance:

        x ← x + follow·½·ln(d·f/KL),   within ÷ 10 and × 4 between two updates, the rate at most 0.01.

    An update that was cut short moves x down only.

    **First update.** Its learning rate is at most 0.001. One that is too small is seen at once: if the KL of the first
    update is not within a factor 4 of d₀, the update is undone and made again with the rate × √(d₀/KL), at most three
    times.

    **Guard.** An epoch with a KL above `kl_stop` is undone and made again with a smaller rate, within the same update.
    Loops that cannot undo an epoch end the update.

    **Critic.** A critic that lags moves further than the actor, where its slope is known (`Feedback.critic_slope`) and
    `critic` is "own". A slope of s says that the critic's part of the update should have been 1 + s times as long. The
    critic's scale is e^y times the actor's, y between 0 and ln 32. With t from the sum of the critic's slopes as above,
    y ← (1 - leak)·y + |t|·ln(1 + s), the factor 1 + s within ½ and 4, if t and s have one sign. u is the logarithm of
    the share of the returns' variance that the critic leaves unexplained. Where u rises above its moving average, y
    rises 1 - rise/ln 2 times as much, and above ln 2 it falls by `gain`.

    **Epochs.** "samples" makes the loop's K epochs, or 8 where K is below 4: fewer do not fit the critic. "compute"
    covers the same distance in 0.4 of them, at least 3.

    Args:
        epochs: the loop's epochs per update, K.
        optimize_for: what is expensive, "samples" or "compute".
        distance: KL of an update at the start, d₀.
        max_factor: largest factor between the distance and d₀.
        follow: share of the distance's error that one update of the learning rate makes up for.
        gain: how far one update moves ln d, at most.
        leak: share of ln d - ln d₀ lost per update.
        deadband: standard errors of the slope that count as noise.
        kl_stop: KL at which an epoch is undone.
        critic: "own" lets a critic that lags have a larger learning rate, "shared" never.
        seed: not used.
    """

    needs_slope: ClassVar[bool] = True
    guards: ClassVar[bool] = True
    compute_share: ClassVar[float] = 0.4
    """share of the epochs that `optimize_for="compute"` makes"""
    max_repeats: ClassVar[int] = 3
    """times that the first update is made again"""
    max_first_error: ClassVar[float] = math.log(4)
    """logarithm of the factor between its KL and the distance up to which the first update stands"""
    min_explained_variance: ClassVar[float] = MIN_EXPLAINED_VARIANCE

    def __init__(
        self,
        epochs: int,
        *,
        optimize_for: str = "samples",
        distance: float = 0.01,
        max_factor: float = 3.0,
        follow: float = 0.7,
        gain: float = 0.5,
        leak: float = 0.01,
        deadband: float = 1.5,
        kl_stop: float = 0.1,
        critic: str = "own",
        seed: int = 0,
    ) -> None:
        super().__init__(epochs, seed=seed)
        if optimize_for not in OPTIMIZE_FOR:
            raise unknown_name("optimize_for", str(optimize_for), OPTIMIZE_FOR)
        if critic not in CRITIC:
            raise unknown_name("critic", str(critic), CRITIC)
        self._options: dict[str, float | str] = {
            "optimize_for": optimize_for,
            "distance": real_number("distance", distance, above=0, at_most=1, example=0.01),
            "max_factor": real_number("max_factor", max_factor, at_least=1, at_most=1000, example=3),
            "follow": real_number("follow", follow, at_least=0, at_most=1, example=0.7),
            "gain": real_number("gain", gain, at_least=0, at_most=10, example=0.5),
            "leak": real_number("leak", leak, at_least=0, at_most=1, example=0.01),
            "deadband": real_number("deadband", deadband, at_least=0, at_most=100, example=1.5),
            "kl_stop": real_number("kl_stop", kl_stop, above=0, example=0.1),
            "critic": critic,
        }
        self._follow, self._gain, self._leak = follow, gain, leak
        self._deadband, self._kl_stop = deadband, kl_stop
        self._start, self._bound = math.log(distance), math.log(max_factor)
        self._t = self._start
        """ln d"""
        self._x = self._z = 0.0
        self._limit = math.inf
        """largest x"""
        self._repeats: int | None = 0
        """times that the first update was made again; None once it stands"""
        self._retries = 0
        self._slopes, self._critic_slopes = SlopeSum(), SlopeSum()
        self._explained: float | None = None
        """moving average of the critic's explained variance"""
        self._y: float | None = None
        """None until the critic's slope is known"""
        self._unexplained: float | None = None
        """moving average of u"""

    @property
    def options(self) -> Mapping[str, float | str]:
        """The options, by the names of the constructor."""
        return self._options

    def begin(self, learning_rate: float) -> None:
        """Bound the learning rate, the first one more than later ones."""
        self._limit = math.log(MAX_RATE / learning_rate)
        self._x = min(0.0, math.log(MAX_FIRST_RATE / learning_rate))

    @property
    def wants_slope(self) -> bool:
        """Whether advantages are more than the critic's errors; while they are not, slopes would not count."""
        return self._explained is None or self._explained >= self.min_explained_variance

    def stops(self, kl: float) -> bool:
        """Return whether an epoch with this approximate KL went too far, so that it must be undone."""
        return not kl <= self._kl_stop

    def retry(self, kl: float) -> float | None:
        """Return the factor of the learning rate with which an undone epoch is made again; None: the update ends."""
        if self._retries >= MAX_RETRIES:
            return None
        self._retries += 1
        too_long = math.sqrt(kl / GUARD_TARGET) if math.isfinite(kl) else math.inf
        factor = 1 / max(2.0, min(10.0, too_long))
        self._x += math.log(factor)
        return factor

    def repeat(self, kl: float) -> float | None:
        """Return the factor of the learning rate with which the first update is made again; None: it stands."""
        factor = None
        if self._repeats is not None and self._repeats < self.max_repeats:
            error = self._t - math.log(max(kl, MIN_KL) if math.isfinite(kl) else math.inf)
            wanted = max(-MAX_FIRST_FACTOR, min(MAX_FIRST_FACTOR, 0.5 * error))
            moved = min(self._limit, self._x + wanted) - self._x
            if abs(error) > self.max_first_error and abs(moved) > MIN_FIRST_FACTOR:
                factor = math.exp(moved)
                self._x += moved
                self._repeats += 1
                self._retries = 0
        if factor is None:
            self._repeats = None
        return factor

    def diagnostics(self) -> dict[str, float]:
        """Return the KL that updates aim at, the Z that moved it last, and the critic's factor."""
        return {"distance": math.exp(self._t), "z": self._z, "critic": math.exp(self._y or 0.0)}

    def step(self, feedback: Feedback | None) -> Settings:
        """Move the distance by the slope of the last update, and the learning rate by its KL."""
        self._retries = 0
        if feedback is not None:
            self._repeats = None
            self._move_distance(feedback)
            self._move_critic(feedback)
            self._move_rate(feedback)
        critic = None if self._y is None else math.exp(self._x + self._y)
        return Settings(self._planned(), math.exp(self._x), critic)

    def _planned(self) -> int:
        """Return the epochs of an update."""
        epochs = self.epochs if self.epochs >= MIN_EPOCHS else USUAL_EPOCHS
        if self._options["optimize_for"] == "samples":
            return epochs
        return max(MIN_COMPUTE_EPOCHS, round(epochs * self.compute_share))

    def _move_distance(self, feedback: Feedback) -> None:
        """Add the slope, if it counts, and spend it on the distance."""
        if feedback.explained_variance is not None:
            explained = max(-1.0, feedback.explained_variance)  # it has no lower bound: one bad rollout is not many
            self._explained = averaged(self._explained, explained)
        if feedback.slope.known and self.wants_slope:
            self._slopes.add(min(feedback.slope.z, 0.0) if feedback.stopped else feedback.slope.z)
        self._z = self._slopes.z
        moved = (1 - self._leak) * (self._t - self._start) + self._gain * self._slopes.spend(self._deadband)
        self._t = self._start + max(-self._bound, min(self._bound, moved))

    def _move_rate(self, feedback: Feedback) -> None:
        """Move the scale towards the distance."""
        if feedback.kl is None:
            return
        target = self._t + math.log(max(feedback.lr_decay, MIN_DECAY))
        error = 0.5 * (target - math.log(min(MAX_KL, max(feedback.kl, MIN_KL))))
        whole = feedback.epochs_done is None or feedback.epochs_done >= self._planned()
        if whole or error < 0:
            self._x += self._follow * max(-MAX_FALL, min(MAX_RISE, error))
        self._x = min(self._x, self._limit)

    def _move_critic(self, feedback: Feedback) -> None:
        """Move the critic's own factor, if its slope is known and counts."""
        slope = feedback.critic_slope
        if self._options["critic"] == "shared" or not slope.known or not self.wants_slope:
            return
        self._critic_slopes.add(slope.z)
        moved = self._critic_slopes.spend(self._deadband)
        wanted = math.log(min(MAX_CRITIC_FACTOR, max(MIN_CRITIC_FACTOR, 1 + slope.value)))
        step = abs(moved) * wanted if moved * wanted > 0 else 0.0
        if feedback.explained_variance is not None:
            unexplained = math.log(min(1.0, max(MIN_UNEXPLAINED, 1 - feedback.explained_variance)))
            rise = 0.0 if self._unexplained is None else unexplained - self._unexplained
            self._unexplained = averaged(self._unexplained, unexplained)
            if rise > MAX_UNEXPLAINED_RISE:
                step = -self._gain
            elif step > 0:
                step *= 1 - max(0.0, rise) / MAX_UNEXPLAINED_RISE
        self._y = max(0.0, min(MAX_LOG_CRITIC, (1 - self._leak) * (self._y or 0.0) + step))

    def _state(self) -> dict[str, Any]:
        return {
            "t": self._t,
            "x": self._x,
            "z": self._z,
            "limit": None if math.isinf(self._limit) else self._limit,
            "repeats": self._repeats,
            "slopes": [self._slopes.sum, self._slopes.count],
            "explained": self._explained,
            "y": self._y,
            "critic_slopes": [self._critic_slopes.sum, self._critic_slopes.count],
            "unexplained": self._unexplained,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._t, self._x, self._z = state["t"], state["x"], state["z"]
        self._limit = math.inf if state["limit"] is None else state["limit"]
        self._repeats, self._retries = state["repeats"], 0
        self._slopes, self._critic_slopes = SlopeSum(*state["slopes"]), SlopeSum(*state["critic_slopes"])
        self._explained, self._y, self._unexplained = state["explained"], state["y"], state["unexplained"]


def averaged(average: float | None, value: float) -> float:
    """Return a moving average with a newer value in it."""
    return value if average is None else average + CRITIC_SMOOTHING * (value - average)
