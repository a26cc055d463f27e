"""What a scheduler saves in Stable-Baselines3's PPO with its own defaults, and what it costs in return.

    pip install 'adept-rl[sb3]' minigrid 'gymnasium[box2d]'
    python -m benchmarks.sb3_savings run        # resumes: runs that have a record are not run again
    python -m benchmarks.sb3_savings report     # the table, from the records
    python -m benchmarks.sb3_savings time       # seconds of an iteration for each arm, on a machine left alone

The study is the three tables below. Every run differs from the others of its task in the method and the seed alone.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sb3_record import recorder

OUT = Path(__file__).parent.parent / "results" / "sb3-savings"
TASKS = {"CartPole-v1": 61_440, "LunarLander-v3": 122_880, "MiniGrid-DoorKey-6x6-v0": 122_880}
"""Environment steps of each task: 30 and 60 iterations of 2048."""
METHODS = ("fixed-10", "ucb", "ucb-standardized", "fixed-1")
"""`fixed-10` is SB3's default, `fixed-1` the cheapest arm; the first one is what the others are compared with."""
SEEDS = (1, 2, 3, 4, 5)
ARMS = (10, 5, 1)
MEASURES = ("episode_return", "gradient_steps", "seconds", "cpu_seconds", "return_difference")
SHOWN = {"episode_return": 2, "return_difference": 2, "gradient_steps": 0, "seconds": 0, "cpu_seconds": 0}
"""The columns of the table and their digits."""
COLUMNS = ("step", "gradient_steps", "episode_return", "seconds", "cpu_seconds", "gae_return")


class Standardized:
    """The mean GAE return of a rollout in standard deviations from the mean of the last ones."""

    def __init__(self, window: int = 20) -> None:
        self.window = window
        self.recent: list[float] = []

    def __call__(self, model: Any) -> float | None:
        """Return the score of the rollout at hand, `None` for the first two, which have nothing to compare with."""
        from adept.integrations.sb3 import mean_return

        value = mean_return(model)
        spread = float(np.std(self.recent)) if len(self.recent) > 1 else 0.0
        score = (value - float(np.mean(self.recent))) / spread if spread > 0 else None
        self.recent = [*self.recent, value][-self.window :]
        return score


def method_callbacks(method: str) -> list[Any]:
    """Return the callbacks that make a method of PPO; none for a fixed number of epochs."""
    import adept
    from adept.integrations.sb3 import AdeptCallback

    if method == "ucb":
        return [AdeptCallback(adept.UCB(ARMS))]
    if method == "ucb-standardized":
        return [AdeptCallback(adept.UCB(ARMS, exploration=1.0), reward=Standardized())]
    return []


def make_env(task: str) -> Callable[[], Any]:
    """Return a constructor of the environment; MiniGrid's 7×7×3 view is flattened for the default policy."""
    import gymnasium

    def build() -> Any:
        if not task.startswith("MiniGrid"):
            return gymnasium.make(task)
        from minigrid.wrappers import ImgObsWrapper

        return gymnasium.wrappers.FlattenObservation(ImgObsWrapper(gymnasium.make(task)))

    return build


def run_one(cell: tuple[str, str, int]) -> None:
    """Train once and write the record: a row per iteration, the last one after the last update."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    task, method, seed = cell
    rows: list[list[float]] = []

    def mean_return(model: Any) -> tuple[float]:
        return (float(model.rollout_buffer.returns.mean()),)

    epochs = int(method.removeprefix("fixed-")) if method.startswith("fixed-") else max(ARMS)
    env = make_vec_env(make_env(task), n_envs=1, seed=seed)
    model = PPO("MlpPolicy", env, n_epochs=epochs, seed=seed, device="cpu")
    model.learn(TASKS[task], callback=[*method_callbacks(method), recorder(rows, mean_return)])
    write_rows(record_path(cell), COLUMNS, [[round(value, 4) for value in row] for row in rows])
    print(f"{task} {method} seed {seed}: {rows[-1]}", flush=True)


def record_path(cell: tuple[str, str, int]) -> Path:
    return OUT / "records" / f"{cell[0]}.{cell[1]}.{cell[2]}.csv"


def write_rows(path: Path, columns: tuple[str, ...], rows: list[list[Any]]) -> None:
    """Write a CSV aside and rename it, so that a record is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    with aside.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    aside.replace(path)


def cells() -> list[tuple[str, str, int]]:
    """Return the whole grid: the two methods of the question first, seed after seed, then the two beside them."""
    grid = itertools.product((METHODS[:2], METHODS[2:]), SEEDS, TASKS)
    return [(task, method, seed) for methods, seed, task in grid for method in methods]


def run(workers: int) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    todo = [cell for cell in cells() if not record_path(cell).exists()]
    print(f"{len(todo)} of {len(cells())} runs to do", flush=True)
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(run_one, todo):
            pass
    packages = ("torch", "stable-baselines3", "gymnasium", "minigrid", "numpy")
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "processor": platform.machine()}
    machine |= {package: metadata.version(package) for package in packages}
    (OUT / "machine.json").write_text(json.dumps(machine | {"workers": workers}, indent=1) + "\n")


def bootstrap(values: list[float], *, resamples: int = 10_000) -> tuple[float, float, float]:
    """Return the mean and the ends of its 95 % percentile bootstrap interval over seeds."""
    draws = np.random.default_rng(0).choice(values, size=(resamples, len(values))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(np.mean(values)), float(low), float(high)


def final_row(cell: tuple[str, str, int]) -> dict[str, float] | None:
    if not record_path(cell).exists():
        return None
    with record_path(cell).open() as file:
        return {name: float(value) for name, value in list(csv.DictReader(file))[-1].items()}


def summarize(task: str, method: str) -> dict[str, list[float]]:
    """Return the last row of every finished run, by column, and the difference in return to the first method."""
    finals = {seed: row for seed in SEEDS if (row := final_row((task, method, seed))) is not None}
    summary = {name: [row[name] for row in finals.values()] for name in MEASURES[:-1]}
    pairs = [(row, final_row((task, METHODS[0], seed))) for seed, row in finals.items()]
    summary["return_difference"] = [
        row["episode_return"] - other["episode_return"] for row, other in pairs if other is not None
    ]
    return summary


def interval(mean: float, low: float, high: float, digits: int) -> str:
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def report() -> None:
    """Write summary.csv and print the table in Markdown, from the records alone."""
    rows = []
    print("| task | method | seeds | final return | less fixed-10 | gradient steps | wall seconds | CPU seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for task, method in itertools.product(TASKS, METHODS):
        summary = summarize(task, method)
        seeds = len(summary["seconds"])
        figures = {name: bootstrap(values) for name, values in summary.items() if values}
        rows.append([task, method, seeds, *(round(value, 3) for three in figures.values() for value in three)])
        cells = [interval(*figures[name], digits) if name in figures else "" for name, digits in SHOWN.items()]
        print(f"| {task} | {method} | {seeds}/{len(SEEDS)} | {' | '.join(cells)} |")
    columns = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
    write_rows(OUT / "summary.csv", ("task", "method", "seeds", *columns), rows)


def measure_time(iterations: int = 4, repeats: int = 3) -> None:
    """Write and print the seconds of an iteration for every arm: the runs' own clocks tell who else was at work."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    rows = []
    for repeat, task, epochs in itertools.product(range(repeats), TASKS, ARMS):
        env = make_vec_env(make_env(task), n_envs=1, seed=repeat)
        model = PPO("MlpPolicy", env, n_epochs=epochs, seed=repeat, device="cpu")
        wall, cpu = time.perf_counter(), time.process_time()
        model.learn(iterations * model.n_steps)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        rows.append([task, epochs, repeat, round(wall / iterations, 3), round(cpu / iterations, 3)])
    write_rows(OUT / "seconds.csv", ("task", "epochs", "repeat", "wall_seconds", "cpu_seconds"), rows)
    for task, epochs in itertools.product(TASKS, ARMS):
        walls = [row[3] for row in rows if row[:2] == [task, epochs]]
        print(f"| {task} | {epochs} | {np.mean(walls):.2f} ({min(walls):.2f} to {max(walls):.2f}) |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "report", "time"))
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.command == "time":
        measure_time()
        return
    if arguments.command == "run":
        run(arguments.workers)
    report()


if __name__ == "__main__":
    main()
