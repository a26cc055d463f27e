"""The hindsight rule of before: slopes move the learning rate itself. It is here as a rival of its successor."""

from __future__ import annotations

import math
from typing import ClassVar

from adept.hindsight.evaluation import Feedback
from adept.rules.base import Settings
from adept.rules.hindsight import HindsightRule, add, averaged, spend
from adept.schedulers.validation import real_number

MAX_LOG_SCALE = math.log(32)
"""The scale stays between 1/32 and 32."""
OVERSHOOT_Z = -3.0
"""The Z that a KL above the limit counts as."""


class FormerHindsight(HindsightRule):
    """Let the slopes of the last updates, in standard errors, set how far the next one moves.

    x is the logarithm of that distance over the preset's, 0 at the start. Slopes add up and are spent: with S the sum
    of the last n slopes, each over its standard error, and Z = S/√n, after every update

        t = tanh(sign(Z)·max(0, |Z| - deadband)/2),   x ← (1 - leak)·x + gain·t   within ±ln 32,
        S ← (1 - |t|)·S,   n ← (1 - |t|)·n.

    So one clear slope moves x at once, and many faint ones that agree move it in the end. The deadband keeps noise from
    moving x, the leak draws x back to the preset where slopes say nothing more. The nearer the update's KL to
    `kl_limit`, the less x rises: t > 0 counts (1 - KL/kl_limit) times. While the critic is worse than none (moving
    average of its explained variance below -¼), advantages are its errors, and slopes do not count. Where a KL
    target of the loop's own ended the update, a positive slope counts as 0: larger steps would only end updates sooner.

    The critic moves further still while it lags, where its slope is known (`Feedback.critic_slope`) and `critic` is
    "own". A slope of s says that the critic's part of the update should have been 1 + s times as long. The critic's
    scale is e^y times the actor's, y between 0 and ln 32. With t from the sum of the critic's slopes as above,
    y ← (1 - leak)·y + |t|·ln(1 + s), the factor 1 + s within ½ and 4, if t and s have one sign. Guard: u is the
    logarithm of the share of the returns' variance that the critic leaves unexplained. Where u rises above its moving
    average, y rises 1 - rise/ln 2 times as much, and above ln 2 it falls by `gain`.

    "samples": every update makes the preset's K epochs and the scale, the factor of the learning rate, is exp(x).
    "compute": each update with Z ≤ deadband, that is, not known to stop short, lowers ln K' by `pace`, from K to
    share·K, at least 2. The scale exp(x)·K/K', at most 32, makes up for the epochs saved, and the critic's likewise.
    Nothing more is saved while there is no signal. Where the loop tells its learning rate (`begin`), the first update
    already trades epochs for scale, at the same distance, as far as the learning rate stays within `trade_rate`.

    Guard: an update with a KL above `kl_limit` counts as Z = -3 whatever its slope, and an epoch with a KL above
    `kl_stop` ends the update it is in; where the loop can, that epoch is undone.

    Args:
        epochs: the preset's epochs per update, K.
        optimize_for: what is expensive, "samples" or "compute".
        gain: how far one update moves x, at most.
        leak: share of x lost per update.
        deadband: standard errors of the slope that count as noise.
        share: with `optimize_for="compute"`, the share of the preset's epochs that updates come down to.
        pace: with `optimize_for="compute"`, how much ln K falls with an update that did not stop short.
        kl_limit: KL above which an update counts as having overshot.
        kl_stop: KL at which an update ends.
        trade_rate: with `optimize_for="compute"`, the learning rate up to which epochs are traded for scale at once;
            0: never.
        critic: "own" lets a critic that lags have a longer scale, "shared" never.
        seed: not used.
    """

    max_repeats: ClassVar[int] = 0
    saved: ClassVar[tuple[str, ...]] = (
        "x", "saved", "z", "slopes", "explained", "y", "critic_slopes", "unexplained",
    )  # fmt: skip

    def __init__(
        self,
        epochs: int,
        *,
        optimize_for: str = "samples",
        gain: float = 0.5,
        leak: float = 0.01,
        deadband: float = 1.5,
        share: float = 0.3,
        pace: float = 0.1,
        kl_limit: float = 0.05,
        kl_stop: float = 0.1,
        trade_rate: float = 1e-3,
        critic: str = "own",
        seed: int = 0,
    ) -> None:
        super().__init__(
            epochs, optimize_for=optimize_for, gain=gain, leak=leak, deadband=deadband, kl_stop=kl_stop, critic=critic,
            seed=seed,
        )  # fmt: skip
        self.share = real_number("share", share, above=0, at_most=1, example=0.3)
        self.pace = real_number("pace", pace, at_least=0, at_most=10, example=0.1)
        self.kl_limit = real_number("kl_limit", kl_limit, above=0, example=0.05)
        self.trade_rate = real_number("trade_rate", trade_rate, at_least=0, example=1e-3)
        self._saved = 0.0

    def begin(self, learning_rate: float) -> None:
        """Trade epochs for scale at once, when optimizing for compute and the learning rate leaves room for it."""
        if self.optimize_for == "compute" and self.trade_rate > learning_rate > 0:
            self._saved = min(math.log(self.trade_rate / learning_rate), -math.log(self.share))

    def retry(self, kl: float) -> float | None:
        """End the update with the undone epoch."""
        return None

    def diagnostics(self) -> dict[str, float]:
        """Return how far updates move, relative to the preset's, the Z that moved it last, and the critic's factor."""
        return {"distance": math.exp(self._x), "z": self._z, "critic": math.exp(self._y or 0.0)}

    def step(self, feedback: Feedback | None) -> Settings:
        """Move the distance, the critic's factor and the epochs by the slopes of the last update."""
        if feedback is not None:
            seen = self._add(feedback)
            self._move_critic(feedback)
            self._z, moved = spend(self._slopes, self.deadband)
            room = 1.0 if feedback.kl is None or moved <= 0 else max(0.0, 1 - feedback.kl / self.kl_limit)
            self._x = _within((1 - self.leak) * self._x + self.gain * moved * room)
            if seen and moved <= 0:
                self._saved = _within(self._saved + self.pace)
        made = self._made()
        longer = math.log(self.epochs / made)
        lr_scale = _within(self._x + longer)
        return Settings(made, math.exp(lr_scale), None if self._y is None else math.exp(_within(lr_scale + self._y)))

    def _made(self) -> int:
        """Return the epochs of the next update."""
        if self.optimize_for == "samples":
            return self.epochs
        fewest = max(min(2, self.epochs), round(self.epochs * self.share))
        return max(fewest, round(self.epochs * math.exp(-self._saved)))

    def _add(self, feedback: Feedback) -> bool:
        """Add a slope to the sum, if it counts; the guard puts its own word in the place of all of it."""
        if feedback.explained_variance is not None:
            explained = max(-1.0, feedback.explained_variance)  # it has no lower bound: one bad rollout is not many
            self._explained = averaged(self._explained, explained)
        slope = feedback.slope.z if feedback.slope.known and self.wants_slope else None
        if slope is not None and feedback.stopped:
            slope = min(slope, 0.0)
        if feedback.kl is not None and feedback.kl > self.kl_limit:
            self._slopes = [OVERSHOOT_Z, 1.0]
        elif slope is not None:
            add(self._slopes, slope)
        return slope is not None


def _within(logarithm: float) -> float:
    """Return the logarithm of a scale, held between 1/32 and 32."""
    return min(MAX_LOG_SCALE, max(-MAX_LOG_SCALE, logarithm))
