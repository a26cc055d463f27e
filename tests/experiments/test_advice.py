"""The experiment that follows advice: its declaration, its runner on a tiny case, and its verdicts by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from adept.hindsight.advice import advise
from adept.runs.advice import follow
from experiments.advice import directions, followed
from experiments.advice.runs import read

TURNS = ("first", "second")
TINY = """
seeds = [1, 2]
margin = 0.05
cheaper = 0.75

[kinds.rate-10th]
expected = "better"
learning_rate_factor = 0.1
environments = 2
rollout_length = 32
minibatch_size = 32

[[run]]
kind = "rate-10th"
env = "gymnasium/CartPole-v1"
steps = 640
"""


def test_the_declaration_is_of_twenty_settings_on_tasks_that_set_no_threshold():
    declared = followed.load()
    assert len(declared.cells) == 20
    known = {"CartPole-v1", "Pendulum-v1", "Acrobot-v1", "Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Swimmer-v4",
             "LavaGapS7", "DoorKey-6x6", "Empty-8x8", "Empty-6x6", "Empty-16x16", "SimpleCrossingS9N1"}  # fmt: skip
    assert not {cell.config.env.partition("/")[2] for cell in declared.cells} & known
    assert not any(cell.config.env.startswith("pybullet/") for cell in declared.cells)
    kinds = [cell.kind for cell in declared.cells]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(dict.fromkeys(kinds), 2)
    fast = next(cell for cell in declared.cells if cell.kind == "rate-x30")
    assert fast.config.learning_rate == pytest.approx(30 * 3e-4)


@pytest.mark.slow
def test_the_runner_makes_what_is_missing_and_the_table_follows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(followed, "return_without_learning", lambda config: 5.0 + config.seed)
    (tmp_path / "tiny.toml").write_text(TINY)
    declared = followed.load(tmp_path / "tiny.toml")
    followed.run(declared, tmp_path)
    made = capsys.readouterr().out.split()
    cell = declared.cells[0]
    assert made[:2] == [f"{cell.name}-first-{seed}.csv.gz" for seed in (1, 2)]
    first = read(tmp_path / made[0])
    assert first["learning_rate"][0] == pytest.approx(1e-4)
    # Ten updates with a tenth of the rate: the KL asks for more, so that there are second runs, with that rate.
    assert made[2:] == [f"{cell.name}-second-{seed}.csv.gz" for seed in (1, 2)]
    (advised,) = (each for each in advise(first).recommendations if each.action == "learning-rate")
    assert read(tmp_path / made[2])["learning_rate"][0] == pytest.approx(1e-4 * advised.factor, rel=1e-5)
    (tmp_path / made[3]).unlink()
    assert followed.outcome(declared, tmp_path, cell) is None
    followed.run(declared, tmp_path)
    assert capsys.readouterr().out.split() == [made[3]], "the others are there already"
    found = followed.outcome(declared, tmp_path, cell)
    assert found is not None
    assert found.epochs == 1
    scores = {turn: [read(tmp_path / f"{cell.name}-{turn}-{seed}.csv.gz") for seed in (1, 2)] for turn in TURNS}
    means = [np.mean([np.trapezoid(run["score"], run["step"]) / 576 for run in runs]) for runs in scores.values()]
    assert (tmp_path / "untrained.csv").read_text() == "env,without_learning\ngymnasium/CartPole-v1,6.5\n"
    assert (found.first, found.second) == pytest.approx(means)
    assert found.progress == pytest.approx((means[1] - means[0]) / (max(means) - 6.5))
    assert f"| {cell.name} | better | low kl: learning rate ×" in followed.table(declared, tmp_path)
    assert "of 1 settings (1 declared, 2 seeds each)" in followed.table(declared, tmp_path)
    (tmp_path / "untrained.csv").write_text("env,without_learning\ngymnasium/CartPole-v1,500\n")
    lost = followed.outcome(declared, tmp_path, cell)
    assert lost is not None
    assert math.isnan(lost.progress), "neither setting scores more than a policy that does not learn"
    assert not lost.right
    assert "| none |" in followed.table(declared, tmp_path)


@pytest.mark.parametrize(
    ("expected", "progress", "epochs", "unchanged", "right"),
    [
        ("better", 0.06, 1.0, False, True),
        ("better", 0.04, 1.0, False, False),
        ("better", 0.0, 1.0, True, False),
        ("better", 0.0, 0.5, False, False),
        ("better-or-cheaper", -0.04, 0.5, False, True),
        ("better-or-cheaper", -0.06, 0.5, False, False),
        ("better-or-cheaper", 0.0, 0.8, False, False),
        ("not-worse", 0.0, 1.0, True, True),
        ("not-worse", -0.04, 1.0, False, True),
        ("not-worse", -0.06, 0.5, False, False),
        ("better", math.nan, 1.0, False, False),
        ("not-worse", math.nan, 1.0, True, False),
    ],
)
def test_right_is_what_improved(expected, progress, epochs, unchanged, right):
    declared = followed.load()
    cell = replace(declared.cells[0], expected=expected)
    assert followed.right(declared, cell, progress, epochs, unchanged=unchanged) is right


def test_following_changes_what_is_recommended_and_nothing_else():
    config = followed.load().cells[0].config
    assert follow(config, advise({})) == config
    slow = advise({"approx_kl_last_epoch": np.full(9, 0.0016)})
    assert follow(config, slow) == replace(config, learning_rate=2.5 * config.learning_rate)
    blind = {"explained_variance": np.zeros(9)}
    plain = replace(config, normalize_rewards=False)
    assert follow(plain, advise(blind)) == replace(plain, normalize_rewards=True)
    assert follow(config, advise(blind, rewards_scaled=True)).scheduler == "hindsight"


def test_the_advice_names_the_right_direction_on_at_least_nine_of_ten_runs():
    found = [correct for *_, correct in directions.judged(directions.CELLS)]
    assert len(found) == len(directions.CELLS)
    assert sum(found) >= 0.9 * len(found)
