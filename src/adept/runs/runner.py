"""Carry out one run: check it, open its folder, continue where it stood, record, checkpoint, finish.

The command line, the demo and every engine of the laboratory call the same `run_one`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from adept.config import Config, Execution
from adept.envs import backend_of
from adept.runs import machine
from adept.runs.checkpoints import checkpoint_files, newest_usable, read_checkpoint, save_checkpoint
from adept.runs.evaluation import TEST_EPISODES, OnEpisode, evaluate
from adept.runs.records import (
    CHECKPOINT_SECONDS,
    RunFolder,
    append_evaluation,
    read_evaluations,
    read_status,
    require_own,
    whole_rows,
)
from adept.runs.safe_io import require_no_folder
from adept.runs.signals import handling
from adept.runs.summary import summary
from adept.runs.tracking import tracking
from adept.terminal import warn
from adept.training import Record, Trainer

LARGE_SHARE = 0.5
"""Share of the machine's memory beyond which a run is warned of."""

log = logging.getLogger("adept")

OnRecord = Callable[[Record], None]


def run_one(
    config: Config,
    path: Path,
    execution: Execution | None = None,
    *,
    on_record: OnRecord | None = None,
    on_start: Callable[[Trainer], None] | None = None,
    on_episode: OnEpisode | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    wandb: bool = False,
    test_episodes: int | None = None,
    until: int | None = None,
) -> dict[str, Any]:
    """Start or continue the run in a folder, and return its summary; a finished one is only read.

    A stop asked for by Ctrl-C or SIGTERM lets the iteration finish, saves, and returns with the state
    "interrupted". Checkpoints come every so many seconds; when they come changes no number. With `until` the run
    pauses, in the same state, after the whole iterations within so many environment steps. `test_episodes` are played
    at the end; by default 100 where the environment has test levels, and none elsewhere.
    """
    if not 0 <= checkpoint_seconds < math.inf:
        raise ValueError(f"checkpoint_seconds must be a number ≥ 0, got {checkpoint_seconds!r}")
    if read_status(path)["state"] == "done":
        require_own(path, config)
        if (rows := whole_rows(path)) == config.iterations:
            return summary(path)
        log.warning("%s is marked done, but has %d whole rows of %d; continuing it", path, rows, config.iterations)
    execution = execution or Execution()
    # The trainer comes first: a mistake that it finds leaves no folder behind.
    with asked_to_stop() as stop, contextlib.closing(Trainer(config, execution)) as trainer:
        # Asking git starts a process, which for a moment would hold the folder's lock too, and outlive a kill with it.
        here = machine.describe()
        folder = RunFolder(path, config)
        try:
            _train(trainer, folder, here, stop, on_record, on_start, checkpoint_seconds, wandb, until)
            if trainer.iteration < config.iterations:
                folder.set_status("interrupted", iteration=trainer.iteration)
                return summary(path)
            if test_episodes is None:
                test_episodes = TEST_EPISODES if backend_of(config).has_test_levels else 0
            iteration = str(trainer.iteration)  # a kill may have come right after the evaluation
            if test_episodes and not any(row.get("iteration") == iteration for row in read_evaluations(path)):
                row, _ = evaluate(path, episodes=test_episodes, execution=execution, trust=True, on_episode=on_episode)
                append_evaluation(path, row)
            if (whole := whole_rows(path)) != trainer.iteration:
                raise ValueError(f"{path} has {whole} whole rows of {trainer.iteration}: something else wrote there")
            folder.set_status("done", iteration=trainer.iteration)
            return summary(path)
        except BaseException as error:
            state = "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed"
            with contextlib.suppress(OSError, ValueError):  # a full disk, for one, must not hide the error
                folder.set_status(state, error=f"{type(error).__name__}: {error}")
            if checkpoint_files(path):
                # As add_note does, which Python 3.10 lacks.
                notes = vars(error).setdefault("__notes__", [])
                notes.append(f"the run is kept in {path}; the same command continues it from its last checkpoint")
            raise
        finally:
            folder.close()


def resume(trainer: Trainer, folder: RunFolder) -> float:
    """Load the newest checkpoint that is whole, fits, and whose rows are all there; drop the rows after it.

    Returns the seconds that the run has taken so far.
    """

    def use(file: Path) -> float:
        values, arrays = read_checkpoint(file, trainer.config)
        if not 0 < values["iteration"] <= trainer.config.iterations:
            raise ValueError(f"it is of iteration {values['iteration']} of {trainer.config.iterations}")
        folder.check_rows(values["iteration"], values.get("rows"))
        trainer.load(values, arrays)
        return float(values["seconds"])

    for file in checkpoint_files(folder.path):
        require_no_folder(file)  # now, while nothing has been changed
    seconds = newest_usable(folder.path, use) or 0.0
    folder.truncate(trainer.iteration)
    return seconds


def _train(
    trainer: Trainer, folder: RunFolder, here: dict[str, Any], stop: threading.Event, on_record: OnRecord | None,
    on_start: Callable[[Trainer], None] | None, checkpoint_seconds: float, wandb: bool, until: int | None,
) -> None:  # fmt: skip
    seconds = resume(trainer, folder)
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    start = {"command": command, "execution": dataclasses.asdict(trainer.execution), **here}
    folder.add_start({**start, "iteration": trainer.iteration})
    folder.set_status("running", iteration=trainer.iteration)
    if on_start is not None:
        on_start(trainer)
    saved, config = time.monotonic(), trainer.config
    end = config.iterations if until is None else min(until // config.batch_size, config.iterations)
    with tracking(config, folder.path, (seconds, trainer.iteration * config.batch_size), wandb=wandb) as track:
        for record in trainer if trainer.iteration < end else ():
            folder.append(record)
            track(record)
            if on_record is not None:
                on_record(record)
            ending = stop.is_set() or trainer.iteration >= end
            if ending or time.monotonic() - saved >= checkpoint_seconds:
                rows = folder.sync()
                values, arrays = trainer.state()
                save_checkpoint(folder.path, config, {**values, "rows": rows}, arrays)
                folder.set_status("running", iteration=trainer.iteration)
                saved = time.monotonic()
            if ending:
                break


def check_run(config: Config, execution: Execution | None = None) -> list[str]:
    """Make everything that a run needs, with one environment and one row; return warnings.

    What a run would stumble over at its start is raised here, before a folder exists: names, shapes that do not fit the
    network or the algorithm, the device, threads, and rollouts that the memory cannot hold.
    """
    execution = execution or Execution()
    check_threads(execution)
    smallest = dataclasses.replace(config, environments=1, rollout_length=1, minibatch_size=1, steps=1)
    with contextlib.closing(Trainer(smallest, execution)) as trainer:
        environments = trainer.environments
        row = environments.observation_dtype.itemsize * math.prod(environments.observation_shape)
    needed, memory = config.batch_size * row, machine.memory_bytes()  # a run needs somewhat more
    size = f"a rollout of {config.environments:,} environments × {config.rollout_length:,} steps takes {gib(needed)}"
    if needed > memory:
        raise ValueError(f"{size}, this machine has {gib(memory)}; lower --environments or --rollout-length")
    return [f"{size} of this machine's {gib(memory)}"] if needed > LARGE_SHARE * memory else []


def gib(size: float) -> str:
    """Return a number of bytes as people say it."""
    return f"{size / 2**30:,.1f} GiB"


def check_threads(execution: Execution) -> None:
    """Refuse more threads than this machine has cores: PyTorch breaks down over thousands of them."""
    cores = os.cpu_count() or 1
    for name, given in (("threads", execution.threads), ("env_threads", execution.env_threads)):
        if given > cores:
            raise ValueError(f"{name} must be at most {cores}, the cores of this machine, got {given}")


@contextlib.contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C or SIGTERM into an event; a second one interrupts at once."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        warn("finishing this iteration and saving; press Ctrl-C again to stop at once")

    with handling(ask, signal.SIGINT, signal.SIGTERM):
        yield stop
