"""How the time and memory of `adept report` grow with the runs of a study: packed records of invented runs.

    python benchmarks/report_scale.py [--runs 10 100 1000] [--iterations 300]

Each report is made by a process of its own. A row has the processor time, the largest memory, and the packed records.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from adept.runs.records import Columns
from adept.studies.grid import Study, parse_study
from adept.studies.packing import FILE, PackedRun, write_pack

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


def invented(study: Study, method: str, task: str, seed: int, random: np.random.Generator) -> PackedRun:
    """Return a finished run whose score rises to about 1, with measured updates."""
    config = study.config(method, task, seed)
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
    return PackedRun(method, task, seed, {"state": "done", "iteration": len(count)}, json.loads(config.to_json()), [],
                     [], None, Columns(columns, "invented"))  # fmt: skip


def write_records(directory: Path, runs: int, iterations: int) -> int:
    """Write the packed records of a study, and return how many runs it has."""
    study, random = study_of(runs, iterations), np.random.default_rng(0)
    directory.mkdir(parents=True)
    (directory / "study.toml").write_text(study.text)
    cells = [(method.name, task, seed) for seed in study.seeds for task in study.tasks for method in study.methods]
    write_pack(directory / FILE, [invented(study, *cell, random) for cell in cells])
    return len(cells)


def measured(directory: Path) -> dict[str, float]:
    """Make the report in a process of its own; return its processor seconds and largest memory."""
    command = "import sys; from adept.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen([sys.executable, "-c", command, "report", str(directory)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the report of {directory} failed")
    return {"processor_seconds": round(usage.ru_utime + usage.ru_stime, 1), "memory_mib": round(usage.ru_maxrss / 1024)}


def main() -> None:
    """Print a JSON object per number of runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--iterations", type=int, default=300)
    options = parser.parse_args()
    for runs in options.runs:
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder) / "study"
            count = write_records(directory, runs, options.iterations)
            size = round((directory / FILE).stat().st_size / 2**20, 1)
            page = measured(directory)
            page["page_mib"] = round((directory / "report" / "report.html").stat().st_size / 2**20, 1)
            print(json.dumps({"runs": count, "records_mib": size, **page}), flush=True)


if __name__ == "__main__":
    main()
