from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from adept.runs.records import Columns
from adept.studies.grid import cell_path
from adept.studies.packing import FILE, rounded
from adept.studies.results import load_results, pack, state_of, undeclared_differences

from .conftest import TASK, write_run


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


def test_a_run_paused_where_the_study_pauses_is_done(study):
    config = study.config("fixed-2", TASK, 1)
    assert config.iterations == 8
    assert state_of({"state": "interrupted", "iteration": 6}, 6, config) == "done"
    assert state_of({"state": "interrupted", "iteration": 5}, 6, config) == "interrupted"
    # Without a pause, all iterations are not all: the evaluation comes after them.
    assert state_of({"state": "interrupted", "iteration": 8}, 8, config) == "interrupted"


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


def test_packed_commands_leave_places_behind(study, directory):
    machine = directory / "runs" / "gymnasium-CartPole-v1" / "fixed-2" / "seed-1" / "machine.json"
    known = json.loads(machine.read_text())
    known["starts"][0]["command"] = f"adept study {directory.parent}/tiny.toml --out {directory} --workers 2"
    machine.write_text(json.dumps(known))
    pack(directory)
    shutil.rmtree(directory / "runs")
    results = load_results(directory)
    assert results.starts(results.cells[0])[0]["command"] == f"adept study tiny.toml --out {directory.name} --workers 2"


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
    columns = rounded(Columns({"flops": values, "score": values, "policy_loss": values}, "here"))
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
    rate = study.config("round-robin", "gymnasium/Acrobot-v1", 1).learning_rate
    mine, theirs = (cell_path(directory, name, "gymnasium/Acrobot-v1", 1) for name in ("round-robin", "fixed-2"))
    assert found == [
        ("learning_rate", f"learning_rate is 0.5 in {mine} and {rate} in {against}")
        for against in (theirs, directory / "study.toml")
    ]


def test_results_need_no_torch():
    code = "import sys, adept.studies.results; sys.exit('torch' in sys.modules or 'gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_packed_records_are_read_in_two_lines_without_this_package(directory):
    pack(directory)
    data = np.load(directory / FILE)
    table = {name: data[name] for name in data["columns"]}
    assert {len(column) for column in table.values()} == {4 * 8}
    assert table["method"][0] == "fixed-2"
    assert table["task"][0] == TASK
    assert table["flops"][7] == 10**15 + 8
    chosen = (table["method"] == "round-robin") & (table["seed"] == 2)
    results = load_results(directory)
    curve = results.curve(results.cell("round-robin", TASK, 2))
    for name, values in curve.items():
        np.testing.assert_array_equal(table[name][chosen], values)
    assert json.loads(data["runs.json"])["runs"][0]["config"]["epochs"] == 2


def test_the_lines_of_the_page_read_packed_records(directory):
    pandas = pytest.importorskip("pandas")
    page = (Path(__file__).parent.parent.parent / "docs" / "studies.md").read_text(encoding="utf-8")
    lines = page.partition("### Packed records")[2].partition("```python\n")[2].partition("```")[0]
    assert "adept" not in lines
    pack(directory)
    found = {"np": np, "pd": pandas, "json": json}
    exec(lines.replace("results/minigrid", str(directory)), found)
    assert found["table"].groupby(["method", "seed"]).size().to_dict() == {
        ("fixed-2", 1): 8, ("fixed-2", 2): 8, ("round-robin", 1): 8, ("round-robin", 2): 8
    }  # fmt: skip
    assert [run["seed"] for run in found["runs"]] == [1, 1, 2, 2]


def test_a_column_that_some_runs_lack_is_empty_there_and_comes_back_as_it_was(study, directory):
    path = directory / "runs" / "gymnasium-CartPole-v1" / "fixed-2" / "seed-1"
    lines = (path / "iterations.csv").read_text().splitlines()
    text = "\n".join([lines[0] + ",gain", *(f"{line},0.5" for line in lines[1:]), ""])
    (path / "iterations.csv").write_text(text)
    pack(directory)
    shutil.rmtree(directory / "runs")
    results = load_results(directory)
    assert results.curve(results.cells[0])["gain"].tolist() == [0.5] * 8
    assert "gain" not in results.curve(results.cells[1])
    gain = np.load(directory / FILE)["gain"]
    assert np.isnan(gain).sum() == len(gain) - 8


def repacked(file: Path, change) -> None:
    """Rewrite a packed file with its index changed."""
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    index = json.loads(entries["runs.json"])
    change(index, entries)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {**entries, "runs.json": json.dumps(index)}.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index, entries: index["runs"][0].update(rows=-1), "fewer than no rows"),
        (lambda index, entries: index["runs"][0].update(rows=10**15), "not 1000000000000024 rows"),
        (lambda index, entries: index["runs"][0].update(rows="many"), "rows must be a whole number"),
        (lambda index, entries: index["runs"][0].update(columns=["../x"]), "no entry '../x.npy'"),
        (lambda index, entries: index["runs"][0].update(seed="one"), "seed must be a whole number"),
        (lambda index, entries: index["runs"][0]["status"].update(state=None), "state must be text"),
        (lambda index, entries: index["runs"][0].update(evaluations=[{"step": 3}]), "an evaluation that is not one"),
        (lambda index, entries: index["runs"][0].update(extra=1), "unknown keys"),
        (lambda index, entries: index.update(schema=3), "schema 3, this version reads 2"),
        (lambda index, entries: index.update(runs={}), "runs must be a list"),
        (lambda index, entries: entries.pop("score.npy"), "no entry 'score.npy'"),
        (lambda index, entries: entries.update({"score.npy": entries["score.npy"][:-1]}), "cannot hold"),
        (lambda index, entries: entries.update({"score.npy": entries["method.npy"]}), "column 'score' has <U"),
        (lambda index, entries: entries.update({"../evil": b"x"}), "outside the archive"),
    ],
)
def test_a_packed_file_of_wrong_types_is_one_line(directory, change, message):
    repacked(pack(directory), change)
    with pytest.raises(ValueError, match="cannot be read as the packed records") as error:
        load_results(directory)
    assert message in str(error.value)


def test_a_bomb_is_not_inflated(directory):
    """Two gigabytes, claimed; and a claim of ten bytes with 64 MiB behind it."""
    file = pack(directory)
    piece = zipfile.ZipInfo("score.npy")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("runs.json", "{}")
        archive.writestr(piece, bytes(2**26), zipfile.ZIP_LZMA)
    honest = file.read_bytes()
    place = honest.index(b"PK\x01\x02", honest.index(b"PK\x01\x02") + 4) + 24  # the second entry's claimed size
    file.write_bytes(honest[:place] + b"\xff\xff\xff\x7f" + honest[place + 4 :])
    with pytest.raises(ValueError, match="claims to inflate to"):
        load_results(directory)
    file.write_bytes(honest[:place] + (10).to_bytes(4, "little") + honest[place + 4 :])
    with pytest.raises(ValueError, match="cannot be read"):
        load_results(directory)
