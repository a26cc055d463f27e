"""The table of the study full-budget, on records whose figures are known."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from adept import cost
from adept.presets import preset
from experiments.full_budget.page import read, rows

TASK, SEEDS = "envpool/Hopper-v4", (401, 402)


def results(finals, spent):
    """Two methods, two iterations each: the score rises from 0; a final of None is a run that is not done."""
    config = replace(preset(TASK, scheduler="fixed"), steps=2 * 2048, monitor=False)
    passes = cost.iteration(config, 10) + cost.iteration(config, 5)  # 10 epochs, then 5
    cells, curves = [], {}
    for method in ("preset", "ours"):
        for seed, final in zip(SEEDS, finals[method], strict=True):
            cell = SimpleNamespace(task=TASK, method=method, seed=seed, config=config,
                                   state="missing" if final is None else "done")  # fmt: skip
            cells.append(cell)
            curves[method, seed] = {
                "score": np.array([0.0, final or 0.0]),
                "epochs_done": np.array([10.0, 5.0]),
                "flops": np.array([cost.iteration(config, 10), passes]) * 1000.0 * spent[method],
                "processor_seconds": np.array([1.0, 50.0 * spent[method]]),
            }
    methods = [SimpleNamespace(name=name) for name in ("preset", "ours")]
    return SimpleNamespace(
        study=SimpleNamespace(tasks=(TASK,), methods=methods, seeds=SEEDS), cells=cells,
        curve=lambda cell: curves[cell.method, cell.seed],
    )  # fmt: skip


def test_scores_and_costs_by_hand():
    found = read(results({"preset": (100, 102), "ours": (200, None)}, {"preset": 1, "ours": 2}))
    assert found[TASK, "preset"].final.tolist() == [100, 102]
    assert found[TASK, "preset"].mean.tolist() == [50, 51]
    assert found[TASK, "ours"].seconds[0] == 100
    assert math.isnan(found[TASK, "ours"].final[1])
    # An update of the preset is 15 epochs of 3 passes over 2048 rows, at 1000 FLOPs a pass.
    assert found[TASK, "preset"].flops == pytest.approx([15 * 3 * 2048 * 1000.0] * 2)
    # Two seeds 2 apart: 101 ± 12.706 · √2/√2.
    assert rows(found, "preset", str.upper) == [
        ["Hopper-v4", "PRESET", "101 [88, 114]", "50 [44, 57]", "100 %", "100 %"],
        ["Hopper-v4", "OURS", "200 (n = 1)", "100 (n = 1)", "200 %", "200 %"],
    ]


def test_methods_without_a_run_have_no_row_and_no_baseline_no_costs():
    found = read(results({"preset": (None, None), "ours": (200, 202)}, {"preset": 1, "ours": 1}))
    assert rows(found, "preset", str) == [["Hopper-v4", "ours", "201 [188, 214]", "100 [94, 107]", "", ""]]
