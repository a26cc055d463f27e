"""Stable-Baselines3's PPO from learning rates × 1/10, 1 and 10, fixed and with hindsight; `starts.toml` declares it.

pip install 'adept-rl[sb3,envpool]'
python -m experiments.stable_baselines3.starts run --part 1 --of 2    makes every second pair of runs that is missing
python -m experiments.stable_baselines3.starts write                  results/sb3-starts/README.md, from the rows
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tomllib

from experiments.stable_baselines3.advice import environment, versions
from experiments.stable_baselines3.record import recorder
from experiments.start_anywhere.analysis import point

OUT = Path(__file__).parents[2] / "results" / "sb3-starts"
COLUMNS = ("task", "factor", "method", "seed", "untrained", "mean", "final", "gradient_steps", "cpu_seconds",
           "lr_scale", "made_with")  # fmt: skip
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""The 97.5 % point of Student's distribution, by the number of seeds."""

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


class Table:
    """The mean scores as tasks × factors × methods × seeds, NaN where a run is missing."""

    def __init__(self, declared: Declaration, rows: dict[Cell, dict[str, float]]) -> None:
        self.declared, self.rows = declared, rows
        axes = (declared.tasks, declared.factors, declared.methods, declared.seeds)
        cells = list(itertools.product(*axes))
        shape = tuple(len(axis) for axis in axes)
        self.scores = np.array([rows[cell]["mean"] if cell in rows else math.nan for cell in cells]).reshape(shape)
        own = {task: [row["untrained"] for cell, row in rows.items() if cell[0] == task] for task in declared.tasks}
        self.untrained = np.array([np.mean(own[task]) if own[task] else math.nan for task in declared.tasks])

    def shares(self) -> npt.NDArray[np.float64]:
        """Return the scores as shares of the progress of each task's best fixed start."""
        base = self.untrained[:, None, None, None]
        best = self.scores[:, :, 0].mean(-1).max(-1)[:, None, None, None]
        return (self.scores - base) / (best - base)

    def lines(self) -> Iterator[str]:
        """Yield a row for each task and start, then one for each start over all tasks."""
        declared, scores = self.declared, self.scores
        yield "| task | learning rate | fixed | hindsight | hindsight - fixed | pairs ahead |"
        yield "| --- | --- | ---: | ---: | ---: | ---: |"
        for (place, task), (index, factor) in itertools.product(enumerate(declared.tasks), enumerate(declared.factors)):
            fixed, ours = scores[place, index]
            ahead = f"{np.sum(ours > fixed)} of {np.isfinite(ours - fixed).sum()}"
            cells = (task, f"× {factor:g}", mean(fixed), mean(ours), mean(ours - fixed, sign="+"), ahead)
            yield f"| {' | '.join(cells)} |"
        if np.isnan(scores).any():
            return
        shares = self.shares()
        yield ""
        yield "| learning rate | fixed | hindsight | hindsight - fixed |"
        yield "| --- | ---: | ---: | ---: |"
        for index, factor in enumerate(declared.factors):
            fixed, ours = shares[:, index, 0], shares[:, index, 1]
            cells = (f"× {factor:g}", *(str(point(each, np.mean)) for each in (fixed, ours, ours - fixed)))
            yield f"| {' | '.join(cells)} |"


def mean(values: npt.NDArray[np.float64], *, sign: str = "") -> str:
    """Return the mean over the seeds that are done, with Student's 95 % interval."""
    known = values[np.isfinite(values)]
    if not len(known):
        return ""
    digits = 0 if abs(known).max() >= 10 else 2
    found = f"{known.mean():{sign}.{digits}f}"
    if len(known) == 1:
        return f"{found} (1 seed)"
    half = STUDENT[len(known)] * known.std(ddof=1) / math.sqrt(len(known))
    seeds = "" if len(known) == len(values) else f" ({len(known)} seeds)"
    return f"{found} ± {half:.{digits}f}{seeds}"


def page(declared: Declaration, rows: dict[Cell, dict[str, float]]) -> str:
    """Return the page of the rows that are there."""
    table = Table(declared, rows)
    done = sum(cell in rows for pair in declared.cells() for cell in pair)
    planned = sum(map(len, declared.cells()))
    rates = ", ".join(f"{declared.learning_rate * factor:g}" for factor in declared.factors)
    return (
        "# Stable-Baselines3's PPO from three learning rates\n\n"
        f"{done} of {planned} runs are done: n = {len(declared.seeds)} seeds, learning rates {rates}, all else SB3's "
        "defaults. `experiments/stable_baselines3/starts.toml` declares the experiment, `runs.csv` has a row per run, "
        "`python -m experiments.stable_baselines3.starts write` writes this page.\n\n"
        "Scores are means over the whole run, in units of return, with Student's 95 % interval over seeds. The second "
        "table has shares of each task's progress, (score - untrained)/(best fixed start - untrained), as means over "
        "tasks with two 95 % bootstrap intervals: over seeds, and over tasks and seeds. The best fixed start is chosen "
        "after the fact.\n\n" + "\n".join(table.lines()) + "\n"
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "write"))
    parser.add_argument("--part", type=int, default=1)
    parser.add_argument("--of", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    declared = load()
    if options.command == "run":
        run(declared, options.out, options.part, options.of)
    else:
        (options.out / "README.md").write_text(page(declared, rows_of(options.out)), encoding="utf-8")


if __name__ == "__main__":
    main()
