"""One small file for the records of a whole study: every column of every run, compressed, without pickles.

The file is a zip of `index.json` and `columns`. A column holds its numbers of all the runs that have it, one run after
the other, bytes of equal weight side by side so that they compress; columns follow each other in the order of their
names, in one stream, so that equal ones cost nothing.
"""

from __future__ import annotations

import io
import json
import lzma
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from adept.runs.records import write_aside

SCHEMA = 1
FILE = "records.zip"
EXACT = ("iteration", "step", "epochs", "epochs_done", "gradient_steps", "episodes", "flops")
"""Columns kept to the last digit."""
FINE = (
    *("reward", "gae_return", "episode_return", "episode_length", "score", "learning_rate", "explained_variance"),
    "seconds",
)
"""Columns kept to the seven digits of a float32; the others, losses, timings and the arms' scores, keep four."""
DROPPED_BITS = 23 - 12
"""Bits of a float32's fraction that are dropped where four digits are enough."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry: equal records give equal bytes."""

Floats = npt.NDArray[np.float64]
Columns = dict[str, Floats]


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


def rounded(columns: Mapping[str, npt.NDArray[Any]]) -> Columns:
    """Return columns with the digits that a packed file keeps, so that both sources give the same numbers."""
    return {name: _stored(name, values).astype(np.float64) for name, values in columns.items()}


def write_pack(path: Path, runs: Sequence[PackedRun]) -> None:
    """Write the runs into one file, aside and renamed."""
    index = [
        {
            **{key: value for key, value in vars(run).items() if key != "columns"},
            "columns": list(run.columns),
            "rows": _rows(run),
        }
        for run in runs
    ]
    names = sorted({name for run in runs for name in run.columns})
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_LZMA) as archive:
        text = json.dumps({"schema": SCHEMA, "runs": index}, indent=1, sort_keys=True)
        archive.writestr(zipfile.ZipInfo("index.json", EPOCH), text, zipfile.ZIP_LZMA)
        parts = ((name, [run.columns[name] for run in runs if name in run.columns]) for name in names)
        columns = b"".join(_shuffled(name, part) for name, part in parts)
        archive.writestr(zipfile.ZipInfo("columns", EPOCH), columns, zipfile.ZIP_LZMA)

    def content(file: IO[bytes]) -> None:
        file.write(data.getvalue())

    write_aside(path, content)


def read_pack(path: Path) -> dict[tuple[str, str, int], PackedRun]:
    """Return the packed runs by method, task and seed."""
    try:
        with zipfile.ZipFile(path) as archive:
            index = json.loads(archive.read("index.json"))
            content = archive.read("columns")
    except (OSError, EOFError, KeyError, ValueError, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as the packed records of a study: {error}") from error
    if index["schema"] != SCHEMA:
        raise ValueError(f"{path} was written with schema {index['schema']}, this version reads {SCHEMA}")
    columns = _unpack(index["runs"], content)
    offsets = dict.fromkeys(columns, 0)
    runs = {}
    for entry in index["runs"]:
        own: Columns = {}
        for name in entry["columns"]:
            own[name] = columns[name][offsets[name] : offsets[name] + entry["rows"]]
            offsets[name] += entry["rows"]
        rest = {key: value for key, value in entry.items() if key not in ("columns", "rows")}
        runs[entry["method"], entry["task"], entry["seed"]] = PackedRun(**rest, columns=own)
    return runs


def _shuffled(name: str, parts: Sequence[Floats]) -> bytes:
    """Return a column's bytes, those of equal weight side by side."""
    values = _stored(name, np.concatenate(parts))
    return np.ascontiguousarray(values.view(np.uint8).reshape(len(values), -1).T).tobytes()


def _unpack(index: Sequence[Mapping[str, Any]], content: bytes) -> Columns:
    """Return the columns of all runs from their bytes."""
    columns, start = {}, 0
    for name in sorted({name for run in index for name in run["columns"]}):
        dtype, rows = _dtype(name), sum(run["rows"] for run in index if name in run["columns"])
        weights = np.frombuffer(content, np.uint8, dtype.itemsize * rows, start).reshape(dtype.itemsize, rows)
        columns[name] = np.ascontiguousarray(weights.T).reshape(-1).view(dtype).astype(np.float64)
        start += dtype.itemsize * rows
    return columns


def _stored(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a column as it is written: rounding twice changes nothing more."""
    kept = values.astype(_dtype(name))
    if name in EXACT + FINE:
        return kept
    bits = kept.view(np.uint32)
    nearest = (bits + np.uint32(1 << (DROPPED_BITS - 1))) >> DROPPED_BITS << DROPPED_BITS
    return np.where(np.isfinite(kept), nearest.view(np.float32), kept)


def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype("<f8" if name in EXACT else "<f4")


def _rows(run: PackedRun) -> int:
    return len(next(iter(run.columns.values()))) if run.columns else 0
