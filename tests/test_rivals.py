"""The tables of benchmarks/rivals, growth.py and procgen.py, on rows whose figures are known; invented studies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adept.networks import Categorical
from adept.networks.images import ImpalaNetwork
from benchmarks import procgen
from benchmarks.growth import wide, with_growth
from benchmarks.rivals.__main__ import interpreter, merged
from benchmarks.rivals.table import text, verdict
from benchmarks.rivals.tasks import TASKS
from benchmarks.study_scale import invented, study_of


def row(task: str, side: str, speed: float, ratio: float) -> dict[str, Any]:
    return {
        "task": task, "side": side, "steps_per_processor_second": str(speed), "ratio_processor": str(ratio),
        "ratio_lowest": str(ratio - 0.1), "ratio_highest": str(ratio + 0.1), "ratio_clock": "1.5",
        "making_seconds": "1", "compilation_seconds": "2.04",
    }  # fmt: skip


ROWS = [
    row("cartpole", "ours", 1000.0, 1.0),
    row("cartpole", "cleanrl", 250.0, 4.0),
    row("cartpole", "sbx", 400.0, 2.5),
    row("cartpole", "rlox-rust", 800.0, 1.25),
    row("cartpole", "rejax", 4000.0, 0.25),
    row("doorkey", "ours", 600.0, 1.0),
    row("doorkey", "cleanrl", 100.0, 6.0),
]


def test_whoever_is_faster_is_said_first_and_other_environments_are_not_called_the_same() -> None:
    faster, cleanrl, closest = verdict(ROWS)
    assert faster == "Faster than ours: rejax (JAX) on cartpole (4.0 ×)."
    assert "4.0 to 6.0 × the steps of CleanRL's loop" in cleanrl
    assert closest == "The closest it is ahead of is sbx (JAX) on cartpole (2.5 ×)."


def test_nobody_is_called_faster_where_nobody_is() -> None:
    assert not any("Faster" in line for line in verdict(ROWS[:4]))


def test_a_task_has_a_table_with_the_fastest_first() -> None:
    lines = [line for line in text(ROWS).split("## doorkey")[0].splitlines() if line.startswith("| ")][2:]
    assert [line.split(" | ")[1] for line in lines] == ["4,000", "1,000", "800", "400", "250"]
    assert "| 4.00 (3.9 to 4.1) | 1.50 | 1.0 | 2.0 |" in lines[-1]
    assert "## halfcheetah" not in text(ROWS)


def test_rows_of_other_sides_and_tasks_stay_and_ours_goes_only_with_all_of_a_task() -> None:
    task = TASKS["doorkey-cnn"]  # ours and cleanrl
    cartpole = TASKS["cartpole"]
    again, late = row("cartpole", "ours", 1500.0, 1.0), row("cartpole", "sample_factory", 200.0, 7.5)
    rows = merged(cartpole, ROWS, [again, late])
    assert [each["side"] for each in rows] == [
        "ours", "cleanrl", "sbx", "rlox-rust", "sample_factory", "rejax", "ours", "cleanrl",
    ]  # fmt: skip
    assert rows[0] == ROWS[0]
    assert rows[4] == late
    assert merged(cartpole, [], [again, late]) == [again, late]
    first = [row(task.name, "ours", 900.0, 1.0), row(task.name, "cleanrl", 300.0, 3.0)]
    second = [row(task.name, "ours", 800.0, 1.0), row(task.name, "cleanrl", 200.0, 4.0)]
    assert merged(task, merged(task, ROWS, first), second) == [*ROWS, *second]


def test_rows_from_before_the_pool_was_shared_are_marked() -> None:
    before, after = ({**ROWS[0], "time": f"2026-11-{day}T20:58:52Z"} for day in ("18", "19"))
    assert "its own Python code" in text([before, after])
    assert "its own Python code" not in text([after])


def test_what_cannot_be_built_is_named_and_what_is_built_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], check: bool) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(
        SystemExit, match=r"rejax cannot run: .*rivals-jax could not be built.*constraints/rivals-jax\.txt"
    ):
        interpreter("rejax", tmp_path)
    (tmp_path / "rivals-jax").mkdir()
    (tmp_path / "rivals-jax" / ".built").touch()
    assert interpreter("rejax", tmp_path) == tmp_path / "rivals-jax" / "bin" / "python"
    assert interpreter("ours", tmp_path) == Path(sys.executable)


def test_every_side_of_a_task_is_given_whole_minibatches() -> None:
    assert all(task.minibatches * task.minibatch_size == task.batch_size for task in TASKS.values())


def test_growth_is_the_exponent_within_what_grows() -> None:
    sizes = (("environments", 1, 2.0), ("environments", 10, 2.0), ("environments", 100, 200.0), ("parameters", 9, 1.0))
    rows = with_growth([{"grows": g, "size": n, "seconds_per_iteration": s} for g, n, s in sizes])
    assert [each.get("exponent") for each in rows] == [None, pytest.approx(0.0), pytest.approx(2.0), None]


def test_invented_studies_have_as_many_runs_as_are_asked_for() -> None:
    for runs in (1, 10, 100, 1000):
        study = study_of(runs, 20)
        assert len(study.tasks) * len(study.methods) * len(study.seeds) == runs
        columns = invented(study.config(study.baseline, study.tasks[0], 1), np.random.default_rng(0))
        assert {len(values) for values in columns.values()} == {20}


def test_a_wide_network_has_the_parameters_counted_by_hand() -> None:
    network = wide(10)((4,), Categorical(2))
    assert sum(each.numel() for each in network.parameters()) == 2 * (5 * 10 + 11 * 10) + 11 * 2 + 11


def test_a_way_is_compared_with_what_there_is_round_by_round_without_the_first_call() -> None:
    def seconds(sampling: float, epoch: float) -> dict[str, float]:
        parts = {"sampling": sampling, "epoch": epoch}
        return {f"{part}_{clock}": value for part, value in parts.items() for clock in procgen.CLOCKS}

    plain = [seconds(9.0, 9.0), seconds(1.0, 3.0), seconds(1.0, 5.0), seconds(2.0, 6.0)]
    found = procgen.row("compiled", [seconds(20.0, 10.0), *[seconds(1.0, 1.0)] * 3], plain)
    assert [found[f"ratio_{clock}"] for clock in procgen.CLOCKS] == [3.0, 3.0, 3.0]
    assert (found["ratio_thread_lowest"], found["ratio_thread_highest"]) == (2.0, 4.0)
    assert (found["ratio_sampling_thread"], found["ratio_epoch_thread"]) == (1.0, 5.0)
    assert found["first_call_processor"] == 28.0


def test_the_ways_of_procgens_network_compute_the_same() -> None:
    torch.manual_seed(0)
    network = ImpalaNetwork((3, 64, 64), Categorical(15))
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    ways = procgen.ways(network)
    (logits, values), contiguous = ways[procgen.PLAIN](images), ways["contiguous"](images)
    torch.testing.assert_close(contiguous, (logits, values))
    rounded = ways["bfloat16"](images)
    assert rounded[0].dtype == torch.float32
    torch.testing.assert_close(rounded, (logits, values), atol=0.02, rtol=0.0)
