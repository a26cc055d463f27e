"""Intervals for few runs, held to printed tables and to cases worked out by hand."""

from __future__ import annotations

import math

import pytest

from paper.intervals import at_least, share, student, student_quantile, welch


@pytest.mark.parametrize(
    ("freedom", "printed"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (15, 2.131), (30, 2.042), (120, 1.980)]
)
def test_quantiles_are_those_of_the_printed_table(freedom: int, printed: float) -> None:
    assert student_quantile(freedom) == pytest.approx(printed, abs=5e-4)


def test_quantiles_in_closed_form() -> None:
    assert student_quantile(1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-6)  # Cauchy's
    assert student_quantile(2) == pytest.approx(0.95 * math.sqrt(2 / (1 - 0.95**2)), rel=1e-6)
    assert student_quantile(1000) == pytest.approx(1.96234, abs=5e-6)  # printed tables


def test_chances_of_so_many_successes() -> None:
    assert at_least(0, 5, 0.3) == pytest.approx(1)
    assert at_least(1, 5, 0.3) == pytest.approx(1 - 0.7**5)
    assert at_least(2, 3, 0.5) == pytest.approx(0.5)


def test_a_mean_over_games_by_hand() -> None:
    found = student([1.0, 2.0, 3.0])  # deviation 1, error 1/√3, quantile 4.3027 with 2 degrees of freedom
    reach = 4.3027 / 3**0.5
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2 - reach, 2 + reach), abs=1e-4)
    assert not student([1.0]).has_interval


def test_welch_by_hand() -> None:
    # Variances of the means: 1/3 and 4/3, in all 5/3. Freedom (5/3)² / ((1/3)²/2 + (4/3)²/2) = (25/9)/(17/18) = 50/17.
    found = welch([[1.0, 2.0, 3.0]], [[2.0, 4.0, 6.0]])
    reach = student_quantile(50 / 17) * math.sqrt(5 / 3)
    assert (found.value, found.high - found.value, found.value - found.low) == pytest.approx((-2.0, reach, reach))
    # Two tasks alike: the sum of variances doubles, so the error of the mean is 1/√2 as large, with twice the freedom.
    twice = welch([[1.0, 2.0, 3.0]] * 2, [[2.0, 4.0, 6.0]] * 2)
    assert twice.high - twice.value == pytest.approx(student_quantile(100 / 17) * math.sqrt(5 / 6))


def test_three_runs_need_a_wide_interval() -> None:
    """What a bootstrap of three calls shown is not: its interval here is [1, 3], Welch's includes 0."""
    found = welch([[2.0, 2.0, 5.0]], [[1.0, 1.0, 1.0]])
    assert found.value == pytest.approx(2.0)
    assert found.low < 0 < found.high


def test_welch_without_spread_or_with_one_run() -> None:
    assert welch([[1.0, 1.0]], [[0.0, 0.0]]) == welch([[2.0, 2.0]], [[1.0, 1.0]])
    assert not welch([[1.0, 2.0], [1.0]], [[0.0, 1.0], [1.0, 2.0]]).has_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 1 - 0.025**0.1), (10, 10, 0.025**0.1, 1.0), (5, 10, 0.1871, 0.8129), (1, 2, 0.0126, 0.9874)],
)
def test_exact_intervals_of_a_share(successes: int, trials: int, low: float, high: float) -> None:
    found = share(successes, trials)
    assert (found.value, found.low, found.high) == pytest.approx((successes / trials, low, high), abs=1e-4)
