from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adept.runs.records import (
    RunFolder,
    append_evaluation,
    read_config,
    read_evaluations,
    read_iterations,
    read_starts,
    read_status,
    run_path,
    whole_rows,
)
from adept.runs.safe_io import is_locked, remove_leftovers, take_lock, write_aside
from adept.studies.work import last_iteration
from tests.faults.campaign import hang_limit

from .test_runner import small


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    config = small()
    folder = RunFolder(tmp_path, config)
    folder.append({"iteration": 1, "score": float("nan"), "loss": 0.1})
    folder.append({"iteration": 2, "score": 1 / 3, "loss": -2e-30})
    folder.close()
    assert read_config(tmp_path) == config
    with open(tmp_path / "iterations.csv", "a") as file:
        file.write("3,0.5")  # a kill in the middle of a line
    columns = read_iterations(tmp_path)
    assert columns["iteration"].tolist() == [1, 2]
    assert np.isnan(columns["score"][0])
    assert columns["score"][1] == 1 / 3
    assert columns["loss"].tolist() == [0.1, -2e-30]
    assert read_evaluations(tmp_path) == []


def test_the_same_configuration_lives_in_the_same_place(tmp_path: Path) -> None:
    assert run_path(tmp_path, small()) == run_path(tmp_path, small())
    assert run_path(tmp_path, small()) != run_path(tmp_path, small(learning_rate=1e-4))


def test_a_row_of_other_columns_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, small())
    folder.append({"iteration": 1, "loss": 0.1})
    with pytest.raises(ValueError, match=r"iterations.csv has other columns than this row \(it lacks gain\)"):
        folder.append({"iteration": 2, "loss": 0.1, "gain": 0.2})
    folder.close()
    folder = RunFolder(tmp_path, small())
    with pytest.raises(ValueError, match=r"\(it lacks gain; it also has loss\): another version of adept began it"):
        folder.append({"iteration": 2, "gain": 0.2})
    folder.append({"iteration": 2, "loss": 0.3})
    folder.close()
    assert (tmp_path / "iterations.csv").read_text() == "iteration,loss\n1,0.1\n2,0.3\n"
    append_evaluation(tmp_path, {"levels": "test", "return_mean": 1.0})
    with pytest.raises(ValueError, match="other columns"):
        append_evaluation(tmp_path, {"levels": "test"})


def test_rows_that_cannot_be_read_are_counted_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = ["iteration,loss", "1,0.5", "2,x", "3", "4,0.5,7", "5,", "6,1"]
    (tmp_path / "iterations.csv").write_text("\n".join(rows))
    columns = read_iterations(tmp_path)
    assert columns["iteration"].tolist() == [1, 5]  # the sixth is cut short, as by a kill: it was never whole
    assert columns.unreadable == 3
    assert "3 of 5 rows cannot be read" in caplog.text
    with pytest.raises(ValueError, match=r"iterations.csv has no column 'score'"):
        columns["score"]
    (tmp_path / "evaluation.csv").write_text("step,levels,return_mean\n5,test,1.5\n6,test\n7,test,much\n8,test,1,2\n")
    assert read_evaluations(tmp_path) == [{"step": "5", "levels": "test", "return_mean": "1.5"}]
    assert "3 of 4 rows cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("lines", "whole"),
    [
        (["1,a", "2,b"], 0),  # not numbers
        (["1,1", "2,1", "3,1"], 3),
        (["1,1", "3,1"], 1),  # one is missing
        (["1,1", "2,13,1", "4,1"], 1),  # two lines have become one
        (["2,1", "3,1"], 0),
        (["1,1", "2,1", "3"], 2),
        ([], 0),
    ],
)
def test_row_n_is_that_of_iteration_n(tmp_path: Path, lines: list[str], whole: int) -> None:
    (tmp_path / "iterations.csv").write_text("\n".join(["iteration,loss", *lines, ""]))
    assert whole_rows(tmp_path) == whole


def test_an_empty_table_gets_its_header(tmp_path: Path) -> None:
    (tmp_path / "iterations.csv").touch()
    folder = RunFolder(tmp_path, small())
    assert whole_rows(tmp_path) == 0
    folder.append({"iteration": 1})
    folder.close()
    assert (tmp_path / "iterations.csv").read_text() == "iteration\n1\n"


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "null", '"done"', '{"state": 3}', '{"state": "finished"}', "{", "[" * 5000, "\x00", "{}",
             '{"state": "done", "iteration": "many"}']
)  # fmt: skip
def test_a_status_that_cannot_be_read_is_not_an_end(tmp_path: Path, text: str) -> None:
    (tmp_path / "status").write_text(text)
    assert read_status(tmp_path)["state"] == "interrupted"


WRONG = [
    ("arms", 2), ("arms", ["a"]), ("arms", {}), ("env", 3), ("env", None), ("seed", "1"), ("seed", True),
    ("scheduler", ["ucb"]), ("scheduler", "evil:"), ("scheduler", ".x:y"), ("scheduler_options", []),
    ("scheduler_options", {"window": [1]}), ("learning_rate", "fast"), ("learning_rate", None), ("network", 7),
    ("network", "resnet"), ("target_kl", "no"), ("learning_rate_decay", 1), ("algo", {}), ("unknown", 1),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), WRONG, ids=str)
def test_a_configuration_of_wrong_types_is_one_clear_error(tmp_path: Path, key: str, value: Any) -> None:
    values = {"schema": 1, **json.loads(small().to_json()), key: value}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=key.replace("_kl", ".kl")):
        read_config(tmp_path)


def test_machine_json_of_wrong_types_is_one_clear_error(tmp_path: Path) -> None:
    for text in ("[]", '{"starts": {}}', '{"starts": [3]}', '{"starts": [{"command": 3}]}', "{"):
        (tmp_path / "machine.json").write_text(text)
        with pytest.raises(ValueError, match=r"machine\.json"):
            read_starts(tmp_path)


def test_the_lock_is_no_way_to_another_file(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match="is a symbolic link"):
        RunFolder(tmp_path / "run", small())
    assert (tmp_path / "victim").read_text() == "precious"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    folder = RunFolder(tmp_path, small())
    aside = tmp_path / f".adept.{os.getpid()}.status"
    aside.symlink_to(tmp_path / "victim")
    write_aside(tmp_path / "status", "new")
    (tmp_path / "iterations.csv").symlink_to(tmp_path / "victim")
    with pytest.raises((OSError, ValueError)):
        folder.append({"iteration": 1})
    folder.close()
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "status").read_text() == "new"


def test_what_a_killed_process_left_is_removed_by_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    left = [tmp_path / ".adept.123.status", tmp_path / "checkpoint" / ".adept.77.00000003.npz"]
    kept = [tmp_path / ".bashrc.1", tmp_path / "notes.12", tmp_path / "checkpoint" / "00000002.npz"]
    for file in (*left, *kept):
        file.touch()
    RunFolder(tmp_path, small()).close()
    assert not any(file.exists() for file in left)
    assert all(file.exists() for file in kept)
    remove_leftovers(tmp_path / "nowhere")


def test_looking_at_a_lock_does_not_take_it(tmp_path: Path) -> None:
    with take_lock(tmp_path / "lock", "it"):
        assert is_locked(tmp_path / "lock")
    assert not is_locked(tmp_path / "lock")
    assert not is_locked(tmp_path / "nowhere")


def finished(path: Path, iterations: int = 12) -> Path:
    """Write a finished run of so many rows."""
    folder = RunFolder(path, small(steps=64 * iterations))
    for iteration in range(1, iterations + 1):
        folder.append({"iteration": iteration, "step": 64 * iteration, "flops": 1e9, "score": 1.0})
    folder.set_status("done", iteration=iterations)
    folder.close()
    return path


def edit_last_row(path: Path, new: str) -> None:
    *lines, _ = (path / "iterations.csv").read_text().splitlines(keepends=True)
    (path / "iterations.csv").write_text("".join(lines) + new)


def test_rows_missing_at_the_end_of_a_run_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = finished(tmp_path)
    assert len(read_iterations(path)["step"]) == 12
    assert not caplog.messages
    edit_last_row(path, "")
    assert len(read_iterations(path)["step"]) == 11
    assert caplog.messages == [
        f"{path / 'iterations.csv'}: it has 11 rows of 12 iterations; those at its end are missing"
    ]


@pytest.mark.parametrize("cell", ["inf", "9" * 400, "nan", ""])
def test_a_count_that_is_no_finite_number_is_a_row_that_cannot_be_read(
    cell: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = finished(tmp_path)
    edit_last_row(path, f"12,768,{cell},1.0\n")
    assert read_iterations(path).unreadable == 1
    assert "1 of 12 rows cannot be read" in caplog.messages[0]
    edit_last_row(path, f"12,768,1e9,{cell}\n")
    columns = read_iterations(path)
    assert columns.unreadable == 0
    assert np.isnan(columns["score"][-1])


def test_a_folder_with_rows_of_someone_else_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "iterations.csv").write_text("my,own,table\n")
    with pytest.raises(ValueError, match=r"holds iterations.csv, but no config.json"):
        RunFolder(tmp_path, small())
    assert (tmp_path / "iterations.csv").read_text() == "my,own,table\n"
    assert not (tmp_path / "config.json").exists()


def _append_many(path: Path, number: int) -> None:
    for index in range(20):
        append_evaluation(path, {"iteration": number, "seed": index})


def test_evaluations_of_several_processes_are_all_kept(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_append_many, args=(tmp_path, number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = {(int(row["iteration"]), int(row["seed"])) for row in read_evaluations(tmp_path)}
    assert found == {(number, index) for number in range(4) for index in range(20)}


def test_an_evaluation_after_one_that_was_cut_begins_on_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "evaluation.csv").write_text("iteration,seed\n1,2\n3")
    append_evaluation(tmp_path, {"iteration": 4, "seed": 5})
    assert [row["iteration"] for row in read_evaluations(tmp_path)] == ["1", "4"]


def test_a_pipe_in_the_place_of_rows_or_evaluations_is_refused(tmp_path: Path) -> None:
    path = finished(tmp_path)
    for name in ("iterations.csv", "evaluation.csv"):
        (path / name).unlink(missing_ok=True)
        os.mkfifo(path / name)
    with hang_limit(5.0):
        assert last_iteration(path) == 0
        with pytest.raises(ValueError, match="not a regular file"):
            read_iterations(path)
        with pytest.raises(OSError, match=r"evaluation.csv"):
            append_evaluation(path, {"iteration": 1})


def test_what_a_report_has_no_room_for_is_refused_or_cut(tmp_path: Path) -> None:
    path = finished(tmp_path)
    (path / "status").write_text(json.dumps({"state": "failed", "error": "x" * 20_000}))
    assert len(read_status(path)["error"]) == 2_000
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**values, "env": "gymnasium/" + "x" * 20_000}))
    with pytest.raises(ValueError, match="a configuration has at most 10,000"):
        read_config(path)
