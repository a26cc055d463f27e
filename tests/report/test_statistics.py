"""Aggregates by hand and against figures that rliable computed."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from adept.report.statistics import (
    Estimate,
    aggregate,
    area_under_curve,
    curve_interval,
    difference,
    holm,
    performance_profile,
    permutation_p,
    probability_of_improvement,
    steps_to_threshold,
)

RLIABLE = json.loads((Path(__file__).parent / "data" / "rliable.json").read_text(encoding="utf-8"))
CASES = RLIABLE["cases"]


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    return request.param


def monte_carlo_error(case) -> float:
    """Four standard errors of a 2.5 % quantile of 2,000 draws: about 4·sd·sqrt(p(1-p)/n)/density, here on the width."""
    widths = [high - low for low, high in case["intervals"]]
    return 0.12 * max(widths)


def test_aggregates_agree_with_rliables(case):
    ours = aggregate(case["scores"], resamples=20_000)
    assert {name: ours[name].value for name in case["aggregates"]} == pytest.approx(case["aggregates"], abs=1e-12)
    for (name, estimate), bounds in zip(ours.items(), case["intervals"], strict=True):
        assert (estimate.low, estimate.high) == pytest.approx(bounds, abs=monte_carlo_error(case)), name


def test_probability_of_improvement_agrees_with_rliable(case):
    ours = probability_of_improvement(case["scores"], case["others"], resamples=20_000)
    assert ours.value == pytest.approx(case["probability_of_improvement"], abs=1e-12)
    low, high = case["probability_interval"]
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.12 * (high - low))


def test_profile_agrees_with_rliables(case):
    value, low, high = performance_profile(case["scores"], np.array(case["thresholds"]), resamples=20_000)
    assert value == pytest.approx(case["profile"], abs=1e-12)
    band = np.array(case["profile_band"])
    step = 1 / sum(len(task) for task in case["scores"])  # the band moves in steps of one run
    assert np.abs(np.stack([low, high], axis=1) - band).max() <= step + 1e-9


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # Task means 2 and 5, of all runs 1 2 3 4 5 6 the middle four (a quarter of 6 is 1 run) average 3.5.
        ([[1, 2, 3], [4, 5, 6]], {"mean": 3.5, "median": 3.5, "iqm": 3.5, "optimality_gap": 0.0}),
        ([[0.5, 2], [0, 1]], {"optimality_gap": 1 - (0.75 + 0.5) / 2}),
        ([[1, 1, 1, 1, 1, 1, 1, 1001]], {"iqm": 1.0, "mean": 126.0}),
    ],
)
def test_aggregates_by_hand(scores, expected):
    found = aggregate(scores)
    assert {name: found[name].value for name in expected} == expected


def test_resamples_stay_within_their_task_and_tasks_count_equally():
    # Within each task all runs are equal, so a stratified bootstrap has no spread; an unstratified one would.
    assert aggregate([[1.0, 1.0, 1.0, 1.0], [3.0, 3.0]])["mean"] == Estimate(2.0, 2.0, 2.0)
    assert aggregate([[1.0, 1.0, 1.0], [5.0, 5.0, 5.0]])["mean"] == Estimate(3.0, 3.0, 3.0)


def test_a_single_run_has_no_interval():
    found = aggregate([[1.0, 2.0], [3.0]])["mean"]
    assert found.value == 2.25
    assert not found.has_interval
    assert not probability_of_improvement([[1.0]], [[0.0, 0.5]]).has_interval


def test_the_same_scores_give_the_same_interval_and_global_random_state_is_left_alone():
    scores = np.random.default_rng(0).random((4, 5))
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert aggregate(scores) == aggregate(scores)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_probability_of_improvement_by_hand():
    # Task 1: pairs (1,2) (1,1) (3,2) (3,1) = 0 + ½ + 1 + 1 of 4; task 2: all ties.
    found = probability_of_improvement([[1.0, 3.0], [5.0, 5.0]], [[2.0, 1.0], [5.0, 5.0]])
    assert found.value == (2.5 / 4 + 0.5) / 2
    sure = probability_of_improvement([[2.0, 3.0]], [[0.0, 1.0]])
    assert sure == Estimate(1.0, 1.0, 1.0)


def test_probability_of_improvement_needs_the_same_tasks():
    with pytest.raises(ValueError, match="same tasks"):
        probability_of_improvement([[1.0]], [[1.0], [2.0]])


def test_profile_counts_tasks_equally():
    value, _, _ = performance_profile([[1.0, 1.0, 1.0, 1.0], [0.0, 2.0]], np.array([0.5, 1.5]))
    assert value.tolist() == [(1 + 0.5) / 2, (0 + 0.5) / 2]


def test_curve_interval_of_constant_curves():
    mean, low, high = curve_interval([np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[3.0, 4.0], [3.0, 4.0]])])
    assert mean.tolist() == low.tolist() == high.tolist() == [2.0, 3.0]


def test_a_point_that_one_run_lacks_is_no_average_of_fewer():
    mean, low, _ = curve_interval([np.array([[math.nan, 2.0], [1.0, 4.0]])])
    assert math.isnan(mean[0])
    assert math.isnan(low[0])
    assert mean[1] == 3.0
    assert low[1] == 2.0


def test_differences_by_hand():
    # Task means 2 and 5 against 1 and 4; the IQMs of 1 2 3 4 5 6 and of 0 1 2 3 4 5 are 3.5 and 2.5.
    mine, theirs = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    for metric in ("iqm", "mean"):
        found = difference(mine, theirs, metric=metric)
        assert found.value == 1.0
        assert found.low < 1.0 < found.high
    assert not difference([[1.0]], [[0.0, 2.0]]).has_interval
    assert difference([[2.0, 2.0]], [[1.0, 1.0]]) == Estimate(1.0, 1.0, 1.0)


def test_what_pairs_have_in_common_cancels():
    theirs = [[0.0, 10.0, 50.0, 90.0], [5.0, 6.0, 7.0, 8.0]]
    mine = [[value + 2.0 for value in task] for task in theirs]
    assert difference(mine, theirs, metric="mean", paired=True) == Estimate(2.0, 2.0, 2.0)
    assert difference(mine, theirs, metric="mean").low < 0
    with pytest.raises(ValueError, match="as many runs of both"):
        difference([[1.0, 2.0]], [[1.0, 2.0, 3.0]], paired=True)


def every_arrangement(scores, others, margin=0.0, two_sided=False):
    """The exact p-value of the difference of means, by going through all ways of exchanging runs within tasks."""
    tasks = []
    for mine, theirs in zip(scores, others, strict=True):
        pool = [value + margin for value in mine] + list(theirs)
        chosen = [set(places) for places in itertools.combinations(range(len(pool)), len(mine))]
        tasks.append([
            np.mean([pool[i] for i in places]) - np.mean([pool[i] for i in range(len(pool)) if i not in places])
            for places in chosen
        ])  # fmt: skip
    totals = np.array([np.mean(parts) for parts in itertools.product(*tasks)])  # the first one is what was observed
    totals = np.abs(totals) if two_sided else totals
    return float((totals >= totals[0] - 1e-12).mean())


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("margin", [0.0, 0.4])
def test_permutation_p_is_the_share_of_arrangements(two_sided, margin):
    mine, theirs = [[1.0, 2.0, 4.0], [0.5, 3.0]], [[0.0, 1.5, 2.5], [1.0, 0.1]]
    exact = every_arrangement(mine, theirs, margin, two_sided)
    found = permutation_p(mine, theirs, metric="mean", margin=margin, two_sided=two_sided, draws=40_000)
    assert found == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 40_000))


def test_permutation_p_of_equal_methods_is_uniform():
    random = np.random.default_rng(5)
    p_values = [permutation_p(random.normal(size=(3, 5)), random.normal(size=(3, 5)), draws=199) for _ in range(400)]
    below = np.mean(np.array(p_values) <= 0.1)
    assert below == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 400))


def test_a_margin_decides_between_worse_and_not_worse():
    mine, theirs = [np.linspace(0.97, 1.03, 8)], [np.linspace(0.99, 1.05, 8)]
    assert permutation_p(mine, theirs) > 0.5
    assert permutation_p(mine, theirs, margin=0.05) < 0.05


def test_holm_by_hand():
    # Sorted 0.01 0.03 0.04: times 3, 2 and 1, never falling, at most 1.
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.6, 0.5]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


@pytest.mark.parametrize("scores", [[], [[]], [[1.0], []], [[math.nan, 1.0]], [[math.inf]]])
def test_scores_must_be_there_and_finite(scores):
    with pytest.raises(ValueError, match="leave"):
        aggregate(scores)


def test_area_under_curve_by_hand():
    x, y = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 2.0])
    assert area_under_curve(x, y, 3.0) == pytest.approx((1 + 4) / 3)
    assert area_under_curve(x, y, 2.0) == pytest.approx((1 + 2) / 2)  # cut between two points
    assert area_under_curve(x, y, 4.0) == pytest.approx((1 + 4 + 2) / 4)  # the last value is kept
    assert area_under_curve(x, np.array([math.nan, 1.0, 1.0]), 3.0) == 1.0
    assert math.isnan(area_under_curve(x, np.full(3, math.nan), 3.0))


def test_steps_to_threshold():
    steps, score = np.array([10.0, 20.0, 30.0]), np.array([math.nan, 0.5, 0.9])
    assert steps_to_threshold(steps, score, 0.5) == 20.0
    assert steps_to_threshold(steps, score, 0.95) == math.inf
