"""The hindsight rule: slopes set how far an update moves the policy, as a KL, and the learning rate follows the KL."""

from __future__ import annotations

import math
from typing import ClassVar

from adept.hindsight.evaluation import Feedback
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
    compute_share: ClassVar[float] = 0.4
    """share of the epochs that `optimize_for="compute"` makes"""
    max_repeats: ClassVar[int] = 3
    """times that the first update is made again"""
    max_first_error: ClassVar[float] = math.log(4)
    """logarithm of the factor between its KL and the distance up to which the first update stands"""
    min_explained_variance: ClassVar[float] = MIN_EXPLAINED_VARIANCE
    saved: ClassVar[tuple[str, ...]] = (
        "t", "x", "z", "limit", "repeats", "slopes", "explained", "y", "critic_slopes", "unexplained",
    )  # fmt: skip

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
        self.optimize_for, self.critic = optimize_for, critic
        self.distance = real_number("distance", distance, above=0, at_most=1, example=0.01)
        self.max_factor = real_number("max_factor", max_factor, at_least=1, at_most=1000, example=3)
        self.follow = real_number("follow", follow, at_least=0, at_most=1, example=0.7)
        self.gain = real_number("gain", gain, at_least=0, at_most=10, example=0.5)
        self.leak = real_number("leak", leak, at_least=0, at_most=1, example=0.01)
        self.deadband = real_number("deadband", deadband, at_least=0, at_most=100, example=1.5)
        self.kl_stop = real_number("kl_stop", kl_stop, above=0, example=0.1)
        self._t = math.log(distance)
        """ln d"""
        self._x = self._z = 0.0
        self._limit: float | None = None
        """largest x, once the learning rate is known"""
        self._repeats: int | None = 0
        """times that the first update was made again; None once it stands"""
        self._retries = 0
        self._slopes, self._critic_slopes = [0.0, 0.0], [0.0, 0.0]
        """S and n"""
        self._explained: float | None = None
        """moving average of the critic's explained variance"""
        self._y: float | None = None
        """None until the critic's slope is known"""
        self._unexplained: float | None = None
        """moving average of u"""

    def begin(self, learning_rate: float) -> None:
        """Bound the learning rate, the first one more than later ones."""
        self._limit = math.log(MAX_RATE / learning_rate)
        self._x = min(0.0, math.log(MAX_FIRST_RATE / learning_rate))

    @property
    def wants_slope(self) -> bool:
        """Whether advantages are more than the critic's errors; while they are not, slopes would not count."""
        return self._explained is None or self._explained >= self.min_explained_variance

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
        if self._repeats is not None and self._repeats < self.max_repeats:
            error = self._t - math.log(max(kl, MIN_KL) if math.isfinite(kl) else math.inf)
            wanted = max(-MAX_FIRST_FACTOR, min(MAX_FIRST_FACTOR, 0.5 * error))
            moved = self._bounded(self._x + wanted) - self._x
            if abs(error) > self.max_first_error and abs(moved) > MIN_FIRST_FACTOR:
                self._x += moved
                self._repeats += 1
                self._retries = 0
                return math.exp(moved)
        self._repeats = None
        return None

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
        if self.optimize_for == "samples":
            return epochs
        return max(MIN_COMPUTE_EPOCHS, round(epochs * self.compute_share))

    def _move_distance(self, feedback: Feedback) -> None:
        """Add the slope, if it counts, and spend it on the distance."""
        if feedback.explained_variance is not None:
            explained = max(-1.0, feedback.explained_variance)  # it has no lower bound: one bad rollout is not many
            self._explained = averaged(self._explained, explained)
        if feedback.slope.known and self.wants_slope:
            add(self._slopes, min(feedback.slope.z, 0.0) if feedback.stopped else feedback.slope.z)
        self._z, spent = spend(self._slopes, self.deadband)
        start, bound = math.log(self.distance), math.log(self.max_factor)
        moved = (1 - self.leak) * (self._t - start) + self.gain * spent
        self._t = start + max(-bound, min(bound, moved))

    def _move_rate(self, feedback: Feedback) -> None:
        """Move the scale towards the distance."""
        if feedback.kl is None:
            return
        target = self._t + math.log(max(feedback.lr_decay, MIN_DECAY))
        error = 0.5 * (target - math.log(min(MAX_KL, max(feedback.kl, MIN_KL))))
        whole = feedback.epochs_done is None or feedback.epochs_done >= self._planned()
        if whole or error < 0:
            self._x += self.follow * max(-MAX_FALL, min(MAX_RISE, error))
        self._x = self._bounded(self._x)

    def _bounded(self, x: float) -> float:
        return x if self._limit is None else min(x, self._limit)

    def _move_critic(self, feedback: Feedback) -> None:
        """Move the critic's own factor, if its slope is known and counts."""
        slope = feedback.critic_slope
        if self.critic == "shared" or not slope.known or not self.wants_slope:
            return
        add(self._critic_slopes, slope.z)
        _, moved = spend(self._critic_slopes, self.deadband)
        wanted = math.log(min(MAX_CRITIC_FACTOR, max(MIN_CRITIC_FACTOR, 1 + slope.value)))
        step = abs(moved) * wanted if moved * wanted > 0 else 0.0
        if feedback.explained_variance is not None:
            unexplained = math.log(min(1.0, max(MIN_UNEXPLAINED, 1 - feedback.explained_variance)))
            rise = 0.0 if self._unexplained is None else unexplained - self._unexplained
            self._unexplained = averaged(self._unexplained, unexplained)
            if rise > MAX_UNEXPLAINED_RISE:
                step = -self.gain
            elif step > 0:
                step *= 1 - max(0.0, rise) / MAX_UNEXPLAINED_RISE
        self._y = max(0.0, min(MAX_LOG_CRITIC, (1 - self.leak) * (self._y or 0.0) + step))


def add(slopes: list[float], z: float) -> None:
    """Add a slope, over its standard error, to the sum S of n slopes."""
    slopes[:] = slopes[0] + z, slopes[1] + 1


def spend(slopes: list[float], deadband: float) -> tuple[float, float]:
    """Return Z = S/√n and t in -1…1, how significant Z is beyond the deadband; remove that share of S and n."""
    total, count = slopes
    z = total / math.sqrt(count) if count > 0 else 0.0
    moved = math.tanh(math.copysign(max(0.0, abs(z) - deadband), z) / 2)
    slopes[:] = (1 - abs(moved)) * total, (1 - abs(moved)) * count
    return z, moved


def averaged(average: float | None, value: float) -> float:
    """Return a moving average with a newer value in it."""
    return value if average is None else average + CRITIC_SMOOTHING * (value - average)
