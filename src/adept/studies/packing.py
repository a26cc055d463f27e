"""One small file for the records of a whole study, readable by NumPy alone.

`records.zip` is what `numpy.load` opens: one array per column, the rows of all runs one after the other, with `method`,
`task` and `seed` of each row; `columns` lists their names. What is not a column (configurations, evaluations, machines)
stands in the entry `runs.json`. No pickles.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adept.records import DIGITS, column
from adept.runs.parsing import fit, parse_json
from adept.runs.records import ENERGY_SHAPE, START_SHAPE, Columns, is_evaluation
from adept.runs.safe_io import LARGEST_TEXT, Archive, Array, open_archive, write_aside

SCHEMA = 2
FILE = "records.zip"
INDEX = "runs.json"
LARGEST = 2**30
"""Bytes that a packed file may inflate to."""
KEYS = ("method", "task", "seed")
DROPPED_BITS = 23 - 12
"""Bits of a float32's fraction that are dropped where four digits are enough; `adept.records` says where."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: equal records give equal bytes."""
RUN = {
    "method": str, "task": str, "seed": int, "columns": [str], "rows": int, "config": dict,
    "status": {"state": str, "iteration?": int, "error?": str}, "evaluations": [dict],
    "starts": [START_SHAPE], "energy": dict | None,
}  # fmt: skip
"""The shape of one run in the index."""


@dataclass(frozen=True)
class PackedRun:
    """What is kept of one run: its status, configuration, evaluations, machines and columns."""

    method: str
    task: str
    seed: int
    status: dict[str, Any]
    config: dict[str, Any]
    evaluations: list[dict[str, str]]
    starts: list[dict[str, Any]]
    energy: dict[str, Any] | None
    columns: Columns


def rounded(columns: Columns) -> Columns:
    """Return columns with the digits that a packed file keeps, so that both sources give the same numbers."""
    kept = {name: _stored(name, values).astype(np.float64) for name, values in columns.items()}
    return Columns(kept, columns.source, columns.unreadable)


def write_pack(path: Path, runs: Sequence[PackedRun]) -> None:
    """Write the runs into one file, aside and renamed."""
    rows = [len(next(iter(run.columns.values()), ())) for run in runs]
    index = [{**vars(run), "columns": list(run.columns), "rows": count} for run, count in zip(runs, rows, strict=True)]
    names = list(dict.fromkeys(name for run in runs for name in run.columns))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_LZMA) as archive:
        text = json.dumps({"schema": SCHEMA, "runs": index}, indent=1, sort_keys=True)
        if len(text) > LARGEST_TEXT:
            raise ValueError(f"{path} would have an index of {len(text):,} bytes, of which {LARGEST_TEXT:,} are read")
        archive.writestr(zipfile.ZipInfo(INDEX, EPOCH), text, zipfile.ZIP_LZMA)
        _add(archive, "columns", np.array([*KEYS, *names]))
        for key in KEYS:
            _add(archive, key, np.repeat(np.array([getattr(run, key) for run in runs]), rows))
        for name in names:
            parts = [run.columns.get(name, np.full(count, np.nan)) for run, count in zip(runs, rows, strict=True)]
            _add(archive, name, _smallest(_stored(name, np.concatenate(parts))))
    write_aside(path, data.getvalue())


def read_pack(path: Path) -> dict[tuple[str, str, int], PackedRun]:
    """Return the packed runs by method, task and seed."""
    runs = {}
    try:
        with open_archive(path, LARGEST) as archive:
            index = _entries(archive.read(INDEX))
            rows, start = sum(entry["rows"] for entry in index), 0
            whole: dict[str, Array] = {}
            for entry in index:
                names, end = entry.pop("columns"), start + entry.pop("rows")
                for name in names:
                    if name not in whole:
                        whole[name] = _numbers(archive, name, rows)
                columns = Columns({name: whole[name][start:end] for name in names}, str(path))
                runs[entry["method"], entry["task"], entry["seed"]] = PackedRun(**entry, columns=columns)
                start = end
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as the packed records of a study: {error}") from error
    return runs


def _entries(text: bytes) -> list[dict[str, Any]]:
    """Return the runs of an index, every part of the type that it must have."""
    index = parse_json(text, {"schema": int, "runs": [RUN]}, "the index")
    if index["schema"] != SCHEMA:
        raise ValueError(f"it was written with schema {index['schema']}, this version reads {SCHEMA}")
    for entry in index["runs"]:
        if entry["rows"] < 0 or len(set(entry["columns"])) < len(entry["columns"]) or entry.keys() != RUN.keys():
            raise ValueError("the index lists fewer than no rows, a column twice, or unknown keys")
        if not all(is_evaluation(row) for row in entry["evaluations"]):
            raise ValueError("the index has an evaluation that is not one")
        if entry["energy"] is not None:
            fit(entry["energy"], ENERGY_SHAPE, "the index: energy")
    return list(index["runs"])


def _numbers(archive: Archive, name: str, rows: int) -> Array:
    """Return a column of all runs."""
    found = archive.array(name)
    if found.shape != (rows,) or found.dtype.kind not in "iuf":
        raise ValueError(f"the column {name!r} has {found.dtype} of shape {found.shape}, not {rows} rows")
    return found.astype(np.float64)


def _add(archive: zipfile.ZipFile, name: str, values: Array) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, values, allow_pickle=False)
    archive.writestr(zipfile.ZipInfo(f"{name}.npy", EPOCH), stream.getvalue(), zipfile.ZIP_LZMA)


def _smallest(values: Array) -> Array:
    """Return whole numbers as integers, in four bytes where they fit."""
    if values.dtype.itemsize < 8 or not (np.isfinite(values) & (values == np.rint(values))).all():
        return values
    return values.astype("<i4" if np.abs(values).max(initial=0) < 2**31 else "<i8")


def _stored(name: str, values: Array) -> Array:
    """Return a column with the digits that are kept: rounding twice changes nothing more."""
    digits = column(name).digits
    kept = values.astype("<f8" if digits is None else "<f4")
    if digits is None or digits > DIGITS:  # a float32 has seven
        return kept
    bits = kept.view(np.uint32)
    nearest = (bits + np.uint32(1 << (DROPPED_BITS - 1))) >> DROPPED_BITS << DROPPED_BITS
    return np.where(np.isfinite(kept), nearest.view(np.float32), kept)
