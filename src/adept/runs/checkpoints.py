"""Checkpoints of a run: archives of plain arrays, the newest two; loading one executes nothing."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adept.runs.files import write_aside
from adept.runs.safe_io import Array, open_archive, parse_json

SCHEMA = 1
KEEP = 2
FOLDER = "checkpoint"

log = logging.getLogger("adept")


@dataclass(frozen=True)
class Checkpoint:
    """A file that may hold a checkpoint; `read` tells."""

    file: Path

    def read(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return its values and arrays; a damaged one is a `ValueError`."""
        with open_archive(self.file) as archive:
            arrays = {name: archive.array(name) for name in (name.removesuffix(".npy") for name in archive.names)}
        if "values" not in arrays:
            raise ValueError("it has no values")
        shape = {"schema": int, "iteration": int}
        values: dict[str, Any] = parse_json(arrays.pop("values").tobytes(), shape, "its values")
        if (schema := values.pop("schema")) != SCHEMA:
            raise ValueError(f"it has schema {schema}, this version reads {SCHEMA}")
        if (digest := values.pop("digest", None)) is not None and digest != digest_of(values, arrays):
            raise ValueError("its values or arrays are not those that were saved")
        if f"{values['iteration']:08d}" != self.file.stem:
            raise ValueError(f"it is of iteration {values['iteration']}, which is not what its name says")
        return values, arrays


def save_checkpoint(path: Path, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a checkpoint aside, move it into place, then remove all but the newest ones."""
    folder = path / FOLDER
    folder.mkdir(exist_ok=True)
    plain = json.loads(json.dumps(values, allow_nan=False))  # as it will be read
    saved = {"schema": SCHEMA, **plain, "digest": digest_of(plain, arrays)}
    text = np.frombuffer(json.dumps(saved).encode(), np.uint8)
    file = folder / f"{values['iteration']:08d}.npz"
    write_aside(file, lambda stream: np.savez(stream, **{"values": text, **arrays}))  # type: ignore[arg-type]
    for old in _files(path)[KEEP:]:
        old.unlink()


def digest_of(values: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Return what stands for a whole state: a part that is missing or changed is noticed. Older files have none."""
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def checkpoints(path: Path) -> Iterator[Checkpoint]:
    """Yield a run's checkpoints, the newest first; whoever reads them passes over those that are damaged."""
    yield from map(Checkpoint, _files(path))


def load_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """Return the newest checkpoint of a run that can be read, or None where there is none."""
    found = None
    for found in checkpoints(path):
        try:
            return found.read()
        except ValueError as error:
            passed_over(found, error)
    if found is not None:
        raise ValueError(f"no checkpoint in {path / FOLDER} can be read; its files were left as they are")
    return None


def passed_over(checkpoint: Checkpoint, error: BaseException) -> None:
    """Say that a checkpoint cannot be used, and why."""
    log.warning("checkpoint %s cannot be used: %s; trying the one before it", checkpoint.file.name, error)


def _files(path: Path) -> list[Path]:
    return sorted((path / FOLDER).glob("[0-9]*.npz"), reverse=True)
