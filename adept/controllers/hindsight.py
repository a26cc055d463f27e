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
"""The z that a KL above the limit counts as."""
CRITIC_SMOOTHING = 0.2
"""Weight of the newest rollout in the moving average of the explained variance."""
DEAR = ("samples", "compute")


class Hindsight(Controller):
    """Let the slope of the last update, in standard errors, set how far the next one moves.

    x is the logarithm of that distance over the preset's, 0 at the start. With z the slope over its standard error,
    d the deadband and t = tanh(sign(z)·max(0, |z| - d)/2), after every update

        x ← (1 - leak)·x + gain·t,   with gain·descent instead of gain where t < 0 < x,   within ±ln 32.

    The deadband keeps noise from moving x, the leak draws x back to the preset where the slope says nothing more, and
    beyond the preset x falls faster than it rises. While the critic explains none of the variance of the returns
    (moving average ≤ 0), advantages are its errors: z counts as 0.

    "samples": every update makes the preset's K epochs and the stride, the factor of the learning rate, is exp(x).
    "compute": each update that did not stop short (z ≤ d) lowers ln K' by `pace`, from K to share·K, at least 2. The
    stride exp(x)·K/K', at most 32, makes up for the epochs saved. Nothing is saved while there is no signal.

    Guard: an update with a KL above `kl_limit` counts as z = -3 whatever its slope, and an epoch with a KL above
    `kl_stop` ends the update it is in; where the loop can, that epoch is undone.

    Args:
        epochs: the preset's epochs per update, K.
        dear: what is expensive, "samples" or "compute".
        gain: how far one update's slope moves x, at most.
        leak: share of x lost per update.
        deadband: standard errors of the slope that count as noise.
        descent: factor of the gain on the way back to the preset.
        share: where compute is dear, the share of the preset's epochs that updates come down to.
        pace: where compute is dear, how much one update that did not stop short takes from the logarithm of the epochs.
        kl_limit: KL above which an update counts as having overshot.
        kl_stop: KL at which an update ends.
        smoothing: over how many updates z is averaged, ≥ 1; the average is scaled to have variance 1 on pure noise.
        seed: not used.
    """

    needs_slope: ClassVar[bool] = True
    guards: ClassVar[bool] = True

    def __init__(
        self,
        epochs: int,
        *,
        dear: str = "samples",
        gain: float = 0.3,
        leak: float = 0.02,
        deadband: float = 1.0,
        descent: float = 2.0,
        share: float = 0.3,
        pace: float = 0.25,
        kl_limit: float = 0.05,
        kl_stop: float = 0.1,
        smoothing: float = 1.0,
        damp: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(epochs, seed=seed)
        if dear not in DEAR:
            raise unknown_name("dear", str(dear), DEAR)
        self._dear = dear
        self._gain = real_number("gain", gain, at_least=0, at_most=10, example=0.3)
        self._leak = real_number("leak", leak, at_least=0, at_most=1, example=0.02)
        self._deadband = real_number("deadband", deadband, at_least=0, at_most=100, example=1)
        self._descent = real_number("descent", descent, at_least=0, at_most=100, example=2)
        self._share = real_number("share", share, above=0, at_most=1, example=0.3)
        self._pace = real_number("pace", pace, at_least=0, at_most=10, example=0.25)
        self._kl_limit = real_number("kl_limit", kl_limit, above=0, example=0.05)
        self._kl_stop = real_number("kl_stop", kl_stop, above=0, example=0.1)
        self._smoothing = real_number("smoothing", smoothing, at_least=1, at_most=1000, example=1)
        self._x = self._z = self._average = self._saved = 0.0
        self._critic: float | None = None
        self._weight = 0.0
        self._damp = damp

    @property
    def options(self) -> dict[str, float | str]:
        """The knobs, by the names of the constructor."""
        return {
            "dear": self._dear,
            "gain": self._gain,
            "leak": self._leak,
            "deadband": self._deadband,
            "descent": self._descent,
            "share": self._share,
            "pace": self._pace,
            "kl_limit": self._kl_limit,
            "kl_stop": self._kl_stop,
            "smoothing": self._smoothing,
            "damp": self._damp,
        }

    def stops(self, kl: float) -> bool:
        """Say whether an epoch with this approximate KL went too far, so that the update must end."""
        return not kl <= self._kl_stop

    def diagnostics(self) -> dict[str, float]:
        """Return how far updates move, relative to the preset's, and the z that moved it last."""
        return {"distance": math.exp(self._x), "z": self._z}

    def _choose(self, evidence: Evidence | None) -> Choice:
        if evidence is not None:
            self._z = self._signal(evidence)
            beyond = math.copysign(max(0.0, abs(self._z) - self._deadband), self._z)
            share = math.tanh(beyond / 2)
            push = self._gain * share * (self._descent if beyond < 0 < self._x else 1.0)
            if push > 0 and self._damp and evidence.kl is not None:
                push *= max(0.0, 1 - evidence.kl / self._kl_limit)
            self._average *= 1 - abs(share)
            self._weight *= 1 - abs(share)
            self._x = _within((1 - self._leak) * self._x + push)
            if beyond <= 0 and evidence.slope_z is not None and not self._blind:
                self._saved = _within(self._saved + self._pace)
        made = self._made()
        return Choice(made, math.exp(_within(self._x + math.log(self.epochs / made))))

    def _made(self) -> int:
        """Return the epochs of the next update."""
        if self._dear == "samples":
            return self.epochs
        fewest = max(min(2, self.epochs), round(self.epochs * self._share))
        return max(fewest, round(self.epochs * math.exp(-self._saved)))

    @property
    def _blind(self) -> bool:
        """Whether the critic explains nothing, so that advantages are its errors."""
        return self._critic is not None and self._critic <= 0

    def _signal(self, evidence: Evidence) -> float:
        """Return the z that counts: averaged, silenced by a blind critic, overruled by the guard."""
        seen = evidence.explained_variance
        if seen is not None:
            seen = max(-1.0, seen)  # it has no lower bound, and one bad rollout must not count for many
            old = seen if self._critic is None else self._critic
            self._critic = old + CRITIC_SMOOTHING * (seen - old)
        z = 0.0 if self._blind else evidence.slope_z or 0.0
        if evidence.kl is not None and evidence.kl > self._kl_limit:
            self._average, self._weight = OVERSHOT, 1.0
            return OVERSHOT
        if z:
            self._average += z
            self._weight += 1
        return self._average / math.sqrt(self._weight) if self._weight > 0 else 0.0

    def _state(self) -> dict[str, Any]:
        return {"x": self._x, "saved": self._saved, "z": self._z, "average": self._average, "critic": self._critic, "weight": self._weight}

    def _restore(self, rule: Mapping[str, Any]) -> None:
        self._x = real_number("x", rule["x"], at_least=-FURTHEST, at_most=FURTHEST, example=0)
        self._saved = real_number("saved", rule["saved"], at_least=0, at_most=FURTHEST, example=0)
        self._z = real_number("z", rule["z"], example=0)
        self._average = real_number("average", rule["average"], example=0)
        self._weight = real_number("weight", rule["weight"], example=0)
        critic = rule["critic"]
        self._critic = None if critic is None else real_number("critic", critic, at_least=-1, at_most=1, example=0)


def _within(logarithm: float) -> float:
    """Return the logarithm of a stride, held between 1/32 and 32."""
    return min(FURTHEST, max(-FURTHEST, logarithm))
