"""A run's folder: configuration, iterations, evaluations, machine and status, safe against any kill.

Files are written aside and renamed, or appended to; nothing that was written is ever lost to an interruption. The
`schema` in config.json is that of every file in the folder.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import itertools
import json
import logging
import math
import os
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from adept.config import Config
from adept.records import current_name
from adept.runs.checkpoints import FOLDER
from adept.runs.parsing import fields_of, fit, is_real, read_json
from adept.runs.safe_io import (
    LARGEST_TABLE,
    is_locked,
    open_to_append,
    read_lines,
    read_text,
    remove_leftovers,
    require_real,
    take_lock,
    write_aside,
)

SCHEMA = 1
CHECKPOINT_SECONDS = 30.0
"""Time between two checkpoints; it changes no number."""
STATES = ("done", "running", "interrupted", "failed", "missing")
ITERATIONS, EVALUATIONS, CONFIG, MACHINE, STATUS, ENERGY = (
    "iterations.csv", "evaluation.csv", "config.json", "machine.json", "status", "energy.json"
)  # fmt: skip
START_SHAPE = {"command?": str, "time?": str, "packages?": dict}
ENERGY_SHAPE = {"kwh": float, "starts": [{"kwh": float}]}
LONGEST_CONFIG, LONGEST_ERROR = 10_000, 2_000
"""Letters that a report has room for."""
COUNTS = ("iteration", "step", "epochs", "epochs_done", "gradient_steps", "episodes", "flops")
"""Columns that always hold a number."""
NUMBERS_OF_AN_EVALUATION = ("iteration", "step", "seed", "episodes", "return_mean", "return_std", "length_mean")

log = logging.getLogger("adept")


class Columns(dict[str, npt.NDArray[np.float64]]):
    """Columns of numbers by name; one that is not there is a `ValueError` that names the file."""

    def __init__(self, columns: Mapping[str, npt.NDArray[np.float64]], source: str, unreadable: int = 0) -> None:
        super().__init__({current_name(name): values for name, values in columns.items()})
        self.source, self.unreadable = source, unreadable

    def take(self, rows: npt.NDArray[np.bool_]) -> Columns:
        """Return the columns with some of their rows."""
        return Columns({name: values[rows] for name, values in self.items()}, self.source, self.unreadable)

    def __missing__(self, name: str) -> npt.NDArray[np.float64]:
        raise ValueError(f"{self.source} has no column {name!r}; was it written by another version?")


class RunFolder:
    """Write a run's folder. One process at a time: a second one is refused."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path = path
        self._rows: IO[str] | None = None
        self._names: list[str] = []
        self._digest = hashlib.sha256()
        self._lock = take_lock(path / "lock", f"the run in {path}")
        try:
            if (path / CONFIG).exists():
                require_own(path, config)
            else:
                for file in (path / name for name in (ITERATIONS, EVALUATIONS, MACHINE, STATUS)):
                    if file.exists() and file.stat().st_size:  # a kill may leave an empty one
                        raise ValueError(
                            f"{path} holds {file.name}, but no {CONFIG}: no run began it; choose another --out"
                        )
                write_json(path / CONFIG, config.to_dict(), sort_keys=True)
            require_real(path / FOLDER)
            remove_leftovers(path)
            remove_leftovers(path / FOLDER)
        except BaseException:
            self.close()
            raise

    def append(self, record: Mapping[str, float]) -> None:
        """Add the row of one iteration; its names must be those of the file's header."""
        path, line = self.path / ITERATIONS, _line(record.values())
        if self._rows is None:
            begun = read_text(path, LARGEST_TABLE) if path.exists() else ""  # a kill may have left it empty
            self._names = _header(begun) if begun else list(record)
            self._digest = hashlib.sha256(begun.encode())
            self._rows = open_to_append(path)
            line = line if begun else _line(record) + line
        _require_columns(path, self._names, record)
        self._rows.write(line)
        self._rows.flush()
        self._digest.update(line.encode())

    def sync(self) -> str:
        """Make sure that every row so far is on the disk, and return their digest.

        A checkpoint, which counts on them, holds it, so that a changed row is noticed.
        """
        assert self._rows is not None
        os.fsync(self._rows.fileno())
        return self._digest.hexdigest()

    def check_rows(self, iteration: int, digest: str | None) -> None:
        """Refuse rows that are not those which a checkpoint of this iteration counts on."""
        if (rows := whole_rows(self.path)) < iteration:
            raise ValueError(f"iterations.csv has only {rows} whole rows of {iteration}")
        lines = itertools.islice(read_lines(self.path / ITERATIONS), iteration + 1)
        if digest is not None and hashlib.sha256("".join(lines).encode()).hexdigest() != digest:
            raise ValueError(f"one of the first {iteration} rows of iterations.csv is not what was written")

    def truncate(self, iteration: int) -> None:
        """Drop the rows after an iteration: they came after the checkpoint, and will come again, equal."""
        path = self.path / ITERATIONS
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        if iteration == 0:
            path.unlink(missing_ok=True)
        else:
            write_aside(path, "".join(itertools.islice(read_lines(path), iteration + 1)))

    def set_status(self, state: str, **details: Any) -> None:
        """Say how the run stands: running, interrupted, failed or done."""
        assert state in STATES
        write_json(self.path / STATUS, {"state": state, **details})

    def add_start(self, start: Mapping[str, Any]) -> None:
        """Add what a process that works on the run says of itself and its machine to machine.json."""
        write_json(self.path / MACHINE, {"starts": [*read_starts(self.path), start]})

    def close(self) -> None:
        """Let go of the folder."""
        if self._rows is not None:
            self._rows.close()
        self._lock.close()


def write_json(file: Path, values: Mapping[str, Any], *, sort_keys: bool = False) -> None:
    """Write a JSON file of a run's folder."""
    write_aside(file, json.dumps({"schema": SCHEMA, **values}, indent=2, sort_keys=sort_keys) + "\n")


def whole_rows(path: Path) -> int:
    """Return up to which iteration a run's rows are as they must be: row N is that of iteration N."""
    return _in_place(read_columns(path / ITERATIONS, quiet=True))


def _in_place(columns: Columns) -> int:
    """Return how many rows stand at their places; where one is missing, those after it do not."""
    iterations = columns.get("iteration", np.empty(0))
    wrong = np.flatnonzero(iterations != np.arange(1, len(iterations) + 1))
    return int(wrong[0]) if len(wrong) else len(iterations)


def append_evaluation(path: Path, row: Mapping[str, Any]) -> None:
    """Add the row of one evaluation to a run's evaluation.csv."""
    file = path / EVALUATIONS
    with open_to_append(file) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # several may evaluate one run at once
        if old := read_text(file):
            _require_columns(file, _header(old), row)
        begin = "\n" if old and not old.endswith("\n") else "" if old else _line(row)
        stream.write(begin + _line(row.values()))


def run_path(out: Path, config: Config) -> Path:
    """Return where a run lives: the same configuration always in the same place."""
    task = config.env.replace("/", "-").replace(":", "-")
    scheduler = config.scheduler.rpartition(":")[2]
    return out / task / f"{config.algo}-{scheduler}-seed{config.seed}-{config.id}"


def config_of(values: Mapping[str, Any], source: str) -> Config:
    """Build a configuration from what a file says, importing nothing that it names."""
    fit(values, fields_of(Config), source)
    if (letters := len(str(values))) > LONGEST_CONFIG:
        raise ValueError(f"{source} has {letters:,} letters; a configuration has at most {LONGEST_CONFIG:,}")
    try:
        return Config.from_dict(dict(values))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{source} is no configuration: {error}") from error


def read_config(path: Path) -> Config:
    """Return the configuration of a run."""
    try:
        values = read_json(path / CONFIG, {"schema": int})
    except ValueError as error:
        raise ValueError(f"{path} is not a run's folder: {error}") from error
    if (schema := values.pop("schema")) != SCHEMA:
        raise ValueError(f"{path} was written with schema {schema}, this version reads {SCHEMA}")
    return config_of(values, str(path / CONFIG))


def require_own(path: Path, config: Config) -> None:
    """Refuse the folder of a run of another configuration."""
    if read_config(path) != config:
        raise ValueError(f"{path} holds a run of another configuration; choose another --out")


def read_status(path: Path) -> dict[str, Any]:
    """Return the status of a run.

    A folder without one is missing. A run that is said to run, but that nobody holds, has died; one whose status cannot
    be read counts as interrupted too: its own files say how far it came.
    """
    if not (path / STATUS).exists():
        return {"state": "missing"}
    try:
        status: dict[str, Any] = read_json(path / STATUS, {"state": str, "iteration?": int, "error?": str})
        status.pop("schema", None)
        if status["state"] not in STATES[:-1]:
            raise ValueError(f"the state {status['state'][:40]!r} is none of {', '.join(STATES[:-1])}")
    except ValueError as error:
        log.warning("%s: its status cannot be read (%s); it counts as interrupted", path, error)
        return {"state": "interrupted"}
    if "error" in status:
        status["error"] = status["error"][:LONGEST_ERROR]
    if status["state"] == "running" and not is_locked(path / "lock"):
        status["state"] = "interrupted"
    return status


def read_starts(path: Path) -> list[dict[str, Any]]:
    """Return what each process that worked on the run said of itself and its machine."""
    file = path / MACHINE
    return list(read_json(file, {"starts": [START_SHAPE]})["starts"]) if file.exists() else []


def read_energy(path: Path) -> dict[str, Any] | None:
    """Return the run's measured energy, or None where it was not measured."""
    file = path / ENERGY
    return dict(read_json(file, ENERGY_SHAPE)) if file.exists() else None


def read_iterations(path: Path) -> Columns:
    """Return the columns of iterations.csv; empty where there is none.

    A last line cut short by a kill does not count. Other rows that cannot be read are left out, counted in
    `unreadable`, and reported; so are rows that are missing.
    """
    columns = read_columns(path / ITERATIONS)
    status = read_status(path)
    known = read_config(path).iterations if status["state"] == "done" else status.get("iteration", 0)
    return check_iterations(columns, known, str(path / ITERATIONS))


def check_iterations(columns: Columns, known: int, source: str) -> Columns:
    """Return columns; say where rows are missing, or fewer than the iterations that are known to have been made."""
    rows = _in_place(columns)
    if rows < len(columns.get("iteration", ())):
        log.warning("%s: after row %d rows are missing, or not in their order", source, rows)
    elif rows < known:
        log.warning("%s: it has %d rows of %d iterations; those at its end are missing", source, rows, known)
    return columns


def read_columns(path: Path, *, quiet: bool = False) -> Columns:
    """Return the columns of a CSV file of numbers."""
    lines = (line for line in read_lines(path) if line.endswith("\n"))  # a kill may have cut the last one
    names = _header(next(lines, ""))
    counts = [index for index, name in enumerate(names) if name in COUNTS]
    numbers, rows, unreadable = array("d"), 0, 0  # eight bytes a cell, however long the table is
    for line in lines:
        row = _numbers(line, len(names), counts)
        rows += 1
        unreadable += row is None
        numbers.extend(row or ())
    if unreadable and not quiet:
        log.warning("%s: %d of %d rows cannot be read and are left out", path, unreadable, rows)
    table = np.array(numbers, np.float64).reshape(rows - unreadable, len(names))
    return Columns({name: table[:, index] for index, name in enumerate(names)}, str(path), unreadable)


def read_evaluations(path: Path) -> list[dict[str, str]]:
    """Return the rows of evaluation.csv; those that cannot be read are left out and reported."""
    file = path / EVALUATIONS
    if not file.exists():
        return []
    good, rows = [], 0
    try:
        for row in csv.DictReader(io.StringIO(read_text(file))):
            rows += 1
            good += [row] if is_evaluation(row) else []
    except csv.Error as error:
        raise ValueError(f"{file} is not CSV: {error}") from error
    if len(good) < rows:
        log.warning("%s: %d of %d rows cannot be read and are left out", file, rows - len(good), rows)
    return good


def is_evaluation(row: Mapping[Any, Any]) -> bool:
    """Say whether a row of evaluation.csv is whole: text by name, numbers where numbers belong."""
    try:
        text = all(isinstance(name, str) and isinstance(value, str) for name, value in row.items())
        return text and all(is_real(float(row[name])) for name in NUMBERS_OF_AN_EVALUATION if name in row)
    except ValueError:
        return False


def _header(text: str) -> list[str]:
    try:
        names = next(csv.reader([text.partition("\n")[0]]), [])
    except csv.Error as error:
        raise ValueError(f"the header of a table cannot be read: {error}") from error
    if len(set(names)) < len(names):
        raise ValueError("the header of a table names a column twice")
    return names


def _numbers(line: str, width: int, counts: Iterable[int]) -> list[float] | None:
    """Return the numbers of a row, infinite ones as NaN; None where a cell is no number, or a count no finite one."""
    try:
        found = [float(cell) if cell else math.nan for cell in line.rstrip("\r\n").split(",")]
    except ValueError:
        return None
    row = [value if is_real(value) else math.nan for value in found]
    return row if len(row) == width and not any(math.isnan(row[index]) for index in counts) else None


def _require_columns(path: Path, old: list[str], row: Mapping[str, Any]) -> None:
    """Refuse a row whose names are not those of the table's header."""
    if list(row) == old:
        return
    lacks, more = [name for name in row if name not in old], [name for name in old if name not in row]
    parts = [f"it lacks {', '.join(lacks)}"] if lacks else []
    parts += [f"it also has {', '.join(more)}"] if more else []
    raise ValueError(
        f"{path} has other columns than this row ({'; '.join(parts) or 'in another order'}): another version of adept "
        "began it; go on with that version, or choose another --out"
    )


def _line(cells: Iterable[Any]) -> str:
    """Return a row of a table; NaN is an empty cell."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow("" if cell != cell else cell for cell in cells)
    return line.getvalue()
