"""Stable-Baselines3's PPO from learning rates × 1/10, 1 and 10, fixed and with hindsight; `starts.toml` declares it.

pip install 'adept-rl[sb3,envpool]'
python -m experiments.stable_baselines3.starts run --part 1 --of 2    makes every second pair of runs that is missing
python -m experiments results/sb3-starts/README.md                    writes the tables, from the rows
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tomllib

from experiments.stable_baselines3.advice import environment, versions
from experiments.stable_baselines3.record import recorder
from experiments.start_anywhere.analysis import point
from paper.intervals import student
from paper.measures import RESULTS
from paper.words import table

OUT = RESULTS / "sb3-starts"
COLUMNS = ("task", "factor", "method", "seed", "untrained", "mean", "final", "gradient_steps", "cpu_seconds",
           "lr_scale", "made_with")  # fmt: skip
Cell = tuple[str, float, str, int]
"""task, factor of the learning rate, method, seed"""


@dataclass(frozen=True)
class Declaration:
    """The whole experiment as data."""

    seeds: tuple[int, ...]
    learning_rate: float
    factors: tuple[float, ...]
    methods: tuple[str, ...]
    tasks: dict[str, int]

    def cells(self) -> list[list[Cell]]:
        """Return the runs in the order in which they are made, as pairs: one run of each method."""
        places = itertools.product(self.seeds, self.tasks, self.factors)
        return [[(task, factor, method, seed) for method in self.methods] for seed, task, factor in places]


def load() -> Declaration:
    """Return the declaration."""
    values = tomllib.loads(Path(__file__).with_name("starts.toml").read_text(encoding="utf-8"))
    return Declaration(**{name: tuple(each) if isinstance(each, list) else each for name, each in values.items()})


def rows_of(out: Path) -> dict[Cell, dict[str, float]]:
    """Return the numbers of the runs that are done."""
    path = out / "runs.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {
            (row["task"], float(row["factor"]), row["method"], int(row["seed"])): {
                name: float(row[name]) for name in COLUMNS[4:-1]
            }
            for row in csv.DictReader(file)
        }


def run(declared: Declaration, out: Path, part: int, of: int) -> None:
    """Make the runs of every `of`-th pair that are missing; two processes with other parts may share the file."""
    out.mkdir(parents=True, exist_ok=True)
    for pair in declared.cells()[part - 1 :: of]:
        for cell in pair:
            if cell not in rows_of(out):
                print(*cell, flush=True)
                append(out / "runs.csv", [*cell, *run_one(declared, cell).values(), versions()])


def append(path: Path, row: Sequence[Any]) -> None:
    """Add a row, under the header if it is the first."""
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not file.tell():
            writer.writerow(COLUMNS)
        writer.writerow(row)


def run_one(declared: Declaration, cell: Cell) -> dict[str, float]:
    """Train once; return its numbers."""
    import torch
    from stable_baselines3 import PPO

    from adept.integrations.sb3 import AdeptCallback

    torch.set_num_threads(1)
    task, factor, method, seed = cell
    callbacks = [] if method == "fixed" else [AdeptCallback(method, verbose=0)]
    rate = declared.learning_rate * factor
    model = PPO("MlpPolicy", environment(task, seed), learning_rate=rate, seed=seed, device="cpu")
    rows: list[list[float]] = []
    model.learn(declared.tasks[task], callback=[*callbacks, recorder(rows, lambda model: ())])
    scores = np.array([row[2] for row in rows])
    return {
        "untrained": float(scores[np.isfinite(scores)][0]),
        "mean": float(np.nanmean(scores)),
        "final": float(scores[-1]),
        "gradient_steps": rows[-1][1],
        "cpu_seconds": rows[-1][4],
        "lr_scale": callbacks[0].engine.settings.lr_scale if callbacks else 1.0,
    }


def starts_table() -> str:
    """Return the block of results/sb3-starts/README.md, from the rows."""
    return tables(load(), rows_of(OUT))


def tables(declared: Declaration, rows: Mapping[Cell, Mapping[str, float]]) -> str:
    """Return how many runs are done, a row for each task and start, and one for each start over all tasks."""
    planned = [cell for pair in declared.cells() for cell in pair]
    done = sum(cell in rows for cell in planned)
    axes = (declared.tasks, declared.factors, declared.methods, declared.seeds)
    cells = list(itertools.product(*axes))
    shape = tuple(len(axis) for axis in axes)
    scores = np.array([rows[cell]["mean"] if cell in rows else math.nan for cell in cells]).reshape(shape)
    by_task = []
    for task, of_task in zip(declared.tasks, scores, strict=True):
        for factor, (fixed, ours) in zip(declared.factors, of_task, strict=True):
            pairs = ours - fixed
            ahead = f"{np.sum(pairs > 0)} of {np.isfinite(pairs).sum()}"
            by_task.append((task, f"× {factor:g}", mean(fixed), mean(ours), mean(pairs, "+"), ahead))
    header = ("task", "learning rate", "fixed", "hindsight", "hindsight - fixed", "pairs ahead")
    text = f"{done} of {len(planned)} runs are done.\n\n{table(header, by_task, 4)}"
    if done < len(planned):
        return text
    untrained = [
        np.mean([row["untrained"] for cell, row in rows.items() if cell[0] == task]) for task in declared.tasks
    ]
    base = np.array(untrained)[:, None, None, None]
    best = scores[:, :, 0].mean(-1).max(-1)[:, None, None, None]
    shares = (scores - base) / (best - base)
    over_tasks = []
    for index, factor in enumerate(declared.factors):
        fixed, ours = shares[:, index, 0], shares[:, index, 1]
        over_tasks.append((f"× {factor:g}", *(str(point(each, np.mean)) for each in (fixed, ours, ours - fixed))))
    return f"{text}\n\n{table(('learning rate', 'fixed', 'hindsight', 'hindsight - fixed'), over_tasks, 3)}"


def mean(values: npt.NDArray[np.float64], sign: str = "") -> str:
    """Return the mean over the seeds that are done, with Student's 95 % interval."""
    known = values[np.isfinite(values)]
    if not len(known):
        return ""
    digits = 0 if abs(known).max() >= 10 else 2
    found = student(known)
    text = f"{found.value:{sign}.{digits}f}"
    if len(known) > 1:
        text += f" [{found.low:{sign}.{digits}f}, {found.high:{sign}.{digits}f}]"
    return text if len(known) == len(values) else f"{text} (n = {len(known)})"


BLOCKS = {"sb3-starts": starts_table}


def main() -> None:
    """Make the runs that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run",))
    parser.add_argument("--part", type=int, default=1)
    parser.add_argument("--of", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    run(load(), options.out, options.part, options.of)


if __name__ == "__main__":
    main()
