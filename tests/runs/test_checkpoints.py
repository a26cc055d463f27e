from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adept.runs.checkpoints import load_checkpoint, save_checkpoint
from adept.runs.evaluation import evaluate
from adept.runs.runner import run_one
from tests.faults.campaign import contents

from .test_runner import REFERENCE, Stop, rows, small, stop_after


def test_loading_a_checkpoint_executes_nothing(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "exploded"),)

    (tmp_path / "checkpoint").mkdir()
    np.savez(tmp_path / "checkpoint" / "00000001.npz", values=np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="can be used"):
        load_checkpoint(tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_the_newest_stay_and_so_do_files_of_others(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name in ("00000040.npz", "00000050.npz", "2024-data.npz"):
        (folder / name).write_bytes(b"of another run")
    for iteration in (1, 2, 30):
        save_checkpoint(tmp_path, small(), {"iteration": iteration}, {"a": np.arange(3)})
    left = ["00000002.npz", "00000030.npz", "00000040.npz", "00000050.npz", "2024-data.npz"]
    assert sorted(file.name for file in folder.iterdir()) == left
    loaded = load_checkpoint(tmp_path, small())
    assert loaded is not None
    assert loaded[0] == {"iteration": 30}
    np.testing.assert_array_equal(loaded[1]["a"], np.arange(3))


def edit(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Callable[[Path], None]:
    """Return a damage that rewrites a checkpoint's values and arrays, as a valid archive."""

    def damage(file: Path) -> None:
        with np.load(file) as archive:
            arrays = dict(archive)
        values = json.loads(arrays.pop("values").tobytes())
        values.pop("digest")  # as in older files: what loads a state must notice by itself
        change(values, arrays)
        np.savez(file, values=np.frombuffer(json.dumps(values).encode(), np.uint8), **arrays)

    return damage


def flipped(content: bytes) -> bytes:
    """Return content in whose middle more than an entry's header is damaged: numbers, too."""
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 0xFF for byte in content[middle : middle + 256]) + content[middle + 256 :]


def version_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[content.index(b"PK\x01\x02") + 6] = 99
    file.write_bytes(content)


def claiming(file: Path) -> None:
    """An array whose header claims a terabyte."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**37,)})
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("huge.npy", header.getvalue())


def without(name: str) -> Callable[[Path], None]:
    return edit(lambda values, arrays: values.pop(name, None) or arrays.pop(name, None))


def replaced(name: str, value: Any) -> Callable[[Path], None]:
    def change(values: dict[str, Any], arrays: dict[str, Any]) -> None:
        (values if name in values else arrays)[name] = value

    return edit(change)


def another_number(file: Path) -> None:
    """A well-formed archive in which one count is another."""
    with np.load(file) as archive:
        arrays = dict(archive)
    values = json.loads(arrays["values"].tobytes())
    values["episodes"] += 1
    np.savez(file, **{**arrays, "values": np.frombuffer(json.dumps(values).encode(), np.uint8)})


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": lambda file: file.write_bytes(b""),
    "half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "256 other bytes": lambda file: file.write_bytes(flipped(file.read_bytes())),
    "version byte": version_byte,
    "terabyte": claiming,
    "no iteration": without("iteration"),
    "no engine": without("engine"),
    "no collector": without("collector"),
    "no actions": without("collector/taken"),
    "iteration of another name": replaced("iteration", 3),
    "iteration of text": replaced("iteration", "7"),
    "values of text": edit(lambda values, arrays: values.update(engine="x")),
    "wrong shape": replaced("collector/episode_return", np.zeros(9)),
    "another schema": replaced("schema", 99),
    "another number": another_number,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_any_damage_to_the_newest_falls_back_to_the_one_before(
    damage: Callable[[Path], None], path: Path, caplog: pytest.LogCaptureFixture, whole: Path
) -> None:
    older, newest = sorted((path / "checkpoint").glob("*.npz"))
    damage(newest)
    run_one(small(), path, REFERENCE)
    assert f"checkpoint {newest.name} cannot be used" in caplog.text
    assert older.name not in caplog.text
    assert rows(path) == rows(whole)


def test_where_no_checkpoint_is_good_the_files_are_left_alone(path: Path) -> None:
    for file in (path / "checkpoint").glob("*.npz"):
        without("engine")(file)
    before = contents(path, "^status$")
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be used .*left as they are"):
        run_one(small(), path, REFERENCE)
    assert contents(path, "^status$") == before


def test_a_folder_in_the_place_of_a_checkpoint_is_refused_before_anything_is_changed(path: Path) -> None:
    newest = max((path / "checkpoint").glob("*.npz"))
    newest.unlink()
    newest.mkdir()
    before = (path / "iterations.csv").read_bytes()
    with pytest.raises(ValueError, match=r"npz is a folder, in the place of a file; remove it"):
        run_one(small(), path, REFERENCE)
    assert (path / "iterations.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        # The seventh row, on which the checkpoint of iteration 7 counts, is gone, or its last number is another.
        (lambda lines: lines[:7], "iterations.csv has only 6 whole rows of 7"),
        (lambda lines: [*lines[:7], lines[7].rpartition(",")[0] + ",9.5\n"],
         "one of the first 7 rows of iterations.csv is not what was written"),
    ],
)  # fmt: skip
def test_rows_that_are_missing_are_made_again_from_an_older_checkpoint(
    change: Any, said: str, path: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = path / "iterations.csv"
    table.write_text("".join(change(table.read_text().splitlines(keepends=True))))
    run_one(small(), path, REFERENCE)
    assert said in caplog.text
    assert rows(path) == rows(whole)


def test_rows_that_are_older_than_any_checkpoint_are_not_made_again(path: Path) -> None:
    table = path / "iterations.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join([*lines[:3], *lines[4:]]))
    before = table.read_text()
    with pytest.raises(ValueError, match="has only 2 whole rows"):
        run_one(small(), path, REFERENCE)
    assert table.read_text() == before


def test_a_run_marked_done_without_all_its_rows_goes_on(
    path: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (path / "status").write_text('{"schema": 1, "state": "done", "iteration": 12}')
    assert run_one(small(), path, REFERENCE)["iteration"] == 12
    assert "marked done, but has 8 whole rows of 12" in caplog.text
    assert rows(path) == rows(whole)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    run_one(small(), path, REFERENCE)
    return path


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run stopped after its seventh iteration, with the checkpoints of the sixth and the seventh."""
    path = tmp_path_factory.mktemp("cut") / "run"
    with pytest.raises(Stop):
        run_one(small(), path, REFERENCE, on_record=stop_after(8), checkpoint_seconds=0)
    assert [file.stem for file in sorted((path / "checkpoint").glob("*.npz"))] == ["00000006", "00000007"]
    return path


@pytest.fixture
def path(cut: Path, tmp_path: Path) -> Path:
    """A copy of the run that was stopped."""
    return shutil.copytree(cut, tmp_path / "run")


def test_checkpoints_and_rows_of_another_seed_are_not_taken_as_ones_own(tmp_path: Path) -> None:
    mine, theirs = small(seed=1), small(seed=2)
    run_one(theirs, tmp_path / "theirs", REFERENCE, checkpoint_seconds=0.0, until=64 * 6)
    run_one(mine, tmp_path / "mine", REFERENCE, checkpoint_seconds=0.0, until=64)
    shutil.rmtree(tmp_path / "mine" / "checkpoint")
    shutil.copytree(tmp_path / "theirs" / "checkpoint", tmp_path / "mine" / "checkpoint")
    shutil.copy(tmp_path / "theirs" / "iterations.csv", tmp_path / "mine")
    with pytest.raises(ValueError, match="it was saved by a run of another configuration"):
        run_one(mine, tmp_path / "mine", REFERENCE)
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be used"):
        evaluate(tmp_path / "mine", episodes=1)


def test_no_checkpoint_is_saved_or_removed_where_a_link_leads(tmp_path: Path) -> None:
    run_one(small(), tmp_path / "one", REFERENCE, checkpoint_seconds=0.0, until=64 * 3)
    before = sorted((tmp_path / "one" / "checkpoint").iterdir())
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "checkpoint").symlink_to(tmp_path / "one" / "checkpoint")
    with pytest.raises(ValueError, match="checkpoint is a symbolic link"):
        run_one(small(), tmp_path / "two", REFERENCE)
    with pytest.raises(ValueError, match="checkpoint is a symbolic link"):
        save_checkpoint(tmp_path / "two", small(), {"iteration": 9}, {})
    assert sorted((tmp_path / "one" / "checkpoint").iterdir()) == before
