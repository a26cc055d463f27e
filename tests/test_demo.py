from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from adept.cli import main
from adept.runs.records import read_iterations
from adept.runs.summary import summary

pytest.importorskip("envpool")

STUDY = """
name = "small"
title = "A small demo"
tasks = ["minigrid/Empty-5x5"]
seeds = 1
baseline = "fixed-2"
differs = ["scheduler", "scheduler_options", "arms"]

[base]
algo = "ppo"
steps = 8192

[[methods]]
name = "fixed-2"
label = "PPO (K=2)"
scheduler = "fixed"
arms = [2]

[[methods]]
name = "turns"
label = "PPO+ADEPT(R)"
scheduler = "round-robin"
arms = [2, 1]
"""


@pytest.mark.slow
def test_demo_ends_in_a_table_advice_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.toml").write_text(STUDY)
    arguments = ["demo", "--study", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "PPO+ADEPT(R)" in said
    assert (tmp_path / "out" / "report" / "report.html").stat().st_size > 10_000
    assert "What the updates of PPO (K=2) on minigrid/Empty-5x5, seed 1, were worth:\nNo update was judged" in said
    shown = next(Path(line.split()[-1]) for line in said.splitlines() if line.startswith("The page"))
    assert shown == tmp_path / "out" / "report" / "report.html"
    assert main([*arguments, "--json"]) == 0  # everything is done: it only reads
    result = json.loads(capsys.readouterr().out)
    # Four iterations: 2 epochs each, and 2, 1, 2, 1.
    assert [row["epochs"] for row in result["methods"]] == [8, 6]
    run = next((tmp_path / "out" / "runs").glob("*/turns/*"))
    assert result["methods"][1]["flops"] == summary(run)["flops"]
    # The mean return over the run: heights of the curve between equally spaced points, from the first known one.
    heights = read_iterations(run)["score"]
    heights = heights[np.isfinite(heights)]
    expected = (heights[:-1] + heights[1:]).mean() / 2 if len(heights) > 1 else heights[0]
    assert result["methods"][1]["mean_return"] == pytest.approx(expected)
    # Updates alone: 6 of 8 epochs, and no measurement in so few iterations.
    assert [row["update_flops"] for row in result["methods"]] == [1, pytest.approx(0.75)]
    assert main(["report", str(tmp_path / "out"), "--check"]) == 0
    # Packed into one file, without its runs, the study gives the same report, byte for byte.
    assert main(["study", "pack", str(tmp_path / "out")]) == 0
    shutil.rmtree(tmp_path / "out" / "runs")
    assert main(["report", str(tmp_path / "out"), "--check"]) == 0
    (tmp_path / "out" / "report" / "tables" / "methods.csv").write_text("bent")
    assert main(["report", str(tmp_path / "out"), "--check"]) == 1
    assert "methods.csv no longer follows" in capsys.readouterr().err
