"""Run settings of the rule on the development tasks from starts × {1/30 … 30}; every trial is a row with its commit.

    python -m experiments.controller.trials run SETTING … [--seeds 1 2 3] [--starts 1/30 1 30] [--workers 2]
    python -m experiments.controller.trials table          # what all trials came to, by task and start

Run it from a clean clone, so that the commit in a row can run it again. A row that is there already is not run again.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

TRIALS = Path(__file__).with_name("trials.csv")
TASKS = {
    "envpool/Pendulum-v1": 60_000,
    "envpool/CartPole-v1": 50_000,
    "minigrid/DoorKey-6x6": 300_000,
    "minigrid/Empty-16x16": 150_000,
    "envpool/LunarLander-v3": 200_000,
    "pybullet/HalfCheetah": 100_000,
    "pybullet/Walker2D": 100_000,
}
"""Development tasks, each with its environment steps."""
STARTS = ("1/30", "1/10", "1", "10", "30", "K=1", "K=3", "K=30")
"""Factors of the preset's learning rate at the preset's K, and other K at the preset's learning rate."""
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "fixed": ("fixed", {}),
    "former": ("former", {}),
    "kl-rate-minibatch": ("kl-rate-minibatch", {}),
    "hypergradient": ("hypergradient", {}),
    "hindsight": ("hindsight", {}),
    "no-slopes": ("no-slopes", {}),
    "critic-alone": ("critic-alone", {}),
    "critic-shared": ("hindsight", {"critic": "shared"}),
    "seeing-critic": ("seeing-critic", {}),
    "no-repeats": ("no-repeats", {}),
    "closer-repeats": ("closer-repeats", {}),
    "blind-holds": ("blind-holds", {}),
    "other-slopes": ("other-slopes", {}),
    "linear-rise": ("linear-rise", {}),
    "follow-0.4": ("hindsight", {"follow": 0.4}),
    "follow-1": ("hindsight", {"follow": 1.0}),
    "range-2": ("hindsight", {"max_factor": 2.0}),
    "range-6": ("hindsight", {"max_factor": 6.0}),
    "distance-0.015": ("hindsight", {"distance": 0.015}),
    "distance-0.02": ("hindsight", {"distance": 0.02}),
    "compute": ("hindsight", {"optimize_for": "compute"}),
    "compute-0.3": ("fewer-epochs", {"optimize_for": "compute"}),
    "compute-0.5": ("half-epochs", {"optimize_for": "compute"}),
}
"""Settings by name: a rule of the package or a variant of `experiments.controller.variants`, and its options."""
Row = dict[str, str]


@dataclass(frozen=True)
class Cell:
    """One run: a setting on a task from a start."""

    setting: str
    task: str
    start: str
    seed: int


def run(cell: Cell, commit: str) -> Row:
    """Train one cell and return its row."""
    from adept import cost
    from adept.config import Execution
    from adept.presets import preset
    from adept.training import train
    from experiments.controller.variants import register

    register()
    scheduler, options = SETTINGS[cell.setting]
    config = replace(
        preset(cell.task, scheduler=scheduler), steps=TASKS[cell.task], seed=cell.seed, scheduler_options=options,
        monitor=False,
    )  # fmt: skip
    if cell.start.startswith("K="):
        config = replace(config, epochs=int(cell.start[2:]))
    else:
        config = replace(config, learning_rate=config.learning_rate * float(Fraction(cell.start)))
    lost, records = "", []
    try:
        records = list(train(config, Execution(device="cpu", threads=1)))
    except ValueError as error:  # a loss that is no longer finite: the run is lost, and scores what it had
        lost = str(error)[:80]
    scores = np.array([record["score"] for record in records])
    last = records[-1]
    return {
        "setting": cell.setting,
        "options": json.dumps(options, sort_keys=True),
        "task": cell.task,
        "start": cell.start,
        "steps": str(TASKS[cell.task]),
        "seed": str(cell.seed),
        "commit": commit,
        "mean_score": f"{np.nanmean(scores):.6g}",
        "final_score": f"{scores[-1]:.6g}",
        "epochs": f"{sum(record['epochs_done'] for record in records):.0f}",
        "update_passes": f"{sum(cost.update(config, config.batch_size) * r['epochs_done'] for r in records):.6g}",
        "processor_seconds": f"{last['processor_seconds']:.4g}",
        "last_learning_rate": f"{last['learning_rate']:.4g}",
        "mean_kl": f"{np.nanmean([record['approx_kl_last_epoch'] for record in records]):.4g}",
        "lost": lost,
    }


def read() -> list[Row]:
    """Return the trials on file."""
    if not TRIALS.exists():
        return []
    with TRIALS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_current(row: Row) -> bool:
    """Return whether a row's run had the steps that its task has now; DoorKey had half of them at first."""
    return int(row["steps"]) == TASKS[row["task"]]


def cells(settings: list[str], seeds: list[int], starts: list[str], tasks: list[str]) -> Iterator[Cell]:
    """Yield the cells that are not on file, seeds outermost: every setting has the same seeds at any time."""
    done = {(row["setting"], row["task"], row["start"], int(row["seed"])) for row in read() if is_current(row)}
    for seed, task, start, setting in itertools.product(seeds, tasks, starts, settings):
        if (setting, task, start, seed) not in done:
            yield Cell(setting, task, start, seed)


def run_all(wanted: list[Cell], workers: int) -> None:
    """Run cells in processes, and append each row as it comes."""
    from experiments.controller import trials  # workers find the function by this name

    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    commit = described.stdout.strip()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(trials.run, cell, commit) for cell in wanted]):
            row = future.result()
            new = not TRIALS.exists()
            with TRIALS.open("a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, row, lineterminator="\n")
                if new:
                    writer.writeheader()
                writer.writerow(row)
            told = (row[name] for name in ("setting", "task", "start", "seed", "mean_score", "processor_seconds"))
            print(*told, row["lost"], flush=True)


def table(rows: list[Row]) -> str:
    """Return mean scores by setting (rows) and task and start (columns), means over seeds."""
    lines = []
    for task in TASKS:
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            if row["task"] == task and is_current(row):
                found[row["setting"]][row["start"]].append(float(row["mean_score"]))
        if not found:
            continue
        lines += [
            f"\n## {task}\n",
            f"| setting | {' | '.join(STARTS)} | n |",
            "| --- |" + " ---: |" * (len(STARTS) + 1),
        ]
        for setting in dict.fromkeys((*SETTINGS, *found)):  # those that are gone come last: their rows have the commit
            if setting in found:
                means = [_shown(found[setting].get(start, [])) for start in STARTS]
                n = max(len(values) for values in found[setting].values())
                lines.append(f"| {setting} | {' | '.join(means)} | {n} |")
    return "\n".join(lines)


def _shown(values: list[float]) -> str:
    if not values:
        return ""
    mean = math.fsum(values) / len(values)
    return f"{mean:.0f}" if abs(mean) >= 100 else f"{mean:.3g}"


def main() -> None:
    """Run trials, or print their table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=f"of {', '.join(SETTINGS)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--starts", nargs="+", default=["1/30", "1/10", "1", "10", "30"])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.what == "table":
        print(table(read()))
        return
    from experiments.controller import trials

    trials.run_all(list(trials.cells(given.settings, given.seeds, given.starts, given.tasks)), given.workers)


if __name__ == "__main__":
    main()
