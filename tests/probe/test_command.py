"""`adept probe` on a study with invented numbers."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from adept.cli import main
from tests.faults.campaign import hang_limit
from tests.report.synthetic import METHODS, write_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("probe") / "study"
    write_study(path, METHODS, ["minigrid/DoorKey-6x6", "minigrid/LavaGapS7"], [1, 2, 3], iterations=60)
    return path


def probe(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main(["probe", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_studys_own_settings_are_probed(folder: Path, capsys: pytest.CaptureFixture[str]):
    found = probe(capsys, "ucb", "--records", str(folder))
    assert found["arms"] == [4, 2, 1]
    assert found["placebo"]["source"] == "fixed-4"
    assert found["placebo"]["runs"] == 6
    assert [entry["task"] for entry in found["effects"]] == ["minigrid/DoorKey-6x6", "minigrid/LavaGapS7"]
    assert found["placebo"]["verdict"] in ("arms", "none", "unclear")


def test_arms_and_options_can_be_given(folder: Path, capsys: pytest.CaptureFixture[str]):
    found = probe(capsys, "ucb", "--records", str(folder), "--arms", "8", "1", "--options", "exploration", "0")
    assert found["arms"] == [8, 1]
    assert found["options"]["exploration"] == 0
    # Without exploration the first arm leads as soon as it has a positive reward, and keeps the lead.
    assert found["placebo"]["verdict"] == "arms"


def test_runs_whose_updates_are_cut_short_are_no_placebo(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    stops = [(rule, rule, {"scheduler": "fixed", "epochs": 4, "stopping": {rule: 0.25}}, 0.8, 0.3)
             for rule in ("held-out", "ratio-deviation", "target-kl")]  # fmt: skip
    write_study(tmp_path / "study", [*stops, *METHODS[:1]], ["minigrid/DoorKey-6x6"], [1, 2], iterations=20)
    assert probe(capsys, "ucb", "--records", str(tmp_path / "study"))["placebo"]["source"] == "fixed-4"


def test_taking_arms_in_turn_prefers_none(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["probe", "round-robin", "--records", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "No arm is preferred" in said
    assert "Effects of the arms" in said


def test_a_scheduler_of_ones_own(folder: Path, capsys, monkeypatch, tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "from adept import Scheduler\n"
        "class Last(Scheduler):\n"
        "    def _choose(self): return len(self._arms) - 1\n"
        "    def _credit(self, index, reward): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = probe(capsys, "mine:Last", "--records", str(folder))
    assert found["placebo"]["verdict"] == "cheapest"
    assert found["placebo"]["tasks"][0]["favourites"] == {"4": 0, "2": 0, "1": 3}


def test_a_mistake_leaves_no_folder(capsys, tmp_path: Path):
    words = ["branches", "minigrid/DoorKey-6x6", "--out", str(tmp_path / "x"), "--repeats", "1"]
    assert main(["probe", *words]) == 2
    error = capsys.readouterr().err
    assert "repeats must be" in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_controller_is_probed_without_records(capsys: pytest.CaptureFixture[str]):
    found = probe(capsys, "kl-rate", "--arms", "4", "--options", "target", "0.01")
    assert found["passed"]
    assert found["epochs"] == 4
    assert found["noise"]["normal"]["inside"] == 1
    assert main(["probe", "hindsight", "--options", "leak", "0"]) == 0
    assert "It does not pass" in capsys.readouterr().out, "without its leak the rule adds up noise"


@pytest.mark.parametrize("damage", ["bomb", "pipe", "text", "columns"])
def test_a_damaged_table_of_branches_is_one_line(damage, tmp_path, capsys):
    file = tmp_path / "gymnasium-CartPole-v1-seed1.csv.gz"
    if damage == "pipe":
        os.mkfifo(file)
    else:
        content = {"bomb": bytes(2**26), "text": b"\xff\xfe", "columns": b"stage,step\n1,x,3\n"}[damage]
        file.write_bytes(gzip.compress(content))
    with hang_limit(20.0):
        assert main(["probe", "ucb", "--branches", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"adept: {file} ")
