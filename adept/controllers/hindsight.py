"""The hindsight controller: longer steps while the last one stopped short, shorter ones once it overshot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from adept.controllers.base import Choice, Controller, Evidence
from adept.names import unknown_name
from adept.schedulers.validation import real_number

FURTHEST = math.log(32)
"""The stride stays between 1/32 and 32."""
OVERSHOT = -3.0
"""The Z that a KL above the limit counts as."""
CRITIC_SMOOTHING = 0.2
"""Weight of the newest rollout in the moving average of the explained variance."""
BLIND = -0.25
"""Explained variance below which advantages are the critic's own errors; one that only says nothing yet is near 0."""
DEAR = ("samples", "compute")


class Hindsight(Controller):
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

    "samples": every update makes the preset's K epochs and the stride, the factor of the learning rate, is exp(x).
    "compute": each update with Z ≤ deadband, that is, not known to stop short, lowers ln K' by `pace`, from K to
    share·K, at least 2. The stride exp(x)·K/K', at most 32, makes up for the epochs saved. Nothing is saved while there
    is no signal.

    Guard: an update with a KL above `kl_limit` counts as Z = -3 whatever its slope, and an epoch with a KL above
    `kl_stop` ends the update it is in; where the loop can, that epoch is undone.

    Args:
        epochs: the preset's epochs per update, K.
        dear: what is expensive, "samples" or "compute".
        gain: how far one update moves x, at most.
        leak: share of x lost per update.
        deadband: standard errors of the slope that count as noise.
        share: with `dear="compute"`, the share of the preset's epochs that updates come down to.
        pace: with `dear="compute"`, how much ln K falls with an update that did not stop short.
        kl_limit: KL above which an update counts as having overshot.
        kl_stop: KL at which an update ends.
        seed: not used.
    """

    needs_slope: ClassVar[bool] = True
    guards: ClassVar[bool] = True

    def __init__(
        self,
        epochs: int,
        *,
        dear: str = "samples",
        gain: float = 0.5,
        leak: float = 0.01,
        deadband: float = 1.5,
        share: float = 0.3,
        pace: float = 0.1,
        kl_limit: float = 0.05,
        kl_stop: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(epochs, seed=seed)
        if dear not in DEAR:
            raise unknown_name("dear", str(dear), DEAR)
        self._dear = dear
        self._gain = real_number("gain", gain, at_least=0, at_most=10, example=0.5)
        self._leak = real_number("leak", leak, at_least=0, at_most=1, example=0.01)
        self._deadband = real_number("deadband", deadband, at_least=0, at_most=100, example=1.5)
        self._share = real_number("share", share, above=0, at_most=1, example=0.3)
        self._pace = real_number("pace", pace, at_least=0, at_most=10, example=0.1)
        self._kl_limit = real_number("kl_limit", kl_limit, above=0, example=0.05)
        self._kl_stop = real_number("kl_stop", kl_stop, above=0, example=0.1)
        self._x = self._z = self._sum = self._count = self._saved = 0.0
        self._critic: float | None = None

    @property
    def options(self) -> dict[str, float | str]:
        """The knobs, by the names of the constructor."""
        return {
            "dear": self._dear,
            "gain": self._gain,
            "leak": self._leak,
            "deadband": self._deadband,
            "share": self._share,
            "pace": self._pace,
            "kl_limit": self._kl_limit,
            "kl_stop": self._kl_stop,
        }

    @property
    def wants_slope(self) -> bool:
        """Whether advantages are more than the critic's errors; while they are not, slopes would not count."""
        return self._critic is None or self._critic >= BLIND

    def stops(self, kl: float) -> bool:
        """Say whether an epoch with this approximate KL went too far, so that the update must end."""
        return not kl <= self._kl_stop

    def diagnostics(self) -> dict[str, float]:
        """Return how far updates move, relative to the preset's, and the Z that moved it last."""
        return {"distance": math.exp(self._x), "z": self._z}

    def _choose(self, evidence: Evidence | None) -> Choice:
        if evidence is not None:
            seen = self._add(evidence)
            self._z = self._sum / math.sqrt(self._count) if self._count > 0 else 0.0
            moved = math.tanh(math.copysign(max(0.0, abs(self._z) - self._deadband), self._z) / 2)
            room = 1.0 if evidence.kl is None or moved <= 0 else max(0.0, 1 - evidence.kl / self._kl_limit)
            self._x = _within((1 - self._leak) * self._x + self._gain * moved * room)
            self._sum, self._count = (1 - abs(moved)) * self._sum, (1 - abs(moved)) * self._count
            if seen and moved <= 0:
                self._saved = _within(self._saved + self._pace)
        made = self._made()
        return Choice(made, math.exp(_within(self._x + math.log(self.epochs / made))))

    def _made(self) -> int:
        """Return the epochs of the next update."""
        if self._dear == "samples":
            return self.epochs
        fewest = max(min(2, self.epochs), round(self.epochs * self._share))
        return max(fewest, round(self.epochs * math.exp(-self._saved)))

    def _add(self, evidence: Evidence) -> bool:
        """Add a slope to the evidence, if it counts; the guard puts its own word in the place of all of it."""
        if evidence.explained_variance is not None:
            explained = max(-1.0, evidence.explained_variance)  # it has no lower bound: one bad rollout is not many
            old = explained if self._critic is None else self._critic
            self._critic = old + CRITIC_SMOOTHING * (explained - old)
        slope = evidence.slope_z if self.wants_slope else None
        if slope is not None and evidence.stopped:
            slope = min(slope, 0.0)
        if evidence.kl is not None and evidence.kl > self._kl_limit:
            self._sum, self._count = OVERSHOT, 1.0
        elif slope is not None:
            self._sum, self._count = self._sum + slope, self._count + 1
        return slope is not None

    def _state(self) -> dict[str, Any]:
        return {
            "x": self._x,
            "saved": self._saved,
            "z": self._z,
            "sum": self._sum,
            "count": self._count,
            "critic": self._critic,
        }

    def _restore(self, rule: Mapping[str, Any]) -> None:
        self._x = real_number("x", rule["x"], at_least=-FURTHEST, at_most=FURTHEST, example=0)
        self._saved = real_number("saved", rule["saved"], at_least=0, at_most=FURTHEST, example=0)
        self._z = real_number("z", rule["z"], example=0)
        self._sum = real_number("sum", rule["sum"], example=0)
        self._count = real_number("count", rule["count"], at_least=0, example=0)
        critic = rule["critic"]
        self._critic = None if critic is None else real_number("critic", critic, at_least=-1, at_most=1, example=0)


def _within(logarithm: float) -> float:
    """Return the logarithm of a stride, held between 1/32 and 32."""
    return min(FURTHEST, max(-FURTHEST, logarithm))
