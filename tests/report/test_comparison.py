"""Which runs are compared, and which comparisons are refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from synthetic import METHODS, write_study

from adept.report import sections
from adept.report.analysis import analyze
from adept.report.comparison import Comparison, Run
from adept.report.loading import load_comparison
from adept.report.summary import summarize
from adept.studies.grid import cell_path

TASKS = ["minigrid/DoorKey-6x6", "minigrid/LavaGapS7"]


def test_cells_keep_their_states_and_only_finished_runs_count(study):
    comparison = load_comparison([study])
    assert len(comparison.runs) == 5 * 2 * 3
    counts = {(name, task): len(comparison.finished(name, task)) for name in ("ucb", "thompson") for task in TASKS}
    assert counts == {("ucb", TASKS[0]): 3, ("ucb", TASKS[1]): 3, ("thompson", TASKS[0]): 3, ("thompson", TASKS[1]): 2}
    failed = next(run for run in comparison.runs if run.state == "failed")
    assert failed.error == "FloatingPointError: loss is not finite"
    assert comparison.baseline == "fixed-4"
    assert comparison.short[TASKS[0]] == "DoorKey-6x6"


def test_a_column_at_a_step_is_its_last_value_at_or_before_it():
    run = Run("m", "t", 1, "done", steps=np.array([10.0, 20.0, 30.0]), score=np.array([math.nan, 2.0, 3.0]))
    found = run.at([5.0, 10.0, 20.0, 29.9, 30.0, 39.0, 41.0])
    assert np.isnan(found[[0, 1, 6]]).all()
    assert found[2:6].tolist() == [2.0, 2.0, 3.0, 3.0]


def test_training_starts_from_the_lowest_mean_of_the_first_quarter_not_from_the_first_episodes_that_succeeded():
    steps = np.arange(1.0, 9.0)
    # One run's first episode ended because it succeeded; the others of the batch end later, without reward.
    lucky = np.array([0.8, 0.1, 0.5, 0.6, 0.7, 0.8, 0.9, 0.0])
    late = np.array([math.nan, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.0])
    runs = tuple(Run("m", "t", seed, "done", steps=steps, score=score) for seed, score in enumerate((lucky, late)))
    comparison = Comparison("", (), ("t",), runs, "m", {"t": 8.0}, ())
    assert comparison.start("t") == pytest.approx(0.2)  # (0.1 + 0.3)/2; the first ones: (0.8 + 0.3)/2
    assert math.isnan(Comparison("", (), ("t",), (), "m", {"t": 8.0}, ()).start("t"))


def test_the_axis_has_a_point_per_iteration_where_they_are_few(study):
    comparison = load_comparison([study])
    assert comparison.axis[TASKS[0]].tolist() == [2048.0 * (index + 1) for index in range(60)]


def test_a_run_that_differs_in_an_undeclared_key_makes_the_report_fail(tmp_path):
    write_study(tmp_path, METHODS[:2], TASKS[:1], [1, 2], iterations=4)
    path = cell_path(tmp_path, "fixed-1", TASKS[0], 2) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "discount": 0.9, "clip_range": 0.3}))
    with pytest.raises(ValueError, match="cannot be compared") as error:
        load_comparison([tmp_path])
    for word in (path.parent, cell_path(tmp_path, "fixed-4", TASKS[0], 2), "discount is 0.9", "--allow"):
        assert str(word) in str(error.value)
    assert "clip_range" in str(error.value).partition("--allow")[2]
    load_comparison([tmp_path], allow=["discount", "clip_range"])


def test_several_studies_are_one_comparison(tmp_path):
    write_study(tmp_path / "a", METHODS[:2], TASKS[:1], [1, 2], iterations=4)
    write_study(tmp_path / "b", [METHODS[0], METHODS[2]], TASKS[:1], [3], iterations=4)
    comparison = load_comparison([tmp_path / "a", tmp_path / "b"])
    assert [method.name for method in comparison.methods] == ["fixed-4", "fixed-1", "ucb"]
    assert [run.seed for run in comparison.finished("fixed-4", TASKS[0])] == [1, 2, 3]


def test_studies_of_unlike_budgets_are_refused_unless_allowed(tmp_path):
    write_study(tmp_path / "a", METHODS[:2], TASKS[:1], [1, 2], iterations=4)
    write_study(tmp_path / "b", METHODS[2:3], TASKS[:1], [1, 2], iterations=8)
    with pytest.raises(ValueError, match=r"steps is 16384 and 8192.*--allow steps"):
        load_comparison([tmp_path / "a", tmp_path / "b"])
    comparison = load_comparison([tmp_path / "a", tmp_path / "b"], allow=["steps"])
    assert comparison.budget[TASKS[0]] == 4 * 2048
    assert "every score there is taken at 8,192 steps" in comparison.notes[0]
    run = comparison.finished("ucb", TASKS[0])[0]
    assert comparison.score(run) == run.score[3]


def test_a_name_that_means_two_things_is_told_apart_by_its_study(tmp_path):
    write_study(tmp_path / "a", METHODS[:2], TASKS[:1], [1], iterations=4)
    other = ("fixed-4", "Eight", {"scheduler": "fixed", "epochs": 8}, 0.5, 0.5)
    write_study(tmp_path / "b", [other], TASKS[:1], [1], iterations=4)
    comparison = load_comparison([tmp_path / "a", tmp_path / "b"])
    assert [method.label for method in comparison.methods] == ["PPO (K=4)", "PPO (K=1)", "Eight (synthetic)"]


def test_an_unknown_baseline_and_a_wrong_folder_are_named(study, tmp_path):
    with pytest.raises(ValueError, match="did you mean 'fixed-4'"):
        load_comparison([study], baseline="fixd-4")
    with pytest.raises(ValueError, match=r"study\.toml"):
        load_comparison([tmp_path])
    with pytest.raises(ValueError, match="one or more folders"):
        load_comparison([])


def test_runs_outside_a_study_are_grouped_by_what_defines_a_method(tmp_path):
    write_study(tmp_path / "study", METHODS[:3], TASKS[:1], [1, 2], iterations=4)
    (tmp_path / "study" / "study.toml").unlink()
    comparison = load_comparison([tmp_path / "study"])
    assert [method.label for method in comparison.methods] == [
        "ppo K=1", "ppo K=4", "ppo ucb {4,2,1} exploration 1 window 50"
    ]  # fmt: skip
    assert comparison.baseline == "ppo K=4"
    assert [run.seed for run in comparison.finished("ppo K=1", TASKS[0])] == [1, 2]


def test_runs_outside_a_study_must_be_comparable_too(tmp_path):
    write_study(tmp_path, METHODS[:2], TASKS[:1], [1, 2], iterations=4)
    (tmp_path / "study.toml").unlink()
    path = cell_path(tmp_path, "fixed-1", TASKS[0], 2) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "discount": 0.9}))
    with pytest.raises(ValueError, match=r"discount is .*--allow discount") as error:
        load_comparison([tmp_path])
    assert str(path.parent) in str(error.value)
    assert str(cell_path(tmp_path, "fixed-1", TASKS[0], 1)) in str(error.value)


def test_measured_energy_is_averaged_where_every_run_has_it(tmp_path):
    write_study(tmp_path, METHODS[:2], TASKS[:1], [1, 2], iterations=4)
    for seed in (1, 2):
        path = cell_path(tmp_path, "fixed-4", TASKS[0], seed) / "energy.json"
        path.write_text(json.dumps({"kwh": 0.01 * seed, "starts": []}))
    found = analyze(load_comparison([tmp_path]), resamples=100)
    assert found.methods["fixed-4"].energy == pytest.approx(0.015)
    assert math.isnan(found.methods["fixed-1"].energy)
    assert "15 Wh" in sections.methods(found, summarize(found))
    assert "Energy per run" in sections.methods(found, summarize(found))
