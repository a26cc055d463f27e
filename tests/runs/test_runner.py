from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adept.config import Config, Execution
from adept.runs.checkpoints import load_checkpoint
from adept.runs.records import RunFolder, read_iterations, read_status
from adept.runs.runner import run_one
from adept.runs.safe_io import is_locked
from tests.faults.kills import lines_of as rows
from tests.faults.kills import require_equal

REFERENCE = Execution(fast=False)


def small(env: str = "gymnasium/tiny/Identity-v0", **settings: Any) -> Config:
    base: dict[str, Any] = {
        "environments": 4, "rollout_length": 16, "minibatch_size": 32, "steps": 64 * 12, "scheduler": "thompson",
        "arms": (3, 1), "normalize_rewards": True, "restart_every": 5, "network": "auto",
    }  # fmt: skip
    return Config(env=env, **base | settings)


class Stop(Exception):
    pass


def stop_after(iteration: int) -> Any:
    def on_record(record: dict[str, float]) -> None:
        if record["iteration"] == iteration:
            raise Stop

    return on_record


@pytest.mark.parametrize(
    "config",
    [
        small(),
        small(normalize_observations=True, scheduler="ucb"),
        small("gymnasium/tiny/Follow-v0", normalize_observations=True),
        small("minigrid/DoorKey-5x5", network="minigrid"),
    ],
    ids=["discrete", "normalised", "continuous", "envpool"],
)
@pytest.mark.parametrize("iteration", [3, 5, 8])
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path: Path, config: Config, iteration: int) -> None:
    """Stopped within, at and after a restart of the environments; every column but the clock's is the same."""
    run_one(config, tmp_path / "whole", REFERENCE)
    with pytest.raises(Stop):
        run_one(config, tmp_path / "cut", REFERENCE, on_record=stop_after(iteration), checkpoint_seconds=0)
    assert read_status(tmp_path / "cut")["state"] == "failed"
    run_one(config, tmp_path / "cut", REFERENCE)
    require_equal(tmp_path / "cut", tmp_path / "whole")


def test_rows_after_the_checkpoint_come_again_once(tmp_path: Path) -> None:
    """A checkpoint at iteration 1, three more rows after it: the resumed run has every row once."""
    config = small()
    with pytest.raises(Stop):
        run_one(config, tmp_path / "a", REFERENCE, on_record=stop_after(1), checkpoint_seconds=0)
    with pytest.raises(Stop):
        run_one(config, tmp_path / "a", REFERENCE, on_record=stop_after(4), checkpoint_seconds=1e9)
    assert len(read_iterations(tmp_path / "a")["step"]) == 4
    run_one(config, tmp_path / "a", REFERENCE)
    assert read_iterations(tmp_path / "a")["iteration"].tolist() == list(range(1, 13))


COMMAND = [sys.executable, "-m", "adept.cli", "train", "--env", "gymnasium/CartPole-v1", "--scheduler", "ucb",
           "--steps", "131072", "--no-fast", "--json"]  # fmt: skip


def start(out: Path, *extra: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "--out", str(out), *extra]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_rows(run: subprocess.Popen[str], out: Path, count: int) -> Path:
    while run.poll() is None:
        found = list(out.glob("*/*/iterations.csv"))
        if found and len(found[0].read_text().splitlines()) > count:
            return found[0].parent
        time.sleep(0.05)
    raise AssertionError("the run ended before it had so many rows")


@pytest.mark.slow
def test_ctrl_c_saves_and_the_same_command_continues(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole")
    asked = start(tmp_path / "asked", "--checkpoint-seconds", "1e9")
    path = wait_for_rows(asked, tmp_path / "asked", 5)
    asked.send_signal(signal.SIGINT)
    out, err = asked.communicate(timeout=600)
    assert asked.returncode == 130, err
    assert "the same command continues" in err
    assert json.loads(out)["state"] == "interrupted"
    saved = len(read_iterations(path)["step"])
    checkpoint = load_checkpoint(path)
    assert checkpoint is not None
    assert checkpoint[0]["iteration"] == saved >= 5
    last = start(tmp_path / "asked")
    out, err = last.communicate(timeout=600)
    assert last.returncode == 0, err
    assert f"continuing after iteration {saved}" in err
    whole.communicate(timeout=600)
    assert rows(path) == rows(next(tmp_path.glob("whole/*/*")))


def test_no_process_is_started_while_the_folder_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child between fork and exec shares the lock: a run killed then would count as running for a moment."""
    path = tmp_path / "run"
    held: list[bool] = []
    popen = subprocess.Popen

    def started(*arguments: Any, **options: Any) -> Any:
        held.append(is_locked(path / "lock"))
        return popen(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", started)
    run_one(small(), path, REFERENCE)
    assert held
    assert not any(held)


def test_a_finished_run_is_never_overwritten(tmp_path: Path) -> None:
    summary = run_one(small(), tmp_path / "run", REFERENCE)
    assert summary["state"] == "done"
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}
    assert run_one(small(), tmp_path / "run", REFERENCE) == summary
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}


def test_a_folder_of_another_run_or_another_process_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", small())
    with pytest.raises(ValueError, match="another process"):
        RunFolder(tmp_path / "run", small())
    assert read_status(tmp_path / "run")["state"] == "missing"
    folder.set_status("running")
    assert read_status(tmp_path / "run")["state"] == "running"
    folder.close()
    assert read_status(tmp_path / "run")["state"] == "interrupted"
    with pytest.raises(ValueError, match="another configuration"):
        RunFolder(tmp_path / "run", small(seed=7))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot write"):
        RunFolder(tmp_path / "file" / "run", small())


def test_a_failed_run_says_why_and_keeps_its_rows(tmp_path: Path) -> None:
    config = small("gymnasium/tiny/Poison-v0", environments=1, rollout_length=64, minibatch_size=64, steps=1280)
    with pytest.raises(ValueError, match="not finite"):
        run_one(config, tmp_path / "run", REFERENCE)
    status = read_status(tmp_path / "run")
    assert status["state"] == "failed"
    assert "not finite" in status["error"]
    assert len(read_iterations(tmp_path / "run")["step"]) >= 1


def events_of(path: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path))
    events.Reload()
    return events


def test_the_speed_after_a_resume_is_of_what_came_after_it(tmp_path: Path) -> None:
    run_one(small(), tmp_path, REFERENCE, until=64 * 3)
    run_one(small(), tmp_path, REFERENCE)
    columns = read_iterations(tmp_path)
    found = {event.step: event.value for event in events_of(tmp_path).Scalars("charts/SPS")}
    speeds = np.diff(columns["step"], prepend=0) / np.diff(columns["seconds"], prepend=0)
    assert found == pytest.approx(dict(zip(columns["step"], speeds, strict=True)), rel=1e-4)


def test_tensorboard_has_the_tags_people_expect(tmp_path: Path) -> None:
    run_one(small(), tmp_path / "run", REFERENCE)
    events = events_of(tmp_path / "run")
    tags = set(events.Tags()["scalars"])
    assert {"charts/episodic_return", "charts/SPS", "losses/policy_loss", "adept/epochs", "adept/reward"} <= tags
    columns = read_iterations(tmp_path / "run")
    assert [event.step for event in events.Scalars("adept/epochs")] == columns["step"].tolist()
    assert [event.value for event in events.Scalars("adept/epochs")] == columns["epochs"].tolist()
    machine = json.loads((tmp_path / "run" / "machine.json").read_text())
    assert machine["starts"][0]["packages"]["numpy"] == np.__version__


def test_tensorboard_shows_the_slope_and_the_scale_of_hindsight(tmp_path: Path) -> None:
    """`adept train --scheduler hindsight`, read back from the event file: every finite number of the records."""
    from adept.cli import main

    words = "train --env gymnasium/CartPole-v1 --scheduler hindsight --steps 3072 --quiet --monitor-every 4"
    assert main([*words.split(), "--out", str(tmp_path)]) == 0
    (file,) = tmp_path.rglob("events.out.tfevents.*")
    events = events_of(file.parent)
    columns = read_iterations(file.parent)
    for name, tag in {
        "slope_z": "adept/slope_z", "lr_scale": "adept/lr_scale", "critic_lr_scale": "adept/critic_lr_scale",
        "update_gain": "adept/update_gain", "gain/4": "adept/gain/4", "gain/x2": "adept/gain/x2",
        "rule_distance": "adept/rule_distance", "monitor_flops": "adept/monitor_flops",
    }.items():  # fmt: skip
        known = np.isfinite(columns[name])
        assert known.any()
        assert [event.step for event in events.Scalars(tag)] == columns["step"][known].tolist()
        assert [event.value for event in events.Scalars(tag)] == columns[name][known].astype(np.float32).tolist()
