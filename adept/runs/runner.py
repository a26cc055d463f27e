"""Carry out one run: open its folder, continue where it stood, record every iteration, checkpoint, finish.

The command line, the demo and every engine of the laboratory call the same `run_one`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from adept.config import Config, Execution
from adept.runs import machine
from adept.runs.evaluation import evaluate
from adept.runs.records import RunFolder, append_evaluation, load_checkpoint, read_iterations, read_status
from adept.runs.tracking import TensorBoard, Tracker, WeightsAndBiases
from adept.training import Record, Trainer

CHECKPOINT_SECONDS = 30.0
TEST_EPISODES = 100

OnRecord = Callable[[Record], None]


def run_one(
    config: Config,
    path: Path,
    execution: Execution | None = None,
    *,
    on_record: OnRecord | None = None,
    on_start: Callable[[Trainer], None] | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    wandb: bool = False,
    evaluate_at_end: bool | None = None,
    until: int | None = None,
) -> dict[str, Any]:
    """Start or continue the run in a folder, and return its summary; a finished one is only read.

    A stop asked for by Ctrl-C or SIGTERM lets the iteration finish, saves, and returns with the state
    "interrupted". Checkpoints come every so many seconds; when they come changes no number. With `until` the run
    pauses, in the same state, after the whole iterations within so many environment steps.
    """
    if read_status(path)["state"] == "done":
        return summary(path)
    execution = execution or Execution()
    folder = RunFolder(path, config)
    try:
        with asked_to_stop() as stop:
            trainer = Trainer(config, execution)
            try:
                _train(trainer, folder, stop, on_record, on_start, checkpoint_seconds, wandb, until)
            finally:
                trainer.close()
        if trainer.iteration < config.iterations:
            folder.set_status("interrupted", iteration=trainer.iteration)
            return summary(path)
        if config.backend == "procgen" if evaluate_at_end is None else evaluate_at_end:
            append_evaluation(path, evaluate(path, episodes=TEST_EPISODES, execution=execution).row())
        folder.set_status("done", iteration=trainer.iteration)
        return summary(path)
    except BaseException as error:
        state = "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed"
        folder.set_status(state, error=f"{type(error).__name__}: {error}")
        raise
    finally:
        folder.close()


def _train(
    trainer: Trainer, folder: RunFolder, stop: threading.Event, on_record: OnRecord | None,
    on_start: Callable[[Trainer], None] | None, checkpoint_seconds: float, wandb: bool, until: int | None,
) -> None:  # fmt: skip
    checkpoint = load_checkpoint(folder.path)
    if checkpoint is not None:
        trainer.load(*checkpoint)
    folder.truncate(trainer.iteration)
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    start = {"command": command, "execution": dataclasses.asdict(trainer.execution), **machine.describe()}
    folder.add_start({**start, "iteration": trainer.iteration})
    folder.set_status("running", iteration=trainer.iteration)
    if on_start is not None:
        on_start(trainer)
    step = trainer.iteration * trainer.config.batch_size
    trackers: list[Tracker] = [TensorBoard(folder.path, step)]
    trackers += [WeightsAndBiases(trainer.config, folder.path)] if wandb else []
    saved = time.monotonic()
    end = trainer.config.iterations if until is None else until // trainer.config.batch_size
    try:
        for record in trainer if trainer.iteration < end else ():
            folder.append(record)
            for tracker in trackers:
                tracker.log(record)
            if on_record is not None:
                on_record(record)
            last = trainer.iteration >= min(end, trainer.config.iterations)
            if stop.is_set() or last or time.monotonic() - saved >= checkpoint_seconds:
                folder.save_checkpoint(*trainer.state())
                folder.set_status("running", iteration=trainer.iteration)
                saved = time.monotonic()
            if stop.is_set() or last:
                break
    finally:
        for tracker in trackers:
            tracker.close()


def summary(path: Path) -> dict[str, Any]:
    """Return how a run stands, as one JSON-safe object."""
    columns = read_iterations(path)
    result: dict[str, Any] = {"run": str(path), **read_status(path)}
    if columns and len(columns["step"]):
        last = {name: values[-1].item() for name, values in columns.items()}
        epochs = columns["epochs_done"]
        result |= {name: int(last[name]) for name in ("iteration", "step", "episodes", "gradient_steps", "flops")}
        result |= {"score": _finite(last["score"]), "seconds": round(last["seconds"], 3)}
        result |= {"epochs": int(epochs.sum())}
        arms = sorted(set(columns["epochs"].astype(int).tolist()), reverse=True)
        result["shares"] = {str(arm): float((columns["epochs"] == arm).mean()) for arm in arms}
    return result


def _finite(value: float) -> float | None:
    return value if value == value else None


@contextlib.contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C or SIGTERM into an event; a second one interrupts at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        print("finishing this iteration and saving; once more stops at once", file=sys.stderr)

    old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
