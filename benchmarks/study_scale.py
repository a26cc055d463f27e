"""How the cost of a study grows with its runs: scheduling, packing and reporting invented runs.

    python -m benchmarks.study_scale [--runs 1 10 100 1000] [--iterations 300]    writes results/throughput/studies.csv

The study is carried out by its driver with an engine that writes invented records in place of training; what the
engine takes is left out. A row has the processor seconds of the driver, of packing, and of a report, which a process of
its own makes from the packed records; the largest memory of that process; and the sizes of the records and of the page.
`python -m benchmarks.growth --draw` draws the rows.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.config import Config
from adept.runs.records import RunFolder
from adept.studies.driver import run_study
from adept.studies.engines import Event
from adept.studies.grid import Study, parse_study
from adept.studies.packing import FILE
from adept.studies.results import Cell, pack
from adept.studies.work import Settings
from benchmarks.tables import RESULTS, write

Array = npt.NDArray[np.float64]

ARMS = (4, 2, 1)
TASKS, METHODS = 10, 10
MONITORED = {"slope_z": (0.5, 1.0), "update_gain": (0.01, 0.02), "gain/1": (0.005, 0.02), "gain/2": (0.008, 0.02),
             "gain/x2": (0.016, 0.02), "gain/x0.5": (0.006, 0.02), "approx_kl_last_epoch": (0.01, 0.002)}  # fmt: skip
"""Columns of the measured updates: mean and standard deviation."""


def study_of(runs: int, iterations: int) -> Study:
    """Return a study of so many runs: 10 methods on 10 tasks where there are enough, the rest is seeds."""
    tasks = min(TASKS, max(1, runs // 10))
    methods = min(METHODS, max(1, runs // tasks))
    seeds = max(1, runs // (tasks * methods))
    names = [f"procgen/{name}" for name in ("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun",
                                            "dodgeball", "fruitbot", "heist", "jumper")]  # fmt: skip
    lines = [
        'name = "scale"', 'title = "Invented runs"', f"tasks = {json.dumps(names[:tasks])}",
        f"seeds = {list(range(1, seeds + 1))}", 'baseline = "fixed-4"',
        'differs = ["scheduler", "scheduler_options", "epochs", "arms", "learning_rate"]',
        "[base]", f"steps = {iterations * 64 * 256}",
    ]  # fmt: skip
    for place in range(methods):
        name, keys = (f"ucb-{place}", f"arms = {list(ARMS)}\nscheduler_options.window = {place}") if place % 2 else (
            f"fixed-{4 + place}", f"epochs = {4 + place}")  # fmt: skip
        scheduler = name.partition("-")[0]
        lines += ["[[methods]]", f'name = "{name}"', f'label = "{name}"', f'scheduler = "{scheduler}"', keys]
    return parse_study("\n".join(lines) + "\n", "scale")


def invented(config: Config, random: np.random.Generator) -> dict[str, Array]:
    """Return the columns of a run whose score rises to about 1, with measured updates."""
    count = np.arange(1.0, config.iterations + 1)
    epochs = random.choice(config.choices, len(count)).astype(float)
    forward = 6e4 * (config.batch_size + 3 * config.batch_size * epochs)
    columns = {
        "iteration": count, "step": count * config.batch_size, "epochs": epochs, "epochs_done": epochs,
        "score": (1 + 0.05 * random.normal()) / (1 + np.exp(-12 * (count / len(count) - 0.3))),
        "flops": np.cumsum(forward), "monitor_flops": np.cumsum(0.04 * forward),
        "learning_rate": np.full(len(count), config.learning_rate), "processor_seconds": 0.3 * count,
        **{name: random.normal(mean, spread, len(count)) for name, (mean, spread) in MONITORED.items()},
    }  # fmt: skip
    for name in MONITORED.keys() - {"approx_kl_last_epoch"}:
        columns[name][0] = np.nan
    return columns


class Inventing:
    """An engine that writes invented records of a cell, and takes note of the processor seconds of that."""

    description = "invention"
    here = True

    def __init__(self) -> None:
        self.seconds = 0.0
        self._random = np.random.default_rng(0)

    def run(self, cells: Sequence[Cell], settings: Settings) -> Iterator[Event | None]:
        """Yield each cell's start and end."""
        for cell in cells:
            yield Event("started", cell)
            started = time.process_time()
            columns = invented(cell.config, self._random)
            folder = RunFolder(cell.path, cell.config)
            for row in zip(*columns.values(), strict=True):
                folder.append(dict(zip(columns, row, strict=True)))
            folder.set_status("done", iteration=cell.iterations)
            folder.close()
            self.seconds += time.process_time() - started
            yield Event("done", cell)


def reported(directory: Path) -> tuple[float, float]:
    """Make the report in a process of its own; return its processor seconds and largest memory."""
    command = "import sys; from adept.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen([sys.executable, "-c", command, "report", str(directory)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the report of {directory} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def carried_out(directory: Path, runs: int, iterations: int) -> dict[str, float]:
    """Carry out and pack a study; return the number of its runs, and what the driver and packing took."""
    import adept.runs.runner  # noqa: F401 - PyTorch, which takes seconds to load, before the clock starts

    engine, started = Inventing(), time.process_time()
    results = run_study(study_of(runs, iterations), directory, engine)
    scheduled, done = time.process_time() - started - engine.seconds, time.process_time()
    pack(directory)
    packed = time.process_time() - done
    return {"runs": len(results.cells), "scheduling_seconds": scheduled, "packing_seconds": packed}


def measured(directory: Path, runs: int, iterations: int) -> dict[str, Any]:
    """Return a row. A process of its own runs the study, since the one that reports inherits the peak of this one."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        row = pool.submit(carried_out, directory, runs, iterations).result()
    shutil.rmtree(directory / "runs")
    seconds, memory = reported(directory)
    sizes = {"records_mb": directory / FILE, "page_mb": directory / "report" / "report.html"}
    row |= {"report_seconds": seconds, "memory_mb": memory}
    return row | {name: path.stat().st_size / 2**20 for name, path in sizes.items()}


def main() -> None:
    """Measure a row per number of runs, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--out", type=Path, default=RESULTS / "studies.csv")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for runs in options.runs:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(Path(folder) / "study", runs, options.iterations))
        print({name: f"{value:.4g}" for name, value in rows[-1].items()}, flush=True)
        write(options.out, rows)


if __name__ == "__main__":
    main()
