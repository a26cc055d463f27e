"""What updates were worth in hindsight, from invented columns whose truth is known."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
from synthetic import METHODS, TASKS, compare, write_study

from adept.config import Config
from adept.report import ReportOptions
from adept.report.analysis import analyze
from adept.report.build import report_files
from adept.report.comparison import ComparedMethod, Comparison, Run
from adept.report.hindsight import advice, course, directions, gains, monitored, told
from adept.report.loading import load_comparison, with_records
from adept.runs.advice import advice_of

OPTIONS = {"scheduler": "hindsight", "epochs": 4, "scheduler_options": {"optimize_for": "compute", "gain": 0.5}}
CONTROLLED = ("hindsight", "Hindsight", OPTIONS, 0.9, 0.25)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("monitored")
    write_study(directory, [METHODS[0], METHODS[1], CONTROLLED], TASKS, [1, 2], iterations=60, monitor=True)
    return directory


@pytest.fixture(scope="module")
def comparison(folder):
    return load_comparison([folder])


def test_gains_are_means_by_epoch_and_stage(comparison):
    found = gains(comparison, "fixed-4", TASKS)
    assert list(found) == ["first third", "middle third", "last third"]
    assert [epoch for epoch, _, _ in found["first third"]] == [1, 2, 4]
    for stage, late in (("first third", 1.0), ("last third", 0.5)):
        for epoch, mean, error in found[stage]:
            assert mean == pytest.approx(0.01 * late * (1 - 0.5**epoch), abs=5 * error)
            assert error == pytest.approx(1e-4 / math.sqrt(4 * 20), rel=0.4)  # 4 runs of some 20 updates


def test_a_stage_holds_the_updates_of_its_steps(comparison):
    (run, *_) = comparison.finished("fixed-4", TASKS[0])
    middle = gains(comparison, "fixed-4", TASKS[:1])["middle third"]
    runs = comparison.finished("fixed-4", TASKS[0])
    inside = (run.steps > run.steps[-1] / 3) & (run.steps <= 2 * run.steps[-1] / 3)
    expected = np.mean([each.monitored["gain/2"][inside].mean() for each in runs])
    assert {epoch: mean for epoch, mean, _ in middle}[2] == pytest.approx(expected)


def test_the_course_of_slope_and_lr_scale(comparison):
    progress, mean, low, high = course(comparison, "hindsight", TASKS, "slope_z")
    assert (progress[0], progress[-1]) == (pytest.approx(1 / 60), pytest.approx(59 / 60))
    assert np.nanmean(mean) == pytest.approx(0.5, abs=0.3)
    assert mean - low == pytest.approx(high - mean)
    assert (mean > low).all()
    _, lr_scale, low, high = course(comparison, "hindsight", TASKS, "lr_scale")
    assert lr_scale[-1] == pytest.approx(1.02**59.5, rel=1e-3)  # of iterations 59 and 60, the geometric mean
    assert low * high == pytest.approx(lr_scale**2)
    assert course(comparison, "fixed-4", TASKS, "lr_scale") is None


def test_unmonitored_runs_are_left_out(study):
    comparison = load_comparison([study])
    assert monitored(comparison, "ucb", comparison.tasks) == []
    assert gains(comparison, "ucb", comparison.tasks) == {}
    assert advice(analyze(comparison, resamples=100)) == []


def test_advice_speaks_of_the_baseline_task_by_task(comparison):
    found = advice(analyze(comparison, resamples=100))
    assert [place for place, _ in found] == ["PPO (K=4) on DoorKey-6x6", "PPO (K=4) on LavaGapS7"]
    assert found[0][1].startswith("In 2 of 2 runs updates stop short. Seed 1: Updates stop short (mean slope z +0.")


def test_the_next_step_multiplies_the_learning_rate_of_the_best_fixed_method(comparison, tmp_path):
    (step,) = directions(analyze(comparison, resamples=100))  # on the other task only one of two runs asks for it
    assert step == "Updates of PPO (K=4) stop short on DoorKey-6x6: multiply the learning rate by 1.5 there."
    better = (*METHODS[1][:3], 0.95, 0.3)
    other = compare(tmp_path, [METHODS[0], better], seeds=[1, 2], iterations=60, monitor=True)
    assert [each.method for each in told(analyze(other, resamples=100))] == ["fixed-1"]


def test_figures_and_box_are_on_the_page(folder):
    pytest.importorskip("matplotlib")
    files, facts = report_files(ReportOptions((folder,), resamples=100))
    assert {"gain-by-epoch", "gain-by-epoch-per-task", "slope-and-lr-scale"} <= set(facts["figures"])
    rows = list(csv.DictReader(io.StringIO(files["figures/gain-by-epoch.csv"].decode())))
    assert {row["method"] for row in rows} == {"fixed-4", "fixed-1", "hindsight"}
    page = files["report.html"].decode()
    assert "Were the updates too short or too long?" in page
    assert 'id="gain-by-epoch-figure_1"' in page
    assert "optimize_for compute, gain 0.5" in page


def test_the_report_gives_the_advice_of_adept_advise():
    """The columns of one run, read for a report and for `adept advise`: the critic lags, and a KL stop ends updates."""
    count = 30
    random = np.random.default_rng(0)
    judged = {"slope_z": 3 + random.normal(size=count), "critic_slope": np.full(count, 1.5),
              "critic_slope_z": 4 + random.normal(size=count), "update_gain": np.full(count, 0.02),
              "approx_kl_last_epoch": np.full(count, 0.01)}  # fmt: skip
    numbers = np.arange(1.0, count + 1)
    columns = {"iteration": numbers, "step": numbers, "score": np.ones(count), "flops": numbers * 1e9,
               "epochs": np.full(count, 10.0), "epochs_done": np.full(count, 4.0), **judged}  # fmt: skip
    config = Config(env=TASKS[0], scheduler="fixed", epochs=10)
    run = with_records(Run("fixed", TASKS[0], 1, "done", config=config), columns, ())
    method = ComparedMethod("fixed", "K=10", config)
    compared = Comparison("", (method,), (TASKS[0],), (run,), "fixed", {TASKS[0]: float(count)}, ())
    said = str(advice_of(config, columns)).replace("`", "")
    assert advice(analyze(compared)) == [("K=10 on DoorKey-6x6", f"Seed 1: {said}")]
    assert "The critic lags: its updates should be 2.5 times as long" in said
    assert "(4 of 10 epochs on average)" in said
