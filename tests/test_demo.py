from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from adept.cli import main
from adept.commands.demo import plot, side_by_side
from adept.hindsight.advice import advise
from adept.report.power import smallest_p
from adept.runs.records import read_iterations
from adept.runs.summary import summary
from adept.studies.grid import load_study

pytest.importorskip("envpool")

STUDY = """
name = "small"
title = "A small demo"
tasks = ["minigrid/Empty-5x5"]
seeds = 1
baseline = "fixed-2"
differs = ["scheduler", "scheduler_options", "epochs", "arms"]

[base]
algo = "ppo"
steps = 8192
monitor_every = 5

[[methods]]
name = "fixed-2"
label = "PPO (K=2)"
scheduler = "fixed"
epochs = 2

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
    assert "Advice on PPO (K=2) on minigrid/Empty-5x5 (1 run):\nUpdates move the policy" in said
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


@pytest.mark.slow
def test_the_demo_draws_every_start_and_says_what_a_bandit_chose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axis = '[axis]\nslow = { learning_rate = "preset/30", label = "÷ 30" }\nusual = { label = "× 1" }\n\n[[methods]]'
    text = STUDY.replace("[[methods]]", axis, 1).replace(
        '"fixed-2"\ndiffers = [', '"fixed-2.usual"\ndiffers = ["learning_rate", '
    )
    (tmp_path / "small.toml").write_text(text.replace("seeds = 1", 'seeds = 1\ncriterion = "mean-score"'))
    arguments = ["demo", "--study", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert re.search(r"\|[o+].*\n.* ÷ 30 +× 1\n +o PPO \(K=2\)   \+ PPO\+ADEPT\(R\)\n", said, re.S)
    assert "\nPPO+ADEPT(R) is above PPO (K=2) at 0 of 2 values and below at 0.\n" in said
    assert "\nPPO+ADEPT(R) against PPO (K=2), mean score over the run: not shown to differ at ÷ 30 (" in said
    # Round-robin: 2, 1, 2, 1.
    assert "\nPPO+ADEPT(R), ÷ 30 chose K=2 in 50%, K=1 in 50% of its updates: 75% of the update FLOPs.\n" in said
    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [(point["line"], point["value"]) for point in result["axis"]] == [
        (line, value) for line in ("PPO (K=2)", "PPO+ADEPT(R)") for value in ("÷ 30", "× 1")
    ]
    returns = [row["mean_return"] for row in result["methods"]]
    assert [point["score"][0] for point in result["axis"]] == pytest.approx(returns, rel=1e-4)
    assert [row["choices"] for row in result["methods"]] == [{}, {}, {"2": 0.5, "1": 0.5}, {"2": 0.5, "1": 0.5}]


def test_the_plot_has_a_mark_per_place_and_dots_between() -> None:
    drawn = plot({"fixed": [0.0, 10.0, 0.0], "other": [10.0, 10.0, 5.0]}, ["÷ 10", "× 1", "× 10"], width=13, height=3)
    assert drawn.splitlines() == [
        "      10 |+.....+...",
        "         |  ...   ....+",
        "       0 |o.         .o",
        "        ÷ 10   × 1  × 10",
        "          o fixed   + other",
    ]


def test_the_plot_of_equal_values_is_a_line() -> None:
    assert plot({"one": [3.0, 3.0]}, ["a", "b"], width=5, height=2).splitlines()[0] == "       3 |o...o"


def test_the_demo_has_the_seeds_that_its_tests_need() -> None:
    study = load_study("demo")
    values = {method.axis[1] for method in study.methods if method.axis}
    rivals = len(study.methods) - 1, len(study.methods) - len(values)  # of the baseline; of it at the same start
    assert all(smallest_p(len(study.seeds), len(study.tasks), tests) < 0.05 for tests in rivals)


def test_the_updates_of_several_runs_are_judged_together() -> None:
    """Two runs of 40 iterations with 4 epochs; the slopes are 1 in one and 3 in the other, so 2 in the mean."""
    length = np.arange(1.0, 41.0)
    columns = {"step": 100 * length, "epochs_done": np.full(40, 4.0), "flops": 1000 * length}
    slopes = [np.where(length > 1, value, np.nan) for value in (1.0, 3.0)]
    pooled = side_by_side([{**columns, "slope_z": slope, "update_gain": slope / 100} for slope in slopes])
    assert pooled["step"][:4].tolist() == [100, 100, 200, 200]
    assert pooled["slope_z"][2:5].tolist() == [1, 3, 1]
    assert pooled["flops"][-1] == 80_000
    advice = advise(pooled)
    assert advice.whole.updates == 78
    assert advice.whole.slope.value == pytest.approx(2)
    assert advice.whole.slope.error == pytest.approx(np.std([1, 3] * 39, ddof=1) / np.sqrt(78))
    # of 27, 27 and 26 rows; the first two judge nothing
    assert [stage.updates for stage in advice.stages] == [25, 27, 26]
