"""One cell's work, the same in every engine: wait until the run is free, then start or continue it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adept.config import Execution
from adept.runs.energy import measured_energy
from adept.runs.imports import import_trusted, named_code
from adept.runs.records import CHECKPOINT_SECONDS, RunFolder, read_status
from adept.runs.safe_io import LARGEST_TABLE, open_foreign
from adept.studies.results import Cell, state_of

PATIENCE_SECONDS = 60.0
"""How long a run held by another process is waited for: one whose driver or node was lost lets go soon."""


@dataclass(frozen=True)
class Settings:
    """How cells are carried out."""

    execution: Execution = field(default_factory=Execution)
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    test_episodes: int | None = None
    """episodes on test levels at the end of a run; by default 100 where there are such levels"""
    energy: bool = False
    trust: bool = False
    """import the code that the study's file names: schedulers and environments as package.module:Name"""
    folder: Path = field(default_factory=Path.cwd)
    """where runs find files by relative names, and that code"""
    command: tuple[str, ...] = ()
    """the command that started the study, for the records"""


def run_cell(cell: Cell, settings: Settings, on_record: Callable[[], None] = lambda: None) -> str:
    """Start or continue a cell's run, and return the state that it ends in."""
    from adept.runs.runner import run_one  # here, so that a driver needs no PyTorch to list or monitor cells

    import_trusted(named_code(cell.config), settings.trust, f"the study's {cell}", settings.folder)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while read_status(cell.path)["state"] == "running" and time.monotonic() < deadline:
        time.sleep(0.2)
    if settings.command:
        sys.argv = list(settings.command)
    with measured_energy(cell.path, enabled=settings.energy) as tick:

        def record(row: Any) -> None:
            tick()
            on_record()

        summary = run_one(
            cell.config, cell.path, settings.execution, on_record=record, test_episodes=settings.test_episodes,
            checkpoint_seconds=settings.checkpoint_seconds, until=cell.iterations * cell.config.batch_size,
        )  # fmt: skip
    return state_of(summary, cell.iterations, cell.config)


def mark_failed(cell: Cell, error: str | None) -> None:
    """Write the error into the run's status, unless the folder is another run's or another process holds it."""
    with contextlib.suppress(ValueError), contextlib.closing(RunFolder(cell.path, cell.config)) as folder:
        folder.set_status("failed", error=error)


def last_iteration(path: Path) -> int:
    """Return the iteration of the last whole row of a run, reading only the file's end."""
    try:
        with open_foreign(path / "iterations.csv", LARGEST_TABLE) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4096))
            lines = file.read().split(b"\n")[:-1]
        return int(float(lines[-1].split(b",")[0]))
    except (OSError, ValueError, IndexError, OverflowError):
        return 0
