"""A run's folder: configuration, iterations, evaluations, machine, checkpoints and status, safe against any kill.

Files are written aside and renamed, or appended to; nothing that was written is ever lost to an interruption.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import logging
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from adept.config import Config

SCHEMA = 1
KEEP_CHECKPOINTS = 2
STATES = ("running", "interrupted", "failed", "done")

Array = npt.NDArray[Any]
log = logging.getLogger("adept")


class RunFolder:
    """Write a run's folder. One process at a time: a second one is refused."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self._rows: IO[str] | None = None
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = open(path / "lock", "w")  # noqa: SIM115 - held for as long as the run is
        except OSError as error:
            raise ValueError(f"cannot write the run's folder {path}: {error.strerror}; choose another --out") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise ValueError(f"the run in {path} is being written by another process; wait or stop it") from None
        if (path / "config.json").exists():
            if read_config(path) != config:
                self.close()
                raise ValueError(f"{path} holds a run of another configuration; choose another --out")
        else:
            text = json.dumps({"schema": SCHEMA, **json.loads(config.to_json())}, indent=2, sort_keys=True) + "\n"
            write_aside(path / "config.json", text)

    def append(self, record: Mapping[str, float]) -> None:
        """Add the row of one iteration."""
        if self._rows is None:
            path = self.path / "iterations.csv"
            new = not path.exists()
            self._rows = open(path, "a", newline="")  # noqa: SIM115 - open for as long as rows come
            if new:
                self._rows.write(_line(record))
        self._rows.write(_line(_text(value) for value in record.values()))
        self._rows.flush()

    def truncate(self, iteration: int) -> None:
        """Drop the rows after an iteration: they came after the checkpoint, and will come again, equal."""
        path = self.path / "iterations.csv"
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        if not path.exists():
            return
        if iteration == 0:
            path.unlink()
            return
        header, *lines = path.read_text().splitlines(keepends=True)
        write_aside(path, "".join([header, *lines[:iteration]]))

    def save_checkpoint(self, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Write a checkpoint aside, move it into place, then remove all but the newest ones."""
        folder = self.path / "checkpoint"
        folder.mkdir(exist_ok=True)
        name = f"{values['iteration']:08d}.npz"
        text = np.frombuffer(json.dumps({"schema": SCHEMA, **values}).encode(), np.uint8)
        write_aside(folder / name, lambda file: np.savez(file, **{"values": text, **arrays}))  # type: ignore[arg-type]
        for old in sorted(folder.glob("*.npz"))[:-KEEP_CHECKPOINTS]:
            old.unlink()

    def set_status(self, state: str, **details: Any) -> None:
        """Say how the run stands: running, interrupted, failed or done."""
        assert state in STATES
        write_aside(self.path / "status", json.dumps({"state": state, **details}, indent=2) + "\n")

    def add_start(self, start: Mapping[str, Any]) -> None:
        """Add what a process that works on the run says of itself and its machine to machine.json."""
        path = self.path / "machine.json"
        starts = json.loads(path.read_text())["starts"] if path.exists() else []
        write_aside(path, json.dumps({"schema": SCHEMA, "starts": [*starts, dict(start)]}, indent=2) + "\n")

    def close(self) -> None:
        """Let go of the folder."""
        if self._rows is not None:
            self._rows.close()
        self._lock.close()


def append_evaluation(path: Path, row: Mapping[str, Any]) -> None:
    """Add the row of one evaluation to a run's evaluation.csv."""
    file = path / "evaluation.csv"
    old = file.read_text() if file.exists() else _line(row)
    write_aside(file, old + _line(_text(value) for value in row.values()))


def run_path(out: Path, config: Config) -> Path:
    """Return where a run lives: the same configuration always in the same place."""
    task = config.env.replace("/", "-").replace(":", "-")
    scheduler = config.scheduler.rpartition(":")[2]
    return out / task / f"{config.algo}-{scheduler}-seed{config.seed}-{config.id}"


def read_config(path: Path) -> Config:
    """Return the configuration of a run."""
    try:
        values = json.loads((path / "config.json").read_text())
        schema = values.pop("schema")
    except (OSError, json.JSONDecodeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a run's folder: config.json cannot be read ({error})") from error
    if schema != SCHEMA:
        raise ValueError(f"{path} was written with schema {schema}, this version reads {SCHEMA}")
    return Config.from_dict(values)


def read_status(path: Path) -> dict[str, Any]:
    """Return the status of a run; a folder without one is missing, and a running one that nobody holds has died."""
    try:
        status: dict[str, Any] = json.loads((path / "status").read_text())
    except (OSError, json.JSONDecodeError):
        return {"state": "missing"}
    if status["state"] == "running" and not _held(path / "lock"):
        status["state"] = "interrupted"
    return status


def read_iterations(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Return the columns of iterations.csv; a last line cut short by a kill does not count."""
    return read_columns(path / "iterations.csv")


def read_columns(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Return the columns of a CSV file of numbers."""
    if not path.exists():
        return {}
    header, *lines = path.read_text().splitlines(keepends=True)
    names = next(csv.reader([header]))
    rows = [row for row in csv.reader(line for line in lines if line.endswith("\n")) if len(row) == len(names)]
    table = np.array([[float(cell) if cell else math.nan for cell in row] for row in rows]).reshape(-1, len(names))
    return {name: table[:, index] for index, name in enumerate(names)}


def read_evaluations(path: Path) -> list[dict[str, str]]:
    """Return the rows of evaluation.csv."""
    file = path / "evaluation.csv"
    return list(csv.DictReader(io.StringIO(file.read_text()))) if file.exists() else []


def load_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """Return the newest whole checkpoint of a run, or None; a damaged one is passed over, saying so.

    The file is a plain zip of arrays, checked by the zip's sums; pickles in it are refused, never executed.
    """
    files = sorted((path / "checkpoint").glob("*.npz"), reverse=True)
    for file in files:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            values: dict[str, Any] = json.loads(arrays.pop("values").tobytes())
            if values.pop("schema") != SCHEMA:
                raise ValueError(f"schema is not {SCHEMA}")
            return values, arrays
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
            log.warning("checkpoint %s is damaged (%s); trying the one before it", file.name, error)
    if files:
        raise ValueError(f"every checkpoint in {path / 'checkpoint'} is damaged; remove them to start the run anew")
    return None


def write_aside(path: Path, content: str | Callable[[IO[bytes]], None]) -> None:
    """Write a file beside its place and move it there, so that a reader sees the old or the new one, whole."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(aside, "wb") as file:
            if isinstance(content, str):
                file.write(content.encode())
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _held(lock: Path) -> bool:
    try:
        with open(lock) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return str(value)


def _line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
