"""Energy of a run, by CodeCarbon without a network, beside its FLOPs and seconds.

CodeCarbon measures where the processor lets it (RAPL), and estimates elsewhere: `cpu_method` says which.
"""

from __future__ import annotations

import json
import logging
import time
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from adept.extras import require
from adept.runs.imports import outside_current_folder
from adept.runs.records import ENERGY, SCHEMA, read_energy
from adept.runs.safe_io import write_aside

if TYPE_CHECKING:
    from typing_extensions import Self

WRITE_SECONDS = 30.0
COUNTRY = "USA"
"""CodeCarbon asks for one, to turn energy into emissions; energy, all that is kept here, does not depend on it."""


class EnergyMeter:
    """Measure while the block runs, adding to the run's energy.json; switched off it does nothing.

    A killed process loses what it measured since it last wrote, which happens twice a minute.
    """

    def __init__(self, path: Path, *, enabled: bool = True) -> None:
        self._path, self._enabled = path, enabled
        self._tracker: Any = None
        self._ran = False

    def __enter__(self) -> Self:
        if not self._enabled:
            return self
        codecarbon = require("codecarbon", "energy")
        logging.getLogger("codecarbon").setLevel(logging.CRITICAL)  # it talks before it reads its own log level
        self._before: list[dict[str, Any]] = (read_energy(self._path) or {"starts": []})["starts"]
        self._latest = _latest_reading()
        with outside_current_folder():  # CodeCarbon takes settings from a file there
            self._tracker = codecarbon.OfflineEmissionsTracker(
                country_iso_code=COUNTRY, tracking_mode="process", output_methods=[], log_level="critical",
                allow_multiple_runs=True, measure_power_secs=5, output_handlers=[self._latest],
            )  # fmt: skip
        self._tracker.start()
        self._started = self._written = time.monotonic()
        return self

    def tick(self) -> None:
        """Note that the run goes on; write the reading, if the last one is old."""
        self._ran = True
        if self._tracker is not None and time.monotonic() - self._written >= WRITE_SECONDS:
            self._tracker.flush()
            self._write()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tracker is not None:
            self._tracker.stop()
            if self._ran:
                self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        data = self._latest.total
        if data is None:
            return
        reading = {
            "kwh": data.energy_consumed,
            "cpu_kwh": data.cpu_energy,
            "gpu_kwh": data.gpu_energy,
            "ram_kwh": data.ram_energy,
            "seconds": time.monotonic() - self._started,
            "cpu_method": _cpu_method(self._tracker),
            "cpu_model": data.cpu_model,
            "codecarbon": metadata.version("codecarbon"),
        }
        starts = [*self._before, reading]
        total = {key: sum(start.get(key, 0.0) for start in starts) for key in ("kwh", "cpu_kwh", "gpu_kwh", "ram_kwh")}
        self._path.mkdir(parents=True, exist_ok=True)
        write_aside(self._path / ENERGY, json.dumps({"schema": SCHEMA, **total, "starts": starts}, indent=2) + "\n")


def _latest_reading() -> Any:
    """Return an output of CodeCarbon's that remembers the newest totals."""
    base: Any = require("codecarbon.output", "energy").BaseOutput

    class Latest(base):  # type: ignore[misc]
        total: Any = None

        def out(self, total: Any, delta: Any) -> None:
            self.total = total

    return Latest()


def _cpu_method(tracker: Any) -> str:
    """Return how CodeCarbon knows the processor's power: intel_rapl is measured, cpu_load and constant are guesses."""
    modes = (getattr(part, "_mode", None) for part in getattr(tracker, "_hardware", ()))
    return next((str(mode) for mode in modes if mode), "unknown")
