from __future__ import annotations

import dataclasses
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adept.runs.records import RunFolder, append_evaluation
from adept.studies.grid import Study
from adept.studies.packing import FILE, rounded
from adept.studies.results import load_results, pack, state_of, undeclared_differences

TASK = "gymnasium/CartPole-v1"


def write_run(study: Study, directory: Path, method: str, task: str, seed: int, state: str = "done", **changes) -> None:
    config = dataclasses.replace(study.config(method, task, seed), **changes)
    path = directory / "runs" / task.replace("/", "-") / method / f"seed-{seed}"
    folder = RunFolder(path, config)
    rng = np.random.default_rng(seed)
    for iteration in range(1, 9):
        loss, score = rng.normal(size=2).tolist()
        row = {"iteration": iteration, "step": 64 * iteration, "flops": 10**15 + iteration, "policy_loss": loss}
        folder.append(row | {"score": math.nan if iteration == 1 else score, "seconds": iteration / 3})
    append_evaluation(path, {"levels": "test", "return_mean": 1.5})
    folder.add_start({"command": "adept study tiny", "python": "3.11"})
    folder.set_status(state, iteration=8, **({"error": "ValueError: no"} if state == "failed" else {}))
    folder.close()


@pytest.fixture
def directory(study, tmp_path) -> Path:
    (tmp_path / "study.toml").write_text(study.text)
    write_run(study, tmp_path, "fixed-2", TASK, 1)
    write_run(study, tmp_path, "round-robin", TASK, 1)
    write_run(study, tmp_path, "fixed-2", TASK, 2, "failed")
    write_run(study, tmp_path, "round-robin", TASK, 2, "running")  # by nobody: it has died
    return tmp_path


def test_states_of_the_cells(directory):
    results = load_results(directory)
    assert results.counts() == {"done": 2, "running": 0, "interrupted": 1, "failed": 1, "missing": 4}
    assert [cell.key for cell in results.cells[:3]] == [
        ("fixed-2", TASK, 1),
        ("round-robin", TASK, 1),
        ("fixed-2", "gymnasium/Acrobot-v1", 1),
    ]
    assert results.cell("fixed-2", TASK, 2).error == "ValueError: no"
    assert results.curve(results.cell("fixed-2", "gymnasium/Acrobot-v1", 1)) == {}


def test_a_run_paused_where_the_study_pauses_is_done():
    assert state_of({"state": "interrupted", "iteration": 8}, 8) == "done"
    assert state_of({"state": "interrupted", "iteration": 7}, 8) == "interrupted"
    # Without a pause, all iterations are not all: the evaluation comes after them.
    assert state_of({"state": "interrupted", "iteration": 8}, None) == "interrupted"


def test_packed_and_unpacked_read_the_same(directory):
    before = load_results(directory)
    curves = [before.curve(cell) for cell in before.cells]
    pack(directory)
    shutil.rmtree(directory / "runs")
    after = load_results(directory)
    assert [cell.state for cell in after.cells] == [cell.state for cell in before.cells]
    assert [cell.error for cell in after.cells] == [cell.error for cell in before.cells]
    for cell, expected in zip(after.cells, curves, strict=True):
        found = after.curve(cell)
        assert list(found) == list(expected)
        for name in found:
            np.testing.assert_array_equal(found[name], expected[name])
    cell = after.cells[0]
    assert after.evaluations(cell) == [{"levels": "test", "return_mean": "1.5"}]
    assert after.starts(cell)[0]["command"] == "adept study tiny"
    assert after.recorded_config(cell) == cell.config
    assert undeclared_differences(after) == []


def test_packing_again_gives_the_same_bytes(directory):
    first = pack(directory).read_bytes()
    assert pack(directory).read_bytes() == first
    shutil.rmtree(directory / "runs")
    assert pack(directory).read_bytes() == first


def test_packed_commands_leave_the_place_of_the_folder_behind(study, directory):
    machine = directory / "runs" / "gymnasium-CartPole-v1" / "fixed-2" / "seed-1" / "machine.json"
    known = json.loads(machine.read_text())
    known["starts"][0]["command"] = f"adept study tiny --out {directory} --workers 2"
    machine.write_text(json.dumps(known))
    pack(directory)
    shutil.rmtree(directory / "runs")
    results = load_results(directory)
    assert results.starts(results.cells[0])[0]["command"] == f"adept study tiny --out {directory.name} --workers 2"


def test_a_run_folder_goes_before_the_packed_run(study, directory):
    pack(directory)
    shutil.rmtree(directory / "runs")
    write_run(study, directory, "fixed-2", TASK, 2, "done")
    results = load_results(directory)
    assert results.counts()["done"] == 3
    assert results.counts()["failed"] == 0


def test_a_damaged_pack_is_one_line(directory):
    (directory / FILE).write_bytes(b"PK no")
    with pytest.raises(ValueError, match="cannot be read as the packed records"):
        load_results(directory)


def test_the_digits_that_are_kept():
    values = np.array([1.23456789012345, -9.87654321e-5, np.nan, np.inf, 0.0])
    columns = rounded({"flops": values, "score": values, "policy_loss": values})
    np.testing.assert_array_equal(columns["flops"], values)
    np.testing.assert_array_equal(columns["score"], values.astype(np.float32))
    # 12 bits of fraction: half a unit in the last place is 2^-13.
    np.testing.assert_allclose(columns["policy_loss"], values, rtol=2**-13)
    assert columns["policy_loss"][0] != columns["score"][0]
    again = rounded(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(again[name], column)


def test_undeclared_differences_are_found(study, directory):
    write_run(study, directory, "fixed-2", "gymnasium/Acrobot-v1", 1)
    write_run(study, directory, "round-robin", "gymnasium/Acrobot-v1", 1, learning_rate=0.5)
    found = undeclared_differences(load_results(directory))
    assert [(entry.method, entry.key, entry.value, entry.expected) for entry in found] == [
        ("round-robin", "learning_rate", 0.5, 0.001),
        ("round-robin", "learning_rate", 0.5, 0.001),
    ]
    assert [entry.against for entry in found] == ["fixed-2", "the study's declaration"]
    assert str(found[0]) == "round-robin on gymnasium/Acrobot-v1, seed 1: learning_rate is 0.5, but 0.001 in fixed-2"


def test_a_folder_without_a_study_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="is not a study's folder"):
        load_results(tmp_path)


def test_results_need_no_torch():
    code = "import sys, adept.studies.results; sys.exit('torch' in sys.modules or 'gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
