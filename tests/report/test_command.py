"""`adept report` from the command line, on what `adept train` leaves behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from adept.cli import main

pytest.importorskip("matplotlib")

TRAIN = "train --env gymnasium/CartPole-v1 --steps 2560 --epochs 2 --quiet"


def test_the_advice_of_a_run_is_followed_and_the_report_has_both_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate that is far too small: train, `adept advise`, train with the option that it names, `adept report`."""
    train = [*TRAIN.split(), "--seed", "1", "--out", str(tmp_path)]
    assert main([*train, "--learning-rate", "0.00003"]) == 0
    (first,) = tmp_path.rglob("config.json")
    capsys.readouterr()
    assert main(["advise", str(first.parent)]) == 0
    advice = capsys.readouterr().out
    option = re.search(r"Multiply the learning rate by 4 \(`(--learning-rate \S+)`\)", advice)
    assert option is not None, advice
    assert option[1] == "--learning-rate 0.00012"
    assert main([*train, *option[1].split()]) == 0
    capsys.readouterr()
    assert main(["report", str(tmp_path), "--resamples", "100", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [(method["name"], method["done"]) for method in facts["methods"]] == [
        ("learning_rate=3e-05", 1), ("learning_rate=0.00012", 1)
    ]  # fmt: skip
    readme = (tmp_path / "report" / "README.md").read_text(encoding="utf-8")
    assert "| learning\\_rate=3e-05 | 1/1 |" in readme
    assert "| learning\\_rate=0.00012 | 1/1 |" in readme


def test_two_learning_rates_stand_side_by_side_and_nothing_is_averaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two seeds of each rate; one of them is not monitored, which makes it no other method."""
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
