"""The local engine with real processes: what is killed is retried or continued, and no number changes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from adept.runs.records import read_status
from adept.runs.safe_io import take_lock
from adept.studies.driver import run_study
from adept.studies.engines import Event
from adept.studies.engines.local import LocalEngine
from adept.studies.grid import parse_study
from adept.studies.results import Cell, StudyResults, load_results
from adept.studies.work import Settings, last_iteration

from .conftest import ONE_TASK, OUTSIDE, SETTINGS, TASK, numbers, with_method

pytestmark = pytest.mark.slow

ITERATIONS = 400

DRIVER = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(OUTSIDE)!r})
from adept.config import Execution
from adept.studies.driver import run_study
from adept.studies.engines.local import LocalEngine
from adept.studies.grid import parse_study
from adept.studies.work import Settings
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    study = parse_study((folder / "declared.txt").read_text(), "t")
    settings = Settings(execution=Execution(device="cpu"), checkpoint_seconds=1e9)
    run_study(study, folder / "study", LocalEngine(2), settings)
"""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> StudyResults:
    study = parse_study(ONE_TASK.replace("steps = 512", f"steps = {64 * ITERATIONS}"), "t")
    return run_study(study, tmp_path_factory.mktemp("whole") / "study", LocalEngine(2), SETTINGS)


def under_way(made: list[int]) -> bool:
    """Return whether one of the first two runs is in its first half, so that a signal comes long before the end."""
    return sum(count > 0 for count in made) <= 2 and any(3 <= count < ITERATIONS // 2 for count in made)


def heed_ctrl_c() -> None:
    """Undo what a shell does to a command in the background, this test run perhaps: Ctrl-C is ignored there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def started_driver(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a study in a process of its own, whose only checkpoints are of stopping, and wait until it is under way."""
    (folder / "declared.txt").write_text(ONE_TASK.replace("steps = 512", f"steps = {64 * ITERATIONS}"))
    script = folder / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), str(folder)]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=heed_ctrl_c)
    try:
        deadline = time.monotonic() + 600
        while not under_way(iterations(folder)):
            assert driver.poll() is None, f"the driver ended with {driver.returncode}, runs at {iterations(folder)}"
            assert time.monotonic() < deadline, f"no run is under way: {iterations(folder)}"
            time.sleep(0.02)
        yield driver
    finally:
        driver.kill()
        driver.wait()


def iterations(folder: Path) -> list[int]:
    return [last_iteration(path.parent) for path in folder.glob("study/runs/*/*/*/iterations.csv")]


def assert_saved(results: StudyResults) -> None:
    """Whatever was under way has stopped, at the checkpoint that stopping made."""
    assert results.counts()["running"] == results.counts()["failed"] == 0
    stopped = [cell for cell in results.cells if cell.state == "interrupted" and last_iteration(cell.path) > 0]
    assert stopped
    for cell in stopped:
        made = last_iteration(cell.path)
        assert [file.name for file in (cell.path / "checkpoint").iterdir()] == [f"{made:08d}.npz"]
        assert read_status(cell.path)["iteration"] == made


def assert_equal(first: StudyResults, second: StudyResults) -> None:
    for cell in first.cells:
        assert numbers(first, *cell.key) == numbers(second, *cell.key)


class Nobody:
    """An engine that must be given nothing to do."""

    description = "nobody"
    here = True

    def run(self, cells: Sequence[Cell], settings: Settings) -> Iterator[Event | None]:
        assert not cells
        return iter(())


def test_a_study_runs_and_is_only_read_afterwards(uninterrupted, capsys):
    assert uninterrupted.counts()["done"] == 4
    cell = uninterrupted.cells[0]
    assert len(numbers(uninterrupted, *cell.key)["step"]) == ITERATIONS
    assert uninterrupted.starts(cell)[0]["command"] == "adept study tiny"
    run_study(uninterrupted.study, uninterrupted.directory, Nobody(), SETTINGS)
    assert len(uninterrupted.starts(cell)) == 1


def test_a_killed_worker_is_replaced_and_its_run_goes_on(outside, tmp_path, monkeypatch, capsys):
    mark = tmp_path / "kill"
    mark.touch()
    monkeypatch.setenv("ADEPT_TEST_KILL", str(mark))
    text = with_method(ONE_TASK.replace("seeds = 2", "seeds = 1"), "killed", "faulty_schedulers:KilledOnce")
    results = run_study(parse_study(text, "t"), tmp_path / "study", LocalEngine(2, retries=1), SETTINGS)
    assert not mark.exists()
    assert results.counts()["done"] == 3
    assert "worker was killed by SIGKILL; trying again" in capsys.readouterr().err
    killed = results.cell("killed", TASK, 1)
    assert [start["iteration"] for start in results.starts(killed)] == [0, 3]
    assert numbers(results, "killed", TASK, 1) == numbers(results, "round-robin", TASK, 1)


def test_a_run_that_keeps_failing_is_marked_and_the_others_go_on(outside, tmp_path, capsys):
    text = with_method(ONE_TASK.replace("seeds = 2", "seeds = 1"), "broken", "faulty_schedulers:Broken")
    results = run_study(parse_study(text, "t"), tmp_path / "study", LocalEngine(1, retries=1), SETTINGS)
    assert results.counts() == {"done": 2, "running": 0, "interrupted": 0, "failed": 1, "missing": 0}
    cell = results.cell("broken", TASK, 1)
    assert cell.error == "RuntimeError: the fourth choice is too hard (attempt 2 of 2)"
    assert len(results.starts(cell)) == 2


def test_ctrl_c_saves_and_the_same_command_continues(uninterrupted, tmp_path):
    with started_driver(tmp_path) as driver:
        driver.send_signal(signal.SIGINT)
        assert driver.wait(60) != 0
    stopped = load_results(tmp_path / "study")
    assert_saved(stopped)
    results = run_study(stopped.study, tmp_path / "study", LocalEngine(2), SETTINGS)
    assert results.counts()["done"] == 4
    assert_equal(results, uninterrupted)


def test_the_workers_of_a_killed_driver_save_and_end(uninterrupted, tmp_path):
    with started_driver(tmp_path) as driver:
        workers = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
        driver.wait()
    _, alive = psutil.wait_procs(workers, timeout=600)
    assert not alive
    stopped = load_results(tmp_path / "study")
    assert_saved(stopped)
    results = run_study(stopped.study, tmp_path / "study", LocalEngine(2), SETTINGS)
    assert_equal(results, uninterrupted)


def test_a_paused_study_continues_into_the_full_one(uninterrupted, tmp_path):
    text = ONE_TASK.replace("steps = 512", "steps = 6400\nlearning_rate_decay = true").replace("seeds = 2", "seeds = 1")
    short = parse_study(text.replace("seeds = 1", "seeds = 1\nuntil = 700").replace('"tiny"', '"short"'), "t")
    results = run_study(short, tmp_path / "study", LocalEngine(1), SETTINGS)
    assert results.counts()["done"] == 2
    assert numbers(results, "fixed-2", TASK, 1)["step"][-1] == 640
    full = run_study(parse_study(text, "t"), tmp_path / "study", LocalEngine(1), SETTINGS)
    at_once = run_study(parse_study(text, "t"), tmp_path / "other", LocalEngine(1), SETTINGS)
    assert full.counts()["done"] == 2
    assert_equal(full, at_once)
    with pytest.raises(ValueError, match="until the end → 700"):
        run_study(short, tmp_path / "study", LocalEngine(1), SETTINGS)


def test_what_cannot_run_leaves_nothing_behind(tmp_path):
    wrong = parse_study(ONE_TASK.replace("CartPole-v1", "CartPoll-v1"), "t")
    with pytest.raises(ValueError, match="CartPole"):
        run_study(wrong, tmp_path / "study", LocalEngine(1))
    assert not (tmp_path / "study").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(ValueError, match="is no study's folder"):
        run_study(parse_study(ONE_TASK, "t"), tmp_path / "mine", LocalEngine(1))
    assert os.listdir(tmp_path / "mine") == ["notes.txt"]


def test_a_second_driver_is_refused(study, tmp_path):
    with (
        take_lock(tmp_path / "study" / "runs" / "lock", "another study"),
        pytest.raises(ValueError, match=r"the study in .* is being written by another process"),
    ):
        run_study(study, tmp_path / "study", LocalEngine(1))


def plant(folder: Path, *names: str) -> Path:
    """Put modules into a folder that leave a file behind when they are imported; return that file."""
    trace = folder / "executed"
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(trace)!r}, 'a').write({name!r})\nraise SystemExit(77)\n")
    return trace


PLANTED = ("multiprocessing", "json", "numpy", "torch", "gymnasium", "rich", "codecarbon", "resource", "adept")


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.ray)])
def test_modules_in_the_current_folder_are_not_run_but_a_named_scheduler_is(tmp_path, engine):
    pytest.importorskip("ray" if engine == "ray" else "torch")
    trace = plant(tmp_path, *PLANTED)
    (tmp_path / "own.py").write_text("from adept import RoundRobin\n\nclass Mine(RoundRobin):\n    pass\n")
    (tmp_path / "s.toml").write_text(with_method(ONE_TASK.replace("seeds = 2", "seeds = 1"), "mine", "own:Mine"))
    source = str(Path(__file__).parent.parent.parent / "src")
    words = ["-c", "import sys; del sys.path[0]; from adept.cli import main; sys.exit(main())",
             "study", "s.toml", "--out", "study", "--engine", engine, "--workers", "1", "--device", "cpu"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": source}
    done = [
        subprocess.run([sys.executable, *words, *more], cwd=tmp_path, env=environment, capture_output=True, text=True,
                       check=False)
        for more in ([], ["--trust"])
    ]  # fmt: skip
    assert "names code to import: own:Mine" in done[0].stderr
    assert not trace.exists(), trace.read_text()
    assert done[1].returncode == 0, done[1].stderr
    assert load_results(tmp_path / "study").counts()["done"] == 3
