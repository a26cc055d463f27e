"""Which runs are compared, and which comparisons are refused."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
from synthetic import METHODS, TASKS, compare, write_study

from adept.report import sections
from adept.report.analysis import analyze
from adept.report.comparison import Comparison, Run
from adept.report.curves import drawn_steps
from adept.report.loading import load_comparison
from adept.studies.grid import cell_path


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
    steps = drawn_steps(load_comparison([study]), TASKS)[TASKS[0]]
    assert steps == pytest.approx([2048.0 * (index + 1) for index in range(60)])


def test_a_run_that_is_not_what_its_study_declares_makes_the_report_fail(tmp_path):
    write_study(tmp_path, METHODS[:2], TASKS[:1], [1, 2], iterations=4)
    path = cell_path(tmp_path, "fixed-1", TASKS[0], 2) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "discount": 0.9, "clip_range": 0.3}))
    with pytest.raises(ValueError, match="not what it declares") as error:
        load_comparison([tmp_path])
    for word in (path.parent, cell_path(tmp_path, "fixed-4", TASKS[0], 2), "discount is 0.9"):
        assert str(word) in str(error.value)
    assert "declare discount, clip_range in differs" in str(error.value)


def test_monitoring_is_no_part_of_a_method(tmp_path):
    for folder in ("study", "loose"):
        write_study(tmp_path / folder, METHODS[:2], TASKS[:1], [1, 2], iterations=4)
        path = cell_path(tmp_path / folder, "fixed-1", TASKS[0], 2) / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "monitor": False, "monitor_rows": 7}))
    (tmp_path / "loose" / "study.toml").unlink()
    for folder in ("study", "loose"):
        comparison = load_comparison([tmp_path / folder])
        assert [len(comparison.finished(method.name, TASKS[0])) for method in comparison.methods] == [2, 2]


def both(tmp_path, other, seeds, iterations=4):
    """Write two studies, and return their comparison."""
    write_study(tmp_path / "a", METHODS[:2], TASKS[:1], [1, 2], iterations=4)
    write_study(tmp_path / "b", other, TASKS[:1], seeds, iterations=iterations)
    return load_comparison([tmp_path / "a", tmp_path / "b"])


def test_several_studies_are_one_comparison(tmp_path):
    comparison = both(tmp_path, [METHODS[0], METHODS[2]], [3])
    assert [method.name for method in comparison.methods] == ["fixed-4", "fixed-1", "ucb"]
    assert [run.seed for run in comparison.finished("fixed-4", TASKS[0])] == [1, 2, 3]


def test_the_budget_of_two_studies_is_a_difference_too(tmp_path):
    comparison = both(tmp_path, [METHODS[0], METHODS[2]], [1, 2], iterations=8)
    assert [method.label for method in comparison.methods] == [
        "PPO (K=4), steps=8192", "PPO (K=1), steps=8192", "PPO (K=4), steps=16384",
        "ADEPT(U) {4,2,1}, steps=16384",
    ]  # fmt: skip
    assert "steps" in comparison.declared
    assert comparison.budget[TASKS[0]] == 4 * 2048
    assert "every score there is taken at 8,192 steps" in comparison.notes[0]
    run = comparison.finished("ucb", TASKS[0])[0]
    assert comparison.measure(run, "final-score") == run.score[3]


def test_the_same_seed_in_two_studies_is_one_run_too_many(tmp_path):
    with pytest.raises(ValueError, match=r"seed 1 of .fixed-4. .* is there twice"):
        both(tmp_path, METHODS[:2], [1])


def test_a_name_that_means_two_things_is_told_apart_by_its_study(tmp_path):
    comparison = both(tmp_path, [("fixed-4", "Eight", {"scheduler": "fixed", "epochs": 8}, 0.5, 0.5)], [1])
    assert [method.label for method in comparison.methods] == ["PPO (K=4)", "PPO (K=1)", "Eight"]
    assert [method.name for method in comparison.methods] == ["fixed-4", "fixed-1", "synthetic/fixed-4"]


def test_an_unknown_baseline_and_a_wrong_folder_are_named(study, tmp_path):
    (tmp_path / "file").write_text("")
    for folders, baseline, message in (
        ([study], "fixd-4", "did you mean 'fixed-4'"),
        ([tmp_path], None, r"study\.toml"),
        ([tmp_path / "nowhere"], None, r"the folder .*nowhere does not exist; give a folder of a study"),
        ([tmp_path / "file"], None, "the folder .*file is a file; give a folder of a study"),
        ([], None, "one or more folders"),
    ):
        with pytest.raises(ValueError, match=message):
            load_comparison(folders, baseline=baseline)


def loose(directory, methods, tasks=TASKS[:1], seeds=(1, 2)):
    """Write runs as `adept train` leaves them, and return their comparison."""
    write_study(directory, methods, tasks, seeds, iterations=4)
    (directory / "study.toml").unlink()
    return load_comparison([directory])


def method(name, final=0.8, **values):
    return (name, name, {"scheduler": "fixed", **values}, final, 0.3)


def labels(comparison):
    return sorted(entry.label for entry in comparison.methods)


def test_runs_outside_a_study_are_called_by_what_differs(tmp_path):
    comparison = loose(tmp_path / "study", METHODS[:3])
    assert labels(comparison) == ["ADEPT(U) {4,2,1}", "K=1", "K=4"]
    assert comparison.baseline == "K=4"
    assert [run.seed for run in comparison.finished("K=1", TASKS[0])] == [1, 2]


def test_two_learning_rates_are_two_methods_and_not_two_seeds_of_one(tmp_path):
    low, high = method("low", learning_rate=1e-3), method("high", 0.4, learning_rate=3e-3)
    comparison = loose(tmp_path / "rates", [low, high])
    assert [entry.label for entry in comparison.methods] == ["learning_rate=0.001", "learning_rate=0.003"]
    assert comparison.baseline == "learning_rate=0.001"  # the preset's
    means = {entry.name: comparison.scores(entry.name, TASKS[0]).mean() for entry in comparison.methods}
    assert means["learning_rate=0.001"] == pytest.approx(2 * means["learning_rate=0.003"], rel=0.2)
    assert comparison.declared == ("learning_rate",)


def test_only_keys_that_differ_are_in_a_name(tmp_path):
    stops = method("stops", epochs=4, stopping={"target-kl": 0.02})
    eager = ("eager", "eager", {"scheduler": "ucb", "scheduler_options": {"exploration": 5.0, "window": 50}}, 0.8, 0.3)
    plain = ("plain", "plain", {"scheduler": "ucb"}, 0.8, 0.3)
    comparison = loose(tmp_path / "runs", [method("k4", epochs=4), stops, plain, eager])
    assert labels(comparison) == [
        "ADEPT(U) {4,2,1} exploration=1", "ADEPT(U) {4,2,1} exploration=5", "K=4", "K=4 target-kl=0.02"
    ]  # fmt: skip


def test_runs_of_several_folders_are_named_together(tmp_path):
    loose(tmp_path / "a", [METHODS[0], METHODS[2]])
    loose(tmp_path / "b", METHODS[:1], seeds=(3,))
    comparison = load_comparison([tmp_path / "a", tmp_path / "b"])
    assert labels(comparison) == ["ADEPT(U) {4,2,1}", "K=4"]
    assert len(comparison.finished("K=4", TASKS[0])) == 3
    assert comparison.title == "a and b"


def test_the_presets_of_two_tasks_are_one_method_and_other_values_are_not(tmp_path):
    ucb = ("ucb", "ucb", {"scheduler": "ucb"}, 0.8, 0.3)
    tasks = ["minigrid/DoorKey-6x6", "pybullet/Hopper"]
    comparison = loose(tmp_path / "presets", [ucb, method("preset"), method("k1", epochs=1)], tasks)
    assert labels(comparison) == ["ADEPT(U)", "K=1", "preset K"]
    arms = {run.config.arms for run in comparison.runs if run.method == "ADEPT(U)"}
    assert arms == {(4, 2, 1), (10, 5, 1)}
    assert comparison.common_tasks == tuple(tasks)
    chosen = loose(tmp_path / "chosen", [method("k4", epochs=4), method("k10", epochs=10)], tasks)
    assert labels(chosen) == ["K=10", "K=4"]  # each is the preset's on one task, and chosen on the other
    other = ("other", "other", {"scheduler": "ucb", "arms": [6, 3, 1]}, 0.8, 0.3)
    loose(tmp_path / "mixed", [ucb], tasks[:1])
    assert labels(loose(tmp_path / "mixed", [other], tasks[1:])) == ["ADEPT(U) {4,2,1}", "ADEPT(U) {6,3,1}"]


def test_the_same_seed_twice_in_one_method_is_refused(tmp_path):
    loose(tmp_path / "runs", METHODS[:2])
    first = cell_path(tmp_path / "runs", "fixed-1", TASKS[0], 1)
    shutil.copytree(first, tmp_path / "runs" / "again")
    places = f"in {tmp_path / 'runs' / 'again'} and in {first}"
    with pytest.raises(ValueError, match=rf"seed 1 of 'K=1' on minigrid/DoorKey-6x6 is there twice, {places}"):
        load_comparison([tmp_path / "runs"])


def test_measured_energy_is_averaged_where_every_run_has_it(tmp_path):
    compare(tmp_path, METHODS[:2], seeds=[1, 2], iterations=4)
    for seed in (1, 2):
        path = cell_path(tmp_path, "fixed-4", TASKS[0], seed) / "energy.json"
        path.write_text(json.dumps({"kwh": 0.01 * seed, "starts": []}))
    found = analyze(load_comparison([tmp_path]), resamples=100)
    assert found.methods["fixed-4"].energy == pytest.approx(0.015)
    assert math.isnan(found.methods["fixed-1"].energy)
    assert "15 Wh" in sections.methods(found)
    assert "Energy per run" in sections.methods(found)
