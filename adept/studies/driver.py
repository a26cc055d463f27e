"""Carry out a study: declare it in its folder, hand the cells that remain to an engine, and follow them."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from adept.envs import make_environments
from adept.runs.records import write_aside
from adept.studies.engines import Engine
from adept.studies.grid import Study, parse_study, require_continuation
from adept.studies.progress import Progress
from adept.studies.results import StudyResults, load_results, results_of
from adept.studies.work import Job, Settings


def run_study(study: Study, directory: Path, engine: Engine, settings: Settings | None = None) -> StudyResults:
    """Start or continue a study in a folder; return its results when every cell is done or has failed for good.

    Ctrl-C or SIGTERM lets the runs finish their iteration and save, then raises `KeyboardInterrupt`; the same call
    continues. Cells that failed before are tried again.
    """
    check_continuation(study, directory)
    check_tasks(study)
    with held(directory), interrupted_by_terminate():
        check_continuation(study, directory)
        write_aside(directory / "study.toml", study.text)
        results = results_of(study, directory)
        jobs = jobs_of(results)
        if jobs:
            with Progress(results, jobs, engine.description) as progress:
                events = engine.run(jobs, settings or Settings())
                with contextlib.closing(events):  # type: ignore[type-var]
                    for event in events:
                        progress.show(event)
    return load_results(directory)


def jobs_of(results: StudyResults) -> list[Job]:
    """Return the cells that are not done, in their order: seed by seed, so that what is done can be compared."""
    study = results.study
    return [
        Job(*cell.key, cell.path.absolute(), cell.config, study.until, study.iterations(cell.task))
        for cell in results.cells
        if cell.state != "done"
    ]


def check_continuation(study: Study, directory: Path) -> None:
    """Refuse a folder that holds something else, before anything is written."""
    file = directory / "study.toml"
    if file.exists():
        require_continuation(parse_study(file.read_text(encoding="utf-8"), str(file)), study, str(directory))
    elif directory.exists() and (not directory.is_dir() or {file.name for file in directory.iterdir()} - {"runs"}):
        raise ValueError(f"{directory} exists and is no study's folder; choose another --out")


def check_tasks(study: Study) -> None:
    """Make every environment once: a wrong name or a missing extra shall leave nothing behind."""
    for task in study.tasks:
        make_environments(study.config(study.baseline, task, study.seeds[0]), count=1).close()


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a study's folder, so that a second driver is refused."""
    try:
        (directory / "runs").mkdir(parents=True, exist_ok=True)
        lock = open(directory / "runs" / "lock", "w")  # noqa: SIM115 - held for as long as the study runs
    except OSError as error:
        raise ValueError(f"cannot write {directory}: {error.strerror}; choose another --out") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"the study in {directory} is being run by another process; wait or stop it") from None
        yield


@contextlib.contextmanager
def interrupted_by_terminate() -> Iterator[None]:
    """Let SIGTERM stop a study as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)
