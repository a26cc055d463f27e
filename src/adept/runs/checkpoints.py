"""Checkpoints of a run: archives of plain arrays, the newest two; loading one executes nothing."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from adept.config import Config
from adept.runs.parsing import parse_json
from adept.runs.safe_io import Array, open_archive, require_real, write_aside

SCHEMA = 1
KEEP = 2
FOLDER = "checkpoint"

Found = TypeVar("Found")
log = logging.getLogger("adept")


def read_checkpoint(file: Path, config: Config | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a checkpoint's values and arrays; a damaged one, or one of another configuration, is a `ValueError`."""
    with open_archive(file) as archive:
        arrays = {name.removesuffix(".npy"): archive.array(name.removesuffix(".npy")) for name in archive.names}
    if "values" not in arrays:
        raise ValueError("it has no values")
    shape = {"schema": int, "iteration": int}
    values: dict[str, Any] = parse_json(arrays.pop("values").tobytes(), shape, "its values")
    if (schema := values.pop("schema")) != SCHEMA:
        raise ValueError(f"it has schema {schema}, this version reads {SCHEMA}")
    if (digest := values.pop("digest", None)) is not None and digest != digest_of(values, arrays):
        raise ValueError("its values or arrays are not those that were saved")
    saved = values.pop("config", None)  # older files have none
    if config is not None and saved is not None and Config.from_dict(saved) != config:
        raise ValueError("it was saved by a run of another configuration")
    if f"{values['iteration']:08d}" != file.stem:
        raise ValueError(f"it is of iteration {values['iteration']}, which is not what its name says")
    return values, arrays


def save_checkpoint(path: Path, config: Config, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a checkpoint aside, move it into place, then remove all but the newest of those before it."""
    folder = path / FOLDER
    require_real(folder)
    folder.mkdir(exist_ok=True)
    plain = json.loads(json.dumps({**values, "config": config.to_dict()}, allow_nan=False))  # as it will be read
    saved = {"schema": SCHEMA, **plain, "digest": digest_of(plain, arrays)}
    text = np.frombuffer(json.dumps(saved).encode(), np.uint8)
    file = folder / f"{values['iteration']:08d}.npz"
    write_aside(file, lambda stream: np.savez(stream, **{"values": text, **arrays}))  # type: ignore[arg-type]
    for old in [other for other in checkpoint_files(path) if other.name < file.name][KEEP - 1 :]:
        old.unlink()


def digest_of(values: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """Return what stands for a whole state: a part that is missing or changed is noticed. Older files have none."""
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def newest_usable(path: Path, use: Callable[[Path], Found]) -> Found | None:
    """Return what `use` makes of the newest checkpoint that it does not refuse; None where there is no checkpoint."""
    failed = None
    for file in checkpoint_files(path):
        try:
            return use(file)
        except Exception as error:  # whatever a damaged state does to the parts that load it
            log.warning("checkpoint %s cannot be used: %s; trying the one before it", file.name, error)
            failed = failed or error
    if failed is not None:
        raise ValueError(
            f"no checkpoint in {path / FOLDER} can be used ({failed}); its files were left as they are: go on with the "
            "version of adept that wrote them, or choose another --out"
        ) from failed
    return None


def load_checkpoint(path: Path, config: Config | None = None) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """Return the newest checkpoint, of this configuration, that can be read, or None where there is none."""
    return newest_usable(path, lambda file: read_checkpoint(file, config))


def checkpoint_files(path: Path) -> list[Path]:
    """Return the files of a run's checkpoints, the newest first."""
    found = (path / FOLDER).glob("*.npz")
    return sorted((file for file in found if re.fullmatch(r"\d{8,}", file.stem)), reverse=True)
