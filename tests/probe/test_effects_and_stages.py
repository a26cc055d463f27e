"""Effects of arms and stages of branches, by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from adept.probe.effects import ArmEffects, arm_effects
from adept.probe.stages import COLUMNS, Stage, branches_path, load_stages, search, write_branches
from adept.report.statistics import Estimate


def stage(truth: list[list[float]], reward: list[list[float]]) -> Stage:
    return Stage("minigrid/X", 1, 10, 0.0, (1, 4), np.array(reward), np.array(reward), np.array(truth))


def test_the_oracle_takes_the_arm_with_the_best_truth_and_the_bandit_that_with_the_best_reward():
    found = stage([[1.0, 3.0], [1.2, 3.2], [0.8, 2.8]], [[0.5, 0.1], [0.7, 0.3], [0.6, 0.2]])
    assert (found.best("truth"), found.best("reward")) == (4, 1)
    assert found.lead("truth").value == pytest.approx(2.0)
    assert found.lead("truth").low > 0
    assert found.lead("reward").value == pytest.approx(0.4)
    assert [each.value for each in found.against_mean("truth")] == pytest.approx([-1.0, 1.0])


def test_a_lead_is_not_that_of_the_luckiest_arm():
    # Without the first row K=1 looks best, which the first row denies; and so on: -2, -2, and 0 where the others tie.
    found = stage([[1.0, 3.0], [3.0, 1.0], [1.0, 1.5]], [[0.5, 0.1]] * 3)
    assert found.lead("truth").value == pytest.approx(-4 / 3)
    rng = np.random.default_rng(1)
    leads = [stage(rng.normal(size=(12, 2)).tolist(), [[0.0, 0.0]]).lead("truth").value for _ in range(400)]
    assert abs(np.mean(leads)) < 0.1


def test_a_search_finds_an_arm_whose_reward_is_clearly_better_and_misses_one_that_misleads():
    truth = [[0.0, 1.0]] * 3
    honest = search(stage(truth, [[0.0, 1.0]] * 3), "ucb", {"exploration": 0.1, "window": 10})
    misled = search(stage(truth, [[1.0, 0.0]] * 3), "ucb", {"exploration": 0.1, "window": 10})
    even = search(stage(truth, [[0.0, 0.0]] * 3), "round-robin", {}, updates=100)
    assert honest.best.value > 0.9
    assert honest.regret.value == pytest.approx(1 - honest.best.value), "each wrong choice loses the whole gap"
    assert misled.best.value < 0.1
    assert even.best.value == 0.5


def test_branches_are_written_and_read_again(tmp_path: Path):
    rows = [
        dict(zip(COLUMNS, (stage, 100 * stage, repeat, arm, 0.5, arm / 10, 0.0, arm + repeat, 7), strict=True))
        for stage in (1, 2) for repeat in (0, 1) for arm in (4, 1)
    ]  # fmt: skip
    write_branches(branches_path(tmp_path / "new", "minigrid/Empty-8x8", 3), rows)
    first, second = load_stages(tmp_path / "new")
    assert (first.task, first.seed, first.step, second.step, first.arms) == ("minigrid/Empty-8x8", 3, 100, 200, (4, 1))
    np.testing.assert_array_equal(second.truth, [[4, 1], [5, 2]])
    with pytest.raises(ValueError, match=r"no tables of branches.*adept probe branches"):
        load_stages(tmp_path)


def test_tries_to_tell_two_arms_apart():
    # The usual sample size for a difference of half a deviation at 5 % and power 0.8: 2·(1.96 + 0.84)²·4 = 63 each.
    found = ArmEffects("t", (2, 1), (Estimate(0.25), Estimate(-0.25)), noise=7.0)
    assert round(found.tries) == 63
    assert ArmEffects("t", (2, 1), (Estimate(0.0), Estimate(0.0)), noise=7.0).tries == math.inf


def test_an_arms_effect_is_the_change_after_it_and_silent_iterations_are_left_out():
    # Changes 3, 1, 3, 1, then two that touch a missing value, 3, 3: after K=2 always 3, after K=1 1, 1 and 3.
    run = {
        "gae_return": np.array([0.0, 3, 4, 7, 8, math.nan, 10, 13, 16]),
        "epochs": np.array([2.0, 1, 2, 1, 2, 1, 2, 1, 2]),
    }
    found = arm_effects("t", (2, 1), [run, run], "gae_return")
    assert found is not None
    mean, noise = 14 / 6, math.sqrt((0 + 4 / 3) / 2)
    assert found.noise == pytest.approx(noise)
    assert [each.value for each in found.changes] == pytest.approx([(3 - mean) / noise, (5 / 3 - mean) / noise])
    assert arm_effects("t", (2, 1), [], "gae_return") is None
    still = {"gae_return": np.zeros(9), "epochs": run["epochs"]}
    assert arm_effects("t", (2, 1), [still], "gae_return") is None, "no noise, no unit to measure in"
