"""Other people's runs: learning curves from the TensorBoard logs of CleanRL, Stable-Baselines3 and their kin."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from adept.extras import require
from adept.report.comparison import Run
from adept.report.statistics import Array
from adept.runs.safe_io import LARGEST_ARCHIVE, gist, open_foreign

TAGS = ("charts/episodic_return", "rollout/ep_rew_mean")
"""What is read: returns of single episodes (CleanRL), or means of the last 100 (Stable-Baselines3)."""
EPOCHS = "adept/epochs_done"
"""The end of the tag under which our integrations log each update's epochs, whatever stands before it."""
WINDOW = 100
EVENTS = "events.out.tfevents.*"
LAYOUT = "METHOD/TASK/RUN/events… (or CleanRL's env__name__seed__time)"

_CLEANRL = re.compile(r"(?P<task>.+?)__(?P<method>.+)__(?P<seed>\d+)__(?P<time>\d+)")


def import_logs(directory: Path) -> list[Run]:
    """Read all runs under a folder laid out as METHOD/TASK/RUN, TASK/RUN, or with CleanRL's run names."""
    runs: list[Run] = []
    for folder in sorted({file.parent for file in directory.rglob(EVENTS)}):
        points = read_returns(folder)
        if points is None:
            continue  # SB3 writes a sibling folder per evaluation, CleanRL one per table of hyperparameters
        method, task, seed = _place(folder, directory)
        taken = {run.seed for run in runs if (run.method, run.task) == (method, task)}
        if seed is None or seed in taken:
            seed = 1 + max(taken, default=0)
        steps, score, total, epochs = points
        unknown = np.full(len(steps), math.nan)
        runs.append(Run(method, task, seed, "done", steps=steps, score=score, flops=unknown, update_flops=total,
                        processor=unknown, epochs=epochs, epochs_done=epochs))  # fmt: skip
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


def read_returns(folder: Path) -> tuple[Array, Array, Array, Array] | None:
    """Return steps, scores, epochs so far and epochs by update of one run, or None where its events have no returns."""
    found: dict[str, list[tuple[int, float]]] = {tag: [] for tag in (*TAGS, EPOCHS)}
    for file in sorted(folder.glob(EVENTS)):
        for tag, step, value in read_scalars(file):
            name = EPOCHS if tag.endswith(EPOCHS) else tag
            if name in found and math.isfinite(value):
                found[name].append((step, value))
    present = [tag for tag in reversed(TAGS) if found[tag]]
    if not present:
        return None
    steps, values = _columns(found[present[0]])
    if present[0] == TAGS[0]:
        ends = range(1, len(values) + 1)
        values = np.array(
            [math.fsum(part) / len(part) for end in ends for part in [values[max(0, end - WINDOW) : end]]]
        )
    last = np.append(np.diff(steps) > 0, True)  # several episodes may end at one step: the last mean holds them all
    at, epochs = _columns(found[EPOCHS])
    index = np.searchsorted(at, steps[last], side="right")
    so_far = np.concatenate([[0.0], np.cumsum(epochs)])[index] if len(at) else np.full(int(last.sum()), math.nan)
    return steps[last], values[last], so_far, epochs


def _columns(points: list[tuple[int, float]]) -> tuple[Array, Array]:
    table = np.array(sorted(points, key=lambda point: point[0]), np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def read_scalars(file: Path) -> Iterator[tuple[str, int, float]]:
    """Yield tag, step and value of every scalar in an event file; a record cut short ends it."""
    require("tensorboard", "train")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader  # type: ignore[import-untyped]
    from tensorboard.util.tensor_util import make_ndarray  # type: ignore[import-untyped]

    open_foreign(file, LARGEST_ARCHIVE).close()  # TensorBoard's reader would wait for a pipe
    try:
        for event in EventFileLoader(str(file)).Load():  # turns every kind of scalar into a tensor of one number
            for entry in event.summary.value:
                value = make_ndarray(entry.tensor) if entry.HasField("tensor") else np.empty(0)
                if value.size == 1 and value.dtype.kind == "f":
                    yield entry.tag, event.step, float(value.item())
    except Exception as error:  # of protobuf, of TensorBoard or of NumPy, by what is damaged
        raise ValueError(f"{file} cannot be read: {gist(error)}") from error
