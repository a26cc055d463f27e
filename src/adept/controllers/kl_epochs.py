"""Epochs by KL and clip fraction: the folk rule that a practitioner follows by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adept.controllers.base import Choice, Controller, Evidence
from adept.schedulers.validation import real_number, whole_number


class KLEpochs(Controller):
    """Make one epoch less where the last update went far, one more where it went nowhere.

    After each update with KL d of its last epoch and clip fraction c: K ← max(K - 1, 1) if d > band·target or
    c > clipped; else K ← min(K + 1, most) if d < target/band. An unknown clip fraction counts as 0.

    Source: none was found in print or in the code of a library; it is what guides on reading PPO's metrics advise by
    hand. It is here as a rival.

    Args:
        epochs: epochs of the first update.
        target: the KL aimed at.
        clipped: clip fraction above which an update went too far.
        band: how far from the target, as a factor, nothing is done.
        most: largest number of epochs; 0 means twice the first.
        seed: not used.
    """

    def __init__(
        self,
        epochs: int,
        *,
        target: float = 0.01,
        clipped: float = 0.2,
        band: float = 2.0,
        most: float = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(epochs, seed=seed)
        self._target = real_number("target", target, above=0, example=0.01)
        self._clipped = real_number("clipped", clipped, at_least=0, at_most=1, example=0.2)
        self._band = real_number("band", band, at_least=1, example=2)
        whole = int(most) if most == round(most) else most  # configurations hold numbers as floats
        self._most = whole_number("most", whole, at_least=0, example=20)
        if 0 < self._most < self.epochs:
            raise ValueError(f"most must be 0 or at least the {self.epochs} epochs of the start, got {most!r}")
        self._now = self.epochs

    @property
    def options(self) -> dict[str, float | str]:
        """The knobs, by the names of the constructor."""
        return {"target": self._target, "clipped": self._clipped, "band": self._band, "most": self._most}

    @property
    def _limit(self) -> int:
        return self._most or 2 * self.epochs

    def _choose(self, evidence: Evidence | None) -> Choice:
        if evidence is not None and evidence.kl is not None:
            clipped = evidence.clip_fraction is not None and evidence.clip_fraction > self._clipped
            if evidence.kl > self._band * self._target or clipped:
                self._now = max(self._now - 1, 1)
            elif evidence.kl < self._target / self._band:
                self._now = min(self._now + 1, self._limit)
        return Choice(self._now)

    def _state(self) -> dict[str, Any]:
        return {"epochs": self._now}

    def _restore(self, rule: Mapping[str, Any]) -> None:
        self._now = whole_number("epochs", rule["epochs"], at_least=1, at_most=self._limit, example=self.epochs)
