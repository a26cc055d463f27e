"""The hindsight controller: longer steps while the last one stopped short, shorter ones once it overshot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from adept.controllers.base import Choice, Controller, Evidence
from adept.names import unknown_name
from adept.schedulers.validation import real_number

FURTHEST = math.log(32)
"""The stride stays within 1/32 and 32 times where it started."""
OVERSHOT = -3.0
"""The z that a KL above the limit counts as."""
DEAR = ("samples", "compute")
ANCHORS = ("always", "silence")


class Hindsight(Controller):
    """Move the logarithm of the stride by the slope of the last update, in standard errors.

    With z the slope over its standard error and t = tanh(z/2), which is between -1 and 1, after every update
    x ← (1 - leak)·x + gain·t, clipped to ±ln 32, and stride = start·exp(x). The leak draws the stride back to where it
    started, so that it does not drift on noise: with gain 0.3 and leak 0.1, pure noise keeps it within a factor 3 in
    99 % of runs of 300 updates. With `anchor="silence"` the leak is leak·(1 - t²), weak where the slope is clear.

    Guard: a last update with a KL above `kl_limit` counts as z = -3 whatever its slope, and an epoch with a KL above
    `kl_stop` ends the update it is in. Without a signal (no slope, all advantages equal) only the leak acts.

    Args:
        epochs: the preset's epochs per update, K.
        dear: "samples" keeps the preset's epochs and starts at stride 1. "compute" makes max(1, round(share·K)) epochs
            and starts at stride K/epochs, so that the first updates move about as far as the preset's.
        gain: how far one update's slope moves x.
        leak: how much of x is lost per update.
        share: part of the preset's epochs where compute is dear.
        kl_limit: KL above which an update counts as having overshot.
        kl_stop: KL at which an update ends.
        smoothing: over how many updates z is averaged, ≥ 1; the average is scaled to have variance 1 on pure noise.
        anchor: "always" or "silence", see above.
        seed: not used.
    """

    needs_slope: ClassVar[bool] = True

    def __init__(
        self,
        epochs: int,
        *,
        dear: str = "samples",
        gain: float = 0.3,
        leak: float = 0.1,
        share: float = 0.3,
        kl_limit: float = 0.05,
        kl_stop: float = 0.1,
        smoothing: float = 1.0,
        anchor: str = "always",
        seed: int = 0,
    ) -> None:
        super().__init__(epochs, seed=seed)
        for name, value, allowed in (("dear", dear, DEAR), ("anchor", anchor, ANCHORS)):
            if value not in allowed:
                raise unknown_name(name, str(value), allowed)
        self._dear, self._anchor = dear, anchor
        self._gain = real_number("gain", gain, at_least=0, at_most=10, example=0.3)
        self._leak = real_number("leak", leak, at_least=0, at_most=1, example=0.1)
        self._share = real_number("share", share, above=0, at_most=1, example=0.3)
        self._kl_limit = real_number("kl_limit", kl_limit, above=0, example=0.05)
        self._kl_stop = real_number("kl_stop", kl_stop, above=0, example=0.1)
        self._smoothing = real_number("smoothing", smoothing, at_least=1, at_most=1000, example=1)
        few = max(1, round(self._share * self.epochs))
        self._made = few if dear == "compute" else self.epochs
        self._start = self.epochs / self._made
        self._x = self._z = self._average = 0.0

    @property
    def options(self) -> dict[str, float | str]:
        """The knobs, by the names of the constructor."""
        return {
            "dear": self._dear,
            "gain": self._gain,
            "leak": self._leak,
            "share": self._share,
            "kl_limit": self._kl_limit,
            "kl_stop": self._kl_stop,
            "smoothing": self._smoothing,
            "anchor": self._anchor,
        }

    @property
    def stride(self) -> float:
        """The present factor of the scheduled learning rate."""
        return self._start * math.exp(self._x)

    def stops(self, kl: float) -> bool:
        """Say whether an update must end after an epoch with this approximate KL."""
        return not kl <= self._kl_stop

    def diagnostics(self) -> dict[str, float]:
        """Return the z that moved the stride last."""
        return {"z": self._z}

    def _choose(self, evidence: Evidence | None) -> Choice:
        if evidence is not None:
            self._z = self._signal(evidence)
            pushed = math.tanh(self._z / 2)
            leak = self._leak * (1 - pushed**2) if self._anchor == "silence" else self._leak
            self._x = min(FURTHEST, max(-FURTHEST, (1 - leak) * self._x + self._gain * pushed))
        return Choice(self._made, self.stride)

    def _signal(self, evidence: Evidence) -> float:
        """Return the z that counts: averaged, and overruled by the guard."""
        weight = 1 / self._smoothing
        self._average += weight * ((evidence.slope_z or 0.0) - self._average)
        if evidence.kl is not None and evidence.kl > self._kl_limit:
            self._average = min(self._average, 0.0)
            return OVERSHOT
        # A moving average with this weight of independent numbers of variance 1 has variance weight/(2 - weight).
        return self._average / math.sqrt(weight / (2 - weight))

    def _state(self) -> dict[str, Any]:
        return {"x": self._x, "z": self._z, "average": self._average}

    def _restore(self, rule: Mapping[str, Any]) -> None:
        self._x = real_number("x", rule["x"], at_least=-FURTHEST, at_most=FURTHEST, example=0)
        self._z = real_number("z", rule["z"], example=0)
        self._average = real_number("average", rule["average"], example=0)
