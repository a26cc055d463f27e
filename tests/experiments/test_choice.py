"""What stored decisions say, on decisions whose answers are known."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from adept.probe.records import shares
from experiments.choice import choices


def test_detrending_takes_a_straight_line_away_and_keeps_what_is_fast() -> None:
    ramp = np.arange(60.0)
    inside = slice(choices.WINDOW, -choices.WINDOW)
    np.testing.assert_allclose(choices.detrended(ramp)[inside], 0, atol=1e-9)
    fast = np.where(np.arange(60) % 2, 1.0, -1.0)
    left = choices.detrended(ramp + fast)[inside]
    assert np.abs(left - fast[inside]).max() <= 1 / choices.WINDOW + 1e-9
    assert math.isnan(choices.correlation(np.ones(5), np.arange(5.0)))
    assert choices.correlation(np.arange(5.0), -np.arange(5.0)) == pytest.approx(-1)


def test_an_arm_is_held_with_nine_tenths_of_the_last_fifty_updates() -> None:
    early, late = np.full(100, 1), np.full(45, 4)
    holds = np.concatenate([early, np.full(5, 2), late])
    wavers = np.concatenate([early, np.full(6, 2), late[1:]])
    runs = [holds, wavers, early]
    evidence = SimpleNamespace(
        config=lambda name: SimpleNamespace(arms=(4, 2, 1)),
        shares=lambda name, task, last: shares([run[-last:] for run in runs], (4, 2, 1)),
        tasks=("t",),
    )
    assert choices.held(evidence, "ucb") == {4: 1, 2: 0, 1: 1}  # type: ignore[arg-type]
