"""The agreement of estimates with true returns, on rows whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from experiments.truth import agreement as truth


def row(stage: float, repeat: float, candidate: float, **values: float) -> dict[str, float]:
    return {"stage": stage, "repeat": repeat, "candidate": candidate, "slope": 0.0, **values}


def run(seed: int = 1, stages: tuple[int, ...] = (10, 20), flip: bool = False) -> truth.Run:
    """Three repeats; the whole update gains 1, 2, 3 in truth and 0.1, 0.2, -0.1 by hindsight."""
    rows = []
    for stage in stages:
        sign = -1.0 if flip and stage == stages[0] else 1.0
        for repeat, (gain, reward, true) in enumerate(((0.1, 5.0, 1.0), (0.2, -6.0, 2.0), (-0.1, -7.0, 3.0))):
            rows.append(row(stage, repeat, 0.0, gain=0.0, reward=1.0, truth=10.0))
            rows.append(row(stage, repeat, 4.0, gain=sign * gain, reward=1.0 + reward, truth=10.0 + sign * true))
    return truth.Run("task", seed, (4,), rows)


def test_points_by_hand() -> None:
    first, second = truth.points(run(), (4.0, 0.0))
    assert (first.state, second.state) == ("task-1-10", "task-1-20")
    assert first.said.tolist() == pytest.approx([0.1, 0.2, -0.1])
    assert first.truth.tolist() == pytest.approx([1.0, 2.0, 3.0])
    t = 2 * math.sqrt(3)  # mean 2, standard deviation 1, three repeats: two degrees of freedom
    assert first.z("truth") == pytest.approx(17 / 19 * math.sqrt(2 * math.log(1 + t**2 / 2)))  # Wallace 1959
    assert first.weight == pytest.approx(math.erf(first.z("truth") / math.sqrt(2)))
    assert first.agrees("said") == pytest.approx(2 / 3)
    assert first.agrees("reward") == pytest.approx(1 / 3)
    assert list(truth.points(run(), (4.0, -1.25))) == []  # no such candidate


def test_rewards_are_of_different_rollouts_as_a_bandit_compares_them() -> None:
    rows = []
    for repeat in range(3):
        rows.append(row(10, repeat, 0.0, gain=0.0, reward=1.0 + repeat, truth=0.0))
        rows.append(row(10, repeat, 4.0, gain=1.0, reward=10.0 + 10 * repeat, truth=1.0))
    (point,) = truth.points(truth.Run("task", 1, (4,), rows), (4.0, 0.0))
    assert point.reward.tolist() == [10 - 3, 20 - 1, 30 - 2]
    assert point.said.tolist() == point.truth.tolist() == [1, 1, 1]


def test_agreement_weighs_a_state_by_how_sure_its_truth_is() -> None:
    sure = truth.Point("a", np.ones(3), np.ones(3), np.array([2.9, 3.0, 3.1]))
    unsure = truth.Point("b", -np.ones(3), -np.ones(3), np.array([-2.0, 0.5, 3.0]))
    weights = [point.weight for point in (sure, unsure)]
    assert weights[0] > 0.99 > 0.3 > weights[1]
    assert truth.agreement([sure, unsure], "said")(np.arange(2)) == pytest.approx(weights[0] / sum(weights))
    assert truth.agreement([sure], "said")(np.arange(1)) == 1.0


def test_ranks_share_ties() -> None:
    assert truth.ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [2.5, 0.0, 2.5, 1.0]


def test_a_table_with_a_perfect_and_a_useless_signal() -> None:
    runs = [run(seed, flip=True) for seed in range(3)]
    (found,) = [points for question, points in truth.questions(runs).items() if question == "whole update or none"]
    assert len(found) == 6
    assert truth.correlation(found, "said")(np.arange(6)) == pytest.approx(1.0)
    assert math.isnan(truth.correlation(found, "reward")(np.arange(6)))  # the same at every state
    line = truth.table(runs).splitlines()[2]
    assert line.startswith("| all | whole update or none | 6 | 0.67 [0.67, 0.67] |")
    assert "| 1.00 [1.00, 1.00] | not known |" in line
