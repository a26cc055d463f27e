"""Energy of a run, by CodeCarbon without a network, beside its FLOPs and seconds.

CodeCarbon measures where the processor lets it (RAPL), and estimates elsewhere: `cpu_method` says which.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from adept.extras import require
from adept.runs.imports import outside_current_folder
from adept.runs.records import ENERGY, read_energy, write_json

WRITE_SECONDS = 30.0
COUNTRY = "USA"
"""CodeCarbon asks for one, to turn energy into emissions; energy, all that is kept here, does not depend on it."""


@contextlib.contextmanager
def measured_energy(path: Path, *, enabled: bool = True) -> Iterator[Callable[[], None]]:
    """Measure while the block runs, adding to the run's energy.json; switched off, do nothing.

    The block calls the function given whenever the run has gone on. A killed process loses what it measured since it
    last wrote, which happens twice a minute; a run that never went on writes nothing.
    """
    if not enabled:
        yield lambda: None
        return
    codecarbon = require("codecarbon", "energy")
    base: Any = require("codecarbon.output", "energy").BaseOutput
    logging.getLogger("codecarbon").setLevel(logging.CRITICAL)  # it talks before it reads its own log level

    class Latest(base):  # type: ignore[misc]
        """An output of CodeCarbon's that remembers the newest totals."""

        total: Any = None

        def out(self, total: Any, delta: Any) -> None:
            self.total = total

    before: list[dict[str, Any]] = (read_energy(path) or {"starts": []})["starts"]
    latest = Latest()
    with outside_current_folder():  # CodeCarbon takes settings from a file there
        tracker = codecarbon.OfflineEmissionsTracker(
            country_iso_code=COUNTRY, tracking_mode="process", output_methods=[], log_level="critical",
            allow_multiple_runs=True, measure_power_secs=5, output_handlers=[latest],
        )  # fmt: skip
    tracker.start()
    started = written = time.monotonic()
    ran = False

    def write() -> None:
        if (data := latest.total) is None:
            return
        # intel_rapl is measured; cpu_load and constant are guesses.
        modes = (getattr(part, "_mode", None) for part in getattr(tracker, "_hardware", ()))
        method = next((str(mode) for mode in modes if mode), "unknown")
        reading = {
            "kwh": data.energy_consumed, "cpu_kwh": data.cpu_energy, "gpu_kwh": data.gpu_energy,
            "ram_kwh": data.ram_energy, "seconds": time.monotonic() - started, "cpu_method": method,
            "cpu_model": data.cpu_model, "codecarbon": metadata.version("codecarbon"),
        }  # fmt: skip
        starts = [*before, reading]
        total = {key: sum(start.get(key, 0.0) for start in starts) for key in ("kwh", "cpu_kwh", "gpu_kwh", "ram_kwh")}
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / ENERGY, {**total, "starts": starts})

    def tick() -> None:
        nonlocal ran, written
        ran = True
        if time.monotonic() - written >= WRITE_SECONDS:
            tracker.flush()
            write()
            written = time.monotonic()

    try:
        yield tick
    finally:
        tracker.stop()
        if ran:
            write()
