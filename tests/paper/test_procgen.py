"""What monitored updates were worth, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from adept.config import Config
from adept.report.analysis import analyze
from adept.report.comparison import ComparedMethod, Comparison, Run
from paper.procgen import cells, monitor_block
from paper.words import NOT_RUN

NONE = np.nan
GAME = "procgen/bigfish"


def run(method: str, **columns: list[float]) -> Run:
    steps = np.arange(1.0, 5.0)
    epochs = np.full(4, 3.0)
    monitored = {name.replace("gain_", "gain/"): np.array(values) for name, values in columns.items()}
    flops = (2.0 if method == "hindsight" else 4.0) * steps
    return Run(method, GAME, 1, "done", steps=steps, score=np.array([NONE, 1.0, 2.0, 3.0]), flops=flops,
               update_flops=flops, epochs=epochs, epochs_done=epochs, monitored=monitored)  # fmt: skip


FIXED = run(
    "fixed",
    slope_z=[NONE, 1.0, 2.0, 3.0],
    gain_1=[NONE, 0.01, 0.02, 0.03],
    gain_2=[NONE, 0.02, 0.02, 0.05],
    gain_3=[NONE, 0.02, 0.04, 0.05],
    gain_x2=[NONE, 0.03, 0.02, 0.04],
    update_gain=[NONE, 0.02, 0.04, 0.05],
    critic_slope=[NONE, 0.5, NONE, 1.5],
)
# By hand: 1, 2, 3 have mean 2 and standard error 1/sqrt(3) = 0.58. The second epoch adds 1, 0, 2: 1 ± 0.58. The third
# adds 0, 2, 0: 2/3 ± 2/3. Twice the step adds 1, -2, -1: -2/3 ± sqrt(7)/3 = 0.88. The critic's 0.5 and 1.5: 1 ± 0.5.


def test_what_an_epoch_adds_is_measured_update_by_update():
    assert list(cells(FIXED)) == ["3", "+2.00 ± 0.58", "+2.00 ± 0.58 %", "+1.00 ± 0.58 %", "+0.67 ± 0.67 %",
                                  "-0.67 ± 0.88 %", "+1.00 ± 0.50", "1", "2.00", "3.00"]  # fmt: skip


def test_a_row_for_each_run_and_the_advice_of_the_fixed_one():
    hindsight = run("hindsight", slope_z=[NONE, 1.0, NONE, NONE], lr_scale=[1.0, 1.0, 1.5, 2.25], gain_1=[NONE] * 4)
    config = Config(env=GAME, scheduler="fixed", epochs=3)
    methods = (ComparedMethod("fixed", "PPO (K=3)", config, "s"),
               ComparedMethod("hindsight", "hindsight", replace(config, scheduler="hindsight"), "s"))  # fmt: skip
    compared = Comparison("", methods, (GAME,), (FIXED, hindsight), "fixed", {GAME: 4.0}, ())
    evidence = SimpleNamespace(comparison=compared, tasks=(GAME,), analysis=analyze(compared))
    lines = monitor_block(evidence).splitlines()  # type: ignore[arg-type]
    assert lines[2].startswith("| bigfish | PPO (K=3) | 3 | +2.00 ± 0.58 |")
    assert lines[2].endswith("| 100 % |")
    assert lines[3] == "| bigfish | hindsight | 1 | – | – | – | – | – | – | 2.25 | 2.00 | 3.00 | 50 % |"
    assert lines[-1] == "- PPO (K=3) on bigfish: Seed 1: Only 3 updates were judged: too few to say anything."
    # A run that is not there yet is counted.
    missing = replace(hindsight, state="missing")
    evidence.comparison = replace(compared, runs=(FIXED, missing))
    lines = monitor_block(evidence).splitlines()  # type: ignore[arg-type]
    assert lines[-1] == "1 of 2 runs are finished."
    assert not any("hindsight" in line for line in lines)


def test_nothing_is_said_without_runs():
    assert monitor_block(None) == NOT_RUN
