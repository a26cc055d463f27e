"""What docs/results.md says: the measures by hand, and the page held to its records."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from adept.config import Config  # noqa: E402
from adept.report.statistics import Estimate  # noqa: E402
from adept.training import train  # noqa: E402
from benchmarks import branches  # noqa: E402
from benchmarks.evidence import choices, claims, measures  # noqa: E402
from benchmarks.evidence.__main__ import filled  # noqa: E402


def test_difference_averages_over_tasks_and_its_interval_is_that_of_a_shift():
    found = measures.difference([[1.0, 3.0], [10.0]], [[0.0], [4.0, 6.0]])
    assert found.value == (2 + 10) / 2 - (0 + 5) / 2
    assert not found.has_interval, "one run says nothing of spread"
    rng = np.random.default_rng(1)
    mine, theirs = rng.normal(3.0, 1.0, 200), rng.normal(1.0, 1.0, 200)
    found = measures.difference([mine], [theirs])
    half = 1.96 * math.sqrt(mine.var() / 200 + theirs.var() / 200)
    assert found.value == pytest.approx(mine.mean() - theirs.mean())
    assert found.low == pytest.approx(found.value - half, abs=0.02)
    assert found.high == pytest.approx(found.value + half, abs=0.02)


@pytest.mark.parametrize(
    ("estimate", "direction", "expected"),
    [
        (Estimate(2.0, 1.0, 3.0), 1, "holds"),
        (Estimate(2.0, 1.0, 3.0), -1, "does not hold: the opposite does"),
        (Estimate(-2.0, -3.0, -1.0), -1, "holds"),
        (Estimate(2.0, -1.0, 5.0), 1, "does not hold: no difference shown"),
        (Estimate(2.0), 1, "cannot be tested here"),
    ],
)
def test_verdict_follows_from_the_interval(estimate: Estimate, direction: int, expected: str):
    assert claims.verdict(estimate, direction) == expected


def test_evenness_of_shares():
    assert claims.entropy(np.array([1.0, 0.0, 0.0])) == 0
    assert claims.entropy(np.array([0.25] * 4)) == pytest.approx(1.0)
    assert claims.entropy(np.array([0.5, 0.5, 0.0, 0.0])) == pytest.approx(0.5)


def test_the_overhead_of_round_robin_is_the_papers_seventy_percent():
    # (T+1)·N·O + 3·O·T·N·K with K = 2 on average against K = 3, T = 256: (257 + 3·256·2)/(257 + 3·256·3).
    assert round((257 + 1536) / (257 + 2304), 2) == 0.70
    (claim,) = claims.overhead(None)
    assert claim.measured.startswith("70 % ")


def test_detrending_takes_a_straight_line_away_and_keeps_what_is_fast():
    ramp = np.arange(60.0)
    inside = slice(choices.WINDOW, -choices.WINDOW)
    np.testing.assert_allclose(choices.detrended(ramp)[inside], 0, atol=1e-9)
    fast = np.where(np.arange(60) % 2, 1.0, -1.0)
    left = choices.detrended(ramp + fast)[inside]
    assert np.abs(left - fast[inside]).max() <= 1 / choices.WINDOW + 1e-9
    assert math.isnan(choices.correlation(np.ones(5), np.arange(5.0)))
    assert choices.correlation(np.arange(5.0), -np.arange(5.0)) == pytest.approx(-1)


def stage(truth: list[list[float]], reward: list[list[float]]) -> choices.Stage:
    return choices.Stage("minigrid/X", 1, 10, 0.0, (1, 4), np.array(reward), np.array(reward), np.array(truth))


def test_the_oracle_takes_the_arm_with_the_best_truth_and_the_bandit_that_with_the_best_reward():
    found = stage([[1.0, 3.0], [1.2, 3.2], [0.8, 2.8]], [[0.5, 0.1], [0.7, 0.3], [0.6, 0.2]])
    assert (found.oracle, found.seen) == (4, 1)
    assert found.lead("truth").value == pytest.approx(2.0)
    assert found.lead("truth").low > 0
    assert found.lead("reward").value == pytest.approx(0.4)
    assert found.noise == pytest.approx(0.1), "deviation 0.1 within each arm"
    assert [each.value for each in found.against_mean("truth")] == pytest.approx([-1.0, 1.0])


def test_a_lead_is_not_that_of_the_luckiest_arm():
    # Without the first row K=1 looks best, which the first row denies; and so on: -2, -2, and 0 where the others tie.
    found = stage([[1.0, 3.0], [3.0, 1.0], [1.0, 1.5]], [[0.5, 0.1]] * 3)
    assert found.lead("truth").value == pytest.approx(-4 / 3)
    rng = np.random.default_rng(1)
    leads = [stage(rng.normal(size=(12, 2)).tolist(), [[0.0, 0.0]]).lead("truth").value for _ in range(400)]
    assert abs(np.mean(leads)) < 0.1


def test_tries_to_tell_two_arms_apart():
    # The usual sample size for a difference of half a deviation at 5 % and power 0.8: 2·(1.96 + 0.84)²·4 = 63 each.
    found = choices.ArmEffects("t", (2, 1), (Estimate(0.25), Estimate(-0.25)), noise=7.0)
    assert round(found.pulls) == 63


def test_an_arms_effect_is_the_change_after_it_and_silent_iterations_are_left_out():
    # Changes 3, 1, 3, 1, then two that touch a missing value, 3, 3: after K=2 always 3, after K=1 1, 1 and 3.
    rewards = np.array([0.0, 3, 4, 7, 8, math.nan, 10, 13, 16])
    epochs = np.array([2.0, 1, 2, 1, 2, 1, 2, 1, 2])
    run = {"gae_return": rewards, "epochs": epochs}
    method = SimpleNamespace(config=SimpleNamespace(arms=(2, 1)))
    evidence = SimpleNamespace(
        comparison=SimpleNamespace(method=lambda name: method), tasks=("t",), columns=lambda name, task: [run, run]
    )
    (found,) = choices.arm_effects(evidence, "round-robin", "gae_return")  # type: ignore[arg-type]
    mean, noise = 14 / 6, math.sqrt((0 + 4 / 3) / 2)
    assert found.noise == pytest.approx(noise)
    assert [each.value for each in found.changes] == pytest.approx([(3 - mean) / noise, (5 / 3 - mean) / noise])


def test_an_arm_is_held_with_nine_tenths_of_the_last_fifty_updates():
    early, late = np.full(100, 1), np.full(45, 4)
    holds = np.concatenate([early, np.full(5, 2), late])
    wavers = np.concatenate([early, np.full(6, 2), late[1:]])
    runs = [SimpleNamespace(epochs=holds), SimpleNamespace(epochs=wavers), SimpleNamespace(epochs=early)]
    evidence = SimpleNamespace(
        comparison=SimpleNamespace(
            method=lambda name: SimpleNamespace(config=SimpleNamespace(arms=(4, 2, 1))),
            finished=lambda name, task: runs,
        ),
        tasks=("t",),
    )
    assert choices.held(evidence, "ucb") == {4: 1, 2: 0, 1: 1}  # type: ignore[arg-type]


def test_blocks_are_filled_and_text_around_them_stays():
    page = "a\n<!-- results: one -->\nold\n<!-- end of results -->\nb\n"
    once = filled(page, {"one": "new\n"})
    assert once == "a\n<!-- results: one -->\n\nnew\n\n<!-- end of results -->\nb\n"
    assert filled(once, {"one": "new\n"}) == once
    with pytest.raises(KeyError):
        filled(page, {})


def test_the_page_of_results_follows_from_the_records():
    command = [sys.executable, "-m", "benchmarks.evidence", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_branches_of_one_arm_are_equal_and_leave_the_run_as_it_was(monkeypatch: pytest.MonkeyPatch):
    config = Config(env="gymnasium/CartPole-v1", scheduler="fixed", arms=(4,), steps=4 * 256, environments=4,
                    rollout_length=64, minibatch_size=64, seed=1)  # fmt: skip
    monkeypatch.setattr(branches, "preset", lambda task, scheduler: config)
    monkeypatch.setattr(branches, "BASELINE_EPOCHS", {"gymnasium": 4})
    plan = branches.Plan(arms=(2, 2, 3), stages=(2, 3), repeats=2, settle=1, listen=2)
    rows = list(branches.branches("gymnasium/CartPole-v1", 1, plan))
    assert len(rows) == 2 * 2 * 3
    for first, twin, other in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert first == twin, "same parameters, rollout and shuffles: same outcome"
        assert first["reward"] != other["reward"]
        assert first["episodes"] > 0
    assert rows[0]["reward"] != rows[3]["reward"], "another repeat is another rollout"
    scores = {record["iteration"]: record["score"] for record in train(config)}
    assert [rows[0]["before"], rows[6]["before"]] == [scores[2], scores[3]], "branching does not disturb the run"
