"""Other people's runs: learning curves from the TensorBoard logs of CleanRL, Stable-Baselines3 and their kin.

The event files are parsed here (a record format of lengths and checksums around protocol buffers), so that no
package is needed and no point is dropped.
"""

from __future__ import annotations

import math
import re
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

TAGS = ("charts/episodic_return", "rollout/ep_rew_mean")
"""What is read: returns of single episodes (CleanRL), or means of the last 100 (Stable-Baselines3)."""
WINDOW = 100
LAYOUT = "METHOD/TASK/RUN/events… (or CleanRL's env__name__seed__time)"

_CLEANRL = re.compile(r"(?P<task>.+?)__(?P<method>.+)__(?P<seed>\d+)__(?P<time>\d+)")
_FIXED64, _VARINT, _BYTES, _FIXED32 = 1, 0, 2, 5


@dataclass(frozen=True, eq=False)
class ImportedRun:
    """The learning curve of one run."""

    method: str
    task: str
    seed: int
    steps: Array
    score: Array
    """mean return of the last 100 training episodes"""
    seconds: Array


def is_log_folder(directory: Path) -> bool:
    """Say whether there are event files under a folder."""
    return any(directory.rglob("events.out.tfevents.*")) if directory.is_dir() else False


def import_logs(directory: Path) -> list[ImportedRun]:
    """Read all runs under a folder laid out as METHOD/TASK/RUN, TASK/RUN, or with CleanRL's run names."""
    folders = sorted({file.parent for file in directory.rglob("events.out.tfevents.*")})
    runs: list[ImportedRun] = []
    taken: set[tuple[str, str, int]] = set()
    for folder in folders:
        points = read_returns(folder)
        if points is None:
            continue  # SB3 writes a sibling folder per evaluation, CleanRL one per table of hyperparameters
        method, task, seed = _place(folder, directory)
        if seed is None or (method, task, seed) in taken:
            seed = 1 + max((known for *place, known in taken if place == [method, task]), default=0)
        taken.add((method, task, seed))
        runs.append(ImportedRun(method, task, seed, *points))
    if not runs:
        raise ValueError(f"no event file under {directory} has {' or '.join(TAGS)}; lay logs out as {LAYOUT}")
    return runs


def _place(folder: Path, directory: Path) -> tuple[str, str, int | None]:
    parts = folder.relative_to(directory).parts
    if parts and (match := _CLEANRL.fullmatch(parts[-1])):
        task = "/".join([*parts[:-1], match["task"]]) if len(parts) > 1 else match["task"]
        return match["method"], task, int(match["seed"])
    number = re.search(r"(\d+)$", parts[-1]) if parts else None
    seed = int(number[1]) if number else None
    if len(parts) >= 3:
        return "/".join(parts[:-2]), parts[-2], seed
    if len(parts) == 2:
        return directory.resolve().name, parts[0], seed
    raise ValueError(f"{folder} does not tell its method and task; lay logs out as {LAYOUT}")


def read_returns(folder: Path) -> tuple[Array, Array, Array] | None:
    """Return steps, scores and seconds of one run, or None where its events have no returns."""
    found: dict[str, list[tuple[int, float, float]]] = {tag: [] for tag in TAGS}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for tag, step, wall, value in read_scalars(file):
            if tag in found and math.isfinite(value):
                found[tag].append((step, value, wall))
    present = [tag for tag in reversed(TAGS) if found[tag]]
    if not present:
        return None
    points = sorted(found[present[0]], key=lambda point: point[0])
    steps, values, walls = (np.array(column, np.float64) for column in zip(*points, strict=True))
    if present[0] == TAGS[0]:
        recent: deque[float] = deque(maxlen=WINDOW)
        scores = []
        for value in values:
            recent.append(value)
            scores.append(math.fsum(recent) / len(recent))
        values = np.array(scores)
    last = np.append(np.diff(steps) > 0, True)  # several episodes may end at one step: the last mean holds them all
    return steps[last], values[last], np.maximum.accumulate(walls - walls[0])[last]


def read_scalars(file: Path) -> Iterator[tuple[str, int, float, float]]:
    """Yield tag, step, wall time and value of every scalar in an event file; a record cut short ends it."""
    data = file.read_bytes()
    position = 0
    while position + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, position)
        start = position + 12
        position = start + length + 4
        if position > len(data):
            return
        yield from _scalars_of_event(memoryview(data)[start : start + length])


def _scalars_of_event(event: memoryview) -> Iterator[tuple[str, int, float, float]]:
    wall, step, summaries = 0.0, 0, []
    for field, kind, value in _fields(event):
        if (field, kind) == (1, _FIXED64):
            (wall,) = struct.unpack("<d", value)
        elif (field, kind) == (2, _VARINT):
            step = value
        elif (field, kind) == (5, _BYTES):
            summaries.append(value)
    for summary in summaries:
        for field, kind, value in _fields(summary):
            if (field, kind) == (1, _BYTES) and (scalar := _scalar(value)) is not None:
                yield scalar[0], step, wall, scalar[1]


def _scalar(summary_value: memoryview) -> tuple[str, float] | None:
    tag = ""
    number: float | None = None
    for field, kind, value in _fields(summary_value):
        if (field, kind) == (1, _BYTES):
            tag = bytes(value).decode("utf-8", "replace")
        elif (field, kind) == (2, _FIXED32):
            (number,) = struct.unpack("<f", value)
        elif (field, kind) == (8, _BYTES) and number is None:
            number = _tensor_scalar(value)
    return None if number is None else (tag, number)


def _tensor_scalar(tensor: memoryview) -> float | None:
    """Return a tensor of one float (as TensorFlow 2 writes scalars), or None for any other."""
    kinds = {1: "<f", 2: "<d"}
    code, content = None, b""
    for field, kind, value in _fields(tensor):
        if (field, kind) == (1, _VARINT):
            code = kinds.get(value)
        elif (field in (4, 5, 6) and kind == _BYTES) or (field, kind) in ((5, _FIXED32), (6, _FIXED64)):
            content = bytes(value)
    if code is None or len(content) != struct.calcsize(code):
        return None
    return float(struct.unpack(code, content)[0])


def _fields(message: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield field number, wire type and value (a whole number, or the bytes) of a protocol-buffer message."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        kind = key & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield key >> 3, kind, value
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            return
        yield key >> 3, kind, message[position : position + size]
        position += size


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
