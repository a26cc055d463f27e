"""ADEPT(G) by hand, as in the paper: one draw per arm from N(μ, σ²); μ and σ² by the paper's equation 5."""

from __future__ import annotations

import numpy as np
import pytest

from adept import GaussianThompson

from .conftest import numbers

# η = 0.5, W = 2. Each row: reward, then Q, σ², μ after it; N, μ and σ² start at 0, 0 and 1.
BY_HAND = [
    # Q=4; σ²=(0·1+(4−0)²)/1=16; μ=0+0.5·4/1=2
    (4.0, 4.0, 16.0, 2.0),
    # Q=(4+2)/2=3; σ²=(1·16+(3−2)²)/2=8.5; μ=2+0.5·1/2=2.25
    (2.0, 3.0, 8.5, 2.25),
    # the 4 has left: Q=(2+6)/2=4; σ²=(2·8.5+(4−2.25)²)/3=20.0625/3=6.6875; μ=2.25+0.5·1.75/3=2.541667
    (6.0, 4.0, 6.6875, 2.25 + 0.875 / 3),
    # Q=(6−6)/2=0; σ²=(3·6.6875+2.541667²)/4=(20.0625+6.460069)/4=6.630642; μ=2.541667−0.5·2.541667/4=2.223958
    (-6.0, 0.0, 6.630642, 2.223958),
]


class Scripted:
    """A generator that returns the noise it was given."""

    def __init__(self, *rows: tuple[float, ...]) -> None:
        self._rows = list(rows)

    def standard_normal(self, size: int) -> np.ndarray:
        row = self._rows.pop(0)
        assert len(row) == size, "one draw per arm"
        return np.array(row)


def test_belief_by_hand():
    scheduler = GaussianThompson([3, 2], step_size=0.5, window=2)
    for reward, value, variance, mean in BY_HAND:
        scheduler.observe(3, reward)
        assert numbers(scheduler, "value") == [value, 0.0]
        assert numbers(scheduler, "std") == pytest.approx([variance**0.5, 1.0], abs=1.2e-7)
        assert numbers(scheduler, "mean") == pytest.approx([mean, 0.0], abs=1e-6)


def test_decisions_and_draws_by_hand():
    scheduler = GaussianThompson([3, 2], step_size=0.5, window=2)
    scheduler._rng = Scripted((0.5, -0.5), (-1.0, 1.0), (1.0, 0.0), (0.0, 0.0), (-0.1, 0.3))
    expected = [
        # μ = 0, σ = 1 for both: 0.5 and −0.5
        (None, (0.5, -0.5), 3),
        # 3 gets 4: μ=2, σ=4: 2+4·(−1)=−2; 0+1·1=1
        (4.0, (-2.0, 1.0), 2),
        # 2 gets 2: σ²=4, μ=0.5·2=1: 2+4·1=6; 1+2·0=1
        (2.0, (6.0, 1.0), 3),
        # 3 gets 2: Q=3, σ²=8.5, μ=2.25; no noise: the means themselves
        (2.0, (2.25, 1.0), 3),
        # nothing to credit: 2.25−0.1·√8.5=2.25−0.291548; 1+0.3·2
        (None, (1.958452, 1.6), 3),
    ]
    for reward, draws, choice in expected:
        assert scheduler.step(reward) == choice
        assert numbers(scheduler, "score") == pytest.approx(draws, abs=1e-6)


def test_equal_draws_go_to_the_first():
    scheduler = GaussianThompson([3, 2, 1])
    scheduler._rng = Scripted((1.0, 1.0, 1.0), (0.0, 1.0, 1.0))
    assert [scheduler.select(), scheduler.select()] == [3, 2]


def test_the_draws_are_those_of_its_own_seeded_generator():
    scheduler = GaussianThompson([3, 2, 1], seed=11)
    noise = np.random.default_rng(11).standard_normal((50, 3))
    assert [scheduler.select() for _ in range(50)] == [(3, 2, 1)[row.argmax()] for row in noise]


@pytest.mark.parametrize("step_size", [0, 0.0, -0.5, 1.0001, 2, float("nan"), float("inf"), "1", None, True])
def test_step_size_is_above_zero_and_up_to_one(step_size):
    with pytest.raises(ValueError, match=r"step_size must be a number > 0 and ≤ 1, got .*; for example 1"):
        GaussianThompson([3, 2, 1], step_size=step_size)
