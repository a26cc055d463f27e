"""The local engine: worker processes on this machine, each running one cell at a time; a lost one is replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from adept.runs.imports import outside_current_folder
from adept.studies.engines import TICK_SECONDS, Event
from adept.studies.results import Cell
from adept.studies.work import Settings, run_cell
from adept.terminal import set_up_streams, warn

STOP_SECONDS = 600.0
"""How long workers that were asked to stop may take to finish their iteration and save."""


class LocalEngine:
    """Run cells in `workers` processes of one PyTorch thread each."""

    here = True

    def __init__(self, workers: int = 2, retries: int = 2) -> None:
        for name, value, least in (("workers", workers, 1), ("retries", retries, 0)):
            if value < least:
                raise ValueError(f"{name} must be a whole number ≥ {least}, got {value!r}")
        self._workers, self._retries = workers, retries
        self.description = f"{workers} local process{'es' if workers > 1 else ''}"

    def run(self, cells: Sequence[Cell], settings: Settings) -> Iterator[Event | None]:
        """Yield events as they come; closing the iterator stops the workers, which save their runs first."""
        queue = deque((cell, 0) for cell in cells)
        workers: list[Worker] = []
        try:
            while queue or any(worker.cell for worker in workers):
                free = [worker for worker in workers if worker.cell is None]
                while queue and (free or len(workers) < self._workers):
                    if not free:
                        free.append(Worker(settings))
                        workers += free
                    cell, attempt = queue.popleft()
                    free.pop(0).give(cell, attempt)
                    if attempt == 0:
                        yield Event("started", cell)
                busy = {worker.connection: worker for worker in workers if worker.cell}
                for connection in wait(list(busy), timeout=TICK_SECONDS):
                    yield self._finished(busy[connection], queue, workers)  # type: ignore[index]
                yield None
        finally:
            stop(workers)

    def _finished(self, worker: Worker, queue: deque[tuple[Cell, int]], workers: list[Worker]) -> Event:
        """Take a worker's answer, or note its death; queue the cell again where attempts are left."""
        assert worker.cell is not None
        cell, attempt = worker.cell, worker.attempt
        worker.cell = None
        try:
            state, error = worker.connection.recv()
        except (EOFError, OSError):
            workers.remove(worker)
            worker.process.join()
            code = worker.process.exitcode or 0
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
            state, error = "failed", f"worker {how}"
        if state != "failed":
            return Event(state, cell)
        if attempt < self._retries:
            queue.append((cell, attempt + 1))
            return Event("retried", cell, error)
        if attempt:
            error = f"{error} (attempt {attempt + 1} of {self._retries + 1})"
        return Event("failed", cell, error)


class Worker:
    """A process and its cell."""

    def __init__(self, settings: Settings) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs, settings), daemon=True)
        with outside_current_folder():
            self.process.start()
        theirs.close()
        self.cell: Cell | None = None
        self.attempt = 0

    def give(self, cell: Cell, attempt: int) -> None:
        """Hand over a cell; a worker that has just died is noticed when its answer is read."""
        self.cell, self.attempt = cell, attempt
        with contextlib.suppress(OSError):
            self.connection.send(cell)


def stop(workers: Sequence[Worker]) -> None:
    """Ask the workers to finish their iteration, save and end; asked again meanwhile, end them at once."""
    if any(worker.cell for worker in workers):
        warn("stopping: runs finish their iteration and save; press Ctrl-C again to stop at once")
    try:
        for worker in workers:
            if worker.cell is not None:
                worker.process.terminate()
            worker.connection.close()
        for worker in workers:
            worker.process.join(STOP_SECONDS)
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()


def _work(connection: Connection[Any, Any], settings: Settings) -> None:
    """Run cells as they come, until there are no more or the driver is gone."""
    set_up_streams()
    os.setpgid(0, 0)  # a Ctrl-C in the terminal is for the driver, which then asks us to stop
    while True:
        try:
            cell: Cell = connection.recv()
        except (EOFError, OSError):
            return
        answer: tuple[str, str | None]
        try:
            answer = (run_cell(cell, settings, on_record=_stop_if_orphaned), None)
        except KeyboardInterrupt:
            answer = ("interrupted", None)
        except Exception as error:
            answer = ("failed", f"{type(error).__name__}: {error}")
        try:
            connection.send(answer)
        except OSError:
            return


def _stop_if_orphaned() -> None:
    """Save and stop where the driver has been killed, so that the next one finds the run free."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os.kill(os.getpid(), signal.SIGTERM)
