"""The Ray engine: each cell is a task of a cluster whose nodes share the study's folder.

A task that fails, or whose worker or node is lost, is run again by Ray and continues from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

from adept.extras import require
from adept.runs.imports import outside_current_folder
from adept.runs.records import read_status
from adept.runs.safe_io import gist
from adept.studies.engines import TICK_SECONDS, Event
from adept.studies.results import Cell
from adept.studies.work import Settings, run_cell

LOOK_SECONDS = 3.0
"""How often the shared folder is looked at for runs that have begun."""
CONNECT_SECONDS = 10.0
LOOPBACK = "127.0.0.1"
QUIET = {"log_to_driver": False, "logging_level": "error"}
STOP_SECONDS = 600.0
"""How long tasks that were asked to stop may take to finish their iteration and save."""


class RayEngine:
    """Run cells on a Ray cluster: an existing one by its address, or a local one of so many CPUs."""

    here = False

    def __init__(
        self, address: str | None = None, *, workers: int = 2, cpus: float = 1.0, gpus: float = 0.0, retries: int = 2
    ) -> None:
        for name, value in {"workers": workers, "cpus": cpus, "gpus": gpus, "retries": retries}.items():
            if value < (least := int(name == "workers")):
                raise ValueError(f"{name} must be ≥ {least}, got {value!r}")
        self._ray: Any = require("ray", "ray")
        self._address, self._workers = address, workers
        self._resources = {"num_cpus": cpus, "num_gpus": gpus}
        self._retries = retries
        place = f"the Ray cluster at {address}" if address else f"a local Ray cluster of {workers} workers"
        self.description = f"{place}, {cpus:g} CPU and {gpus:g} GPU per run"

    def run(self, cells: Sequence[Cell], settings: Settings) -> Iterator[Event | None]:
        """Yield events as they come; closing the iterator cancels the tasks, which save their runs first."""
        ray = self._ray
        ours = not ray.is_initialized()
        if ours:
            self._connect()
        options = {**self._resources, "max_retries": self._retries, "retry_exceptions": True}
        task = ray.remote(**options)(run_in_folder)
        pending = {task.remote(cell, settings): cell for cell in cells}
        try:
            yield from self._monitor(pending)
        finally:
            # Interrupt the tasks under way as Ctrl-C would, and wait until they have saved.
            for reference in pending:
                ray.cancel(reference, force=False)
            if pending:
                ray.wait(list(pending), num_returns=len(pending), timeout=STOP_SECONDS)
            if ours:
                ray.shutdown()

    def _connect(self) -> None:
        try:
            require_reachable(self._address)
            with outside_current_folder():
                if self._address:
                    self._ray.init(address=self._address, **QUIET)
                else:
                    self._start()
        except (Exception, SystemExit) as error:  # whatever Ray raises where it does not start
            raise ValueError(f"no Ray cluster can be reached at {self._address or 'local'!r}: {gist(error)}") from error

    def _start(self) -> None:
        """Start a cluster that listens at the loopback address alone, as Ray does by itself on macOS and Windows."""
        cpus = max(1, round(self._workers * self._resources["num_cpus"]))
        constants: Any = require("ray._private.ray_constants", "ray")
        before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
        try:
            self._ray.init(address="local", num_cpus=cpus, include_dashboard=False, **QUIET)
        finally:
            constants.ENABLE_RAY_CLUSTER = before
        if (own := self._ray.util.get_node_ip_address()) != LOOPBACK:
            self._ray.shutdown()
            raise ValueError(f"this version of Ray listens at {own}; start a cluster yourself, and give its --address")

    def _monitor(self, pending: dict[Any, Cell]) -> Iterator[Event | None]:
        waiting, looked = set(pending.values()), 0.0
        while pending:
            ready, _ = self._ray.wait(list(pending), num_returns=1, timeout=TICK_SECONDS)
            for reference in ready:
                cell = pending.pop(reference)
                if cell in waiting:
                    waiting.discard(cell)
                    yield Event("started", cell)
                yield self._result(reference, cell)
            if time.monotonic() - looked >= LOOK_SECONDS:
                looked = time.monotonic()
                for cell in [cell for cell in waiting if read_status(cell.path)["state"] == "running"]:
                    waiting.discard(cell)
                    yield Event("started", cell)
            yield None

    def _result(self, reference: Any, cell: Cell) -> Event:
        errors = self._ray.exceptions
        try:
            return Event(self._ray.get(reference), cell)
        except errors.TaskCancelledError:
            return Event("interrupted", cell)
        except errors.RayTaskError as error:
            text = f"{type(error.cause).__name__}: {error.cause}"
        except errors.RayError as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
        return Event("failed", cell, text)


def run_in_folder(cell: Cell, settings: Settings) -> str:
    """Carry out a task; Ray's workers stand in another folder, so that they import nothing from that of the command."""
    with contextlib.suppress(OSError):  # a node may not have it
        os.chdir(settings.folder)
    return run_cell(cell, settings)


def require_reachable(address: str | None) -> None:
    """Raise `OSError` where nobody listens at an address of host and port: Ray itself would ask for minutes."""
    place = re.fullmatch(r"(?:ray://)?([^/]+):(\d+)", address or "")
    if place:
        socket.create_connection((place[1], int(place[2])), timeout=CONNECT_SECONDS).close()
