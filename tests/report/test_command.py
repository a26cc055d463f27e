"""`adept report` from the command line, on what `adept train` leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adept.cli import main

pytest.importorskip("matplotlib")

TRAIN = "train --env gymnasium/CartPole-v1 --steps 2560 --epochs 2 --quiet"


def test_advice_to_raise_the_learning_rate_can_be_followed_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Train, train again with another --lr, report on the folder: both stand side by side, and nothing is averaged."""
    for rate, seed, more in (("0.001", 1, ""), ("0.001", 2, "--no-monitor"), ("0.003", 1, ""), ("0.003", 2, "")):
        words = [*TRAIN.split(), "--lr", rate, "--seed", str(seed), *more.split(), "--out", str(tmp_path)]
        assert main(words) == 0
    capsys.readouterr()
    assert main(["report", str(tmp_path), "--resamples", "100", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {(method["name"], method["done"]) for method in facts["methods"]} == {
        ("learning_rate=0.001", 2), ("learning_rate=0.003", 2)
    }  # fmt: skip
    assert facts["baseline"] == "learning_rate=0.001"
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert page.count("learning_rate=0.001</th>") > 1
    assert page.count("learning_rate=0.003</th>") > 1


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["report", str(tmp_path / "file")]) == 2
    assert "file is a file" in capsys.readouterr().err
