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
from adept.studies.work import Job, Settings, mark_failed, run_job
from adept.terminal import set_up_streams, warn

STOP_SECONDS = 600.0
"""How long workers that were asked to stop may take to finish their iteration and save."""


class LocalEngine:
    """Run cells in `workers` processes of one PyTorch thread each."""

    here = True

    def __init__(self, workers: int = 2, retries: int = 2) -> None:
        if workers < 1:
            raise ValueError(f"workers must be a whole number ≥ 1, got {workers!r}")
        if retries < 0:
            raise ValueError(f"retries must be a whole number ≥ 0, got {retries!r}")
        self._workers, self._retries = workers, retries
        self.description = f"{workers} local process{'es' if workers > 1 else ''}"

    def run(self, jobs: Sequence[Job], settings: Settings) -> Iterator[Event | None]:
        """Yield events as they come; closing the iterator stops the workers, which save their runs first."""
        queue = deque((job, 0) for job in jobs)
        workers: list[Worker] = []
        try:
            while queue or any(worker.job for worker in workers):
                yield from self._assign(queue, workers, settings)
                busy = {worker.connection: worker for worker in workers if worker.job}
                for connection in wait(list(busy), timeout=TICK_SECONDS):
                    yield self._finished(busy[connection], queue, workers)  # type: ignore[index]
                yield None
        finally:
            stop(workers)

    def _assign(
        self, queue: deque[tuple[Job, int]], workers: list[Worker], settings: Settings
    ) -> Iterator[Event | None]:
        while queue:
            worker = next((worker for worker in workers if worker.job is None), None)
            if worker is None:
                if len(workers) >= self._workers:
                    return
                worker = Worker(settings)
                workers.append(worker)
            job, attempt = queue.popleft()
            worker.give(job, attempt)
            if attempt == 0:
                yield Event("started", job)

    def _finished(self, worker: Worker, queue: deque[tuple[Job, int]], workers: list[Worker]) -> Event:
        """Take a worker's answer, or note its death; queue the job again where attempts are left."""
        assert worker.job is not None
        job, attempt = worker.job, worker.attempt
        worker.job = None
        try:
            state, error = worker.connection.recv()
        except (EOFError, OSError):
            workers.remove(worker)
            state, error = "failed", worker.cause_of_death()
        if state != "failed":
            return Event(state, job)
        if attempt < self._retries:
            queue.append((job, attempt + 1))
            return Event("retried", job, error)
        if attempt:
            error = f"{error} (attempt {attempt + 1} of {self._retries + 1})"
        mark_failed(job, error)
        return Event("failed", job, error)


class Worker:
    """A process and its cell."""

    def __init__(self, settings: Settings) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs, settings), daemon=True)
        with outside_current_folder():
            self.process.start()
        theirs.close()
        self.job: Job | None = None
        self.attempt = 0

    def give(self, job: Job, attempt: int) -> None:
        """Hand over a job; a worker that has just died is noticed when its answer is read."""
        self.job, self.attempt = job, attempt
        with contextlib.suppress(OSError):
            self.connection.send(job)

    def cause_of_death(self) -> str:
        """Return how the process ended."""
        self.process.join()
        code = self.process.exitcode or 0
        return f"worker was killed by {signal.Signals(-code).name}" if code < 0 else f"worker exited with {code}"


def stop(workers: Sequence[Worker]) -> None:
    """Ask the workers to finish their iteration, save and end; asked again meanwhile, end them at once."""
    busy = [worker for worker in workers if worker.job is not None]
    if busy:
        warn("stopping: runs finish their iteration and save; press Ctrl-C again to stop at once")
    try:
        for worker in workers:
            if worker.job is not None:
                worker.process.terminate()
            worker.connection.close()
        for worker in workers:
            worker.process.join(STOP_SECONDS)
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()


def _work(connection: Connection[Any, Any], settings: Settings) -> None:
    """Run jobs as they come, until there are no more or the driver is gone."""
    set_up_streams()
    os.setpgid(0, 0)  # a Ctrl-C in the terminal is for the driver, which then asks us to stop
    while True:
        try:
            job: Job = connection.recv()
        except (EOFError, OSError):
            return
        answer: tuple[str, str | None]
        try:
            answer = (run_job(job, settings, on_record=_stop_if_orphaned), None)
        except KeyboardInterrupt:
            answer = ("interrupted", None)
        except Exception as error:
            answer = ("failed", f"{type(error).__name__}: {error}")
        try:
            connection.send(answer)
        except OSError:
            return


def _stop_if_orphaned(record: Any) -> None:
    """Save and stop where the driver has been killed, so that the next one finds the run free."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        os.kill(os.getpid(), signal.SIGTERM)
