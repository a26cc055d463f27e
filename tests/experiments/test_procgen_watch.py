"""What monitored updates were worth, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adept.config import Config
from adept.report.comparison import ComparedMethod, Comparison, Run
from experiments.procgen_watch.page import cells, monitor_table

NONE = np.nan
GAME = "procgen/bigfish"


def run(method: str, **columns: list[float]) -> Run:
    steps = np.arange(1.0, 5.0)
    epochs = np.full(4, 3.0)
    monitored = {name.replace("gain_", "gain/"): np.array(values) for name, values in columns.items()}
    flops = (2.0 if method == "hindsight" else 4.0) * steps
    return Run(method, GAME, 1, "done", steps=steps, score=np.array([NONE, 1.0, 2.0, 3.0]), flops=flops,
               update_flops=flops, processor=flops, epochs=epochs, epochs_done=epochs, monitored=monitored)  # fmt: skip


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


def test_a_row_for_each_run() -> None:
    hindsight = run("hindsight", slope_z=[NONE, 1.0, NONE, NONE], lr_scale=[1.0, 1.0, 1.5, 2.25], gain_1=[NONE] * 4)
    config = Config(env=GAME, scheduler="fixed", epochs=3)
    methods = (ComparedMethod("fixed", "PPO (K=3)", config),
               ComparedMethod("hindsight", "hindsight", replace(config, scheduler="hindsight")))  # fmt: skip
    compared = Comparison("", methods, (GAME,), (FIXED, hindsight), "fixed", {GAME: 4.0}, ())
    lines = monitor_table(compared).splitlines()
    assert lines[2].startswith("| bigfish | PPO (K=3) | 3 | +2.00 ± 0.58 |")
    assert lines[2].endswith("| 100 % | 100 % |")
    assert lines[3] == "| bigfish | hindsight | 1 | – | – | – | – | – | – | 2.25 | 2.00 | 3.00 | 50 % | 50 % |"
