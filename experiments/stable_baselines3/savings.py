"""What the paper's bandit saves in Stable-Baselines3's PPO with its own defaults, and what it costs in return.

    pip install 'adept-rl[sb3]' minigrid 'gymnasium[box2d]'
    python -m experiments.stable_baselines3.savings     # resumes: runs that have a record are not run again

Every run differs from the others of its task in the method and the seed alone.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import multiprocessing
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adept.runs.safe_io import write_aside
from experiments.stable_baselines3.record import recorder
from paper.intervals import student
from paper.measures import RESULTS
from paper.words import table

OUT = RESULTS / "sb3-savings" / "records"
TASKS = {"CartPole-v1": 61_440, "LunarLander-v3": 122_880, "MiniGrid-DoorKey-6x6-v0": 122_880}
"""Environment steps of each task: 30 and 60 iterations of 2048."""
METHODS = {"fixed-10": "K = 10, SB3's default", "ucb": "UCB on {10, 5, 1}", "fixed-1": "K = 1"}
"""The first one is what the others are compared with."""
SEEDS = (1, 2, 3, 4, 5)
ARMS = (10, 5, 1)
COLUMNS = ("step", "gradient_steps", "episode_return", "seconds", "cpu_seconds", "gae_return")
Cell = tuple[str, str, int]
"""task, method, seed"""


def make_env(task: str) -> Callable[[], Any]:
    """Return a constructor of the environment; MiniGrid's 7×7×3 view is flattened for the default policy."""
    import gymnasium

    def build() -> Any:
        if not task.startswith("MiniGrid"):
            return gymnasium.make(task)
        from minigrid.wrappers import ImgObsWrapper

        return gymnasium.wrappers.FlattenObservation(ImgObsWrapper(gymnasium.make(task)))

    return build


def run_one(cell: Cell) -> None:
    """Train once and write the record: a row per iteration, the last one after the last update."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    import adept
    from adept.integrations.sb3 import AdeptCallback

    torch.set_num_threads(1)
    task, method, seed = cell
    rows: list[list[float]] = []

    def mean_return(model: Any) -> tuple[float]:
        return (float(model.rollout_buffer.returns.mean()),)

    epochs = int(method.removeprefix("fixed-")) if method.startswith("fixed-") else max(ARMS)
    callbacks = [AdeptCallback(adept.UCB(ARMS))] if method == "ucb" else []
    model = PPO("MlpPolicy", make_vec_env(make_env(task), seed=seed), n_epochs=epochs, seed=seed, device="cpu")
    model.learn(TASKS[task], callback=[*callbacks, recorder(rows, mean_return)])
    lines = [",".join(COLUMNS), *(",".join(f"{round(value, 4)}" for value in row) for row in rows)]
    write_aside(record_path(cell), "\n".join(lines) + "\n")


def record_path(cell: Cell) -> Path:
    """Return where the record of a run is."""
    return OUT / f"{cell[0]}.{cell[1]}.{cell[2]}.csv"


def final(cell: Cell) -> dict[str, float]:
    """Return the last row of a run."""
    with record_path(cell).open(encoding="utf-8") as file:
        return {name: float(value) for name, value in list(csv.DictReader(file))[-1].items()}


def savings_table() -> str:
    """Return returns, their differences to the default with the same seed, and costs relative to it."""
    rows = []
    for task, (method, label) in itertools.product(TASKS, METHODS.items()):
        own = [final((task, method, seed)) for seed in SEEDS]
        base = [final((task, next(iter(METHODS)), seed)) for seed in SEEDS]
        gaps = [mine["episode_return"] - theirs["episode_return"] for mine, theirs in zip(own, base, strict=True)]
        costs = [f"{100 * _mean(own, name) / _mean(base, name):.0f} %" for name in ("gradient_steps", "cpu_seconds")]
        gap = student(gaps)
        differs = "" if not any(gaps) else f"{gap.value:+.3g} [{gap.low:+.3g}, {gap.high:+.3g}]"
        rows.append([task, label, f"{_mean(own, 'episode_return'):.3g}", differs, *costs])
    header = ("task", "method", "return at the end", "less K = 10 [95 %]", "gradient steps", "processor time")
    return table(header, rows, 4)


def _mean(rows: Sequence[dict[str, float]], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


BLOCKS = {"sb3-savings": savings_table}


def main() -> None:
    """Run what is missing: the two methods of the question first, seed after seed, then K = 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    workers = parser.parse_args().workers
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    cells = [(task, method, seed) for methods in (("fixed-10", "ucb"), ("fixed-1",))
             for seed, task, method in itertools.product(SEEDS, TASKS, methods)]  # fmt: skip
    missing = [cell for cell in cells if not record_path(cell).exists()]
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        for number, _ in enumerate(pool.imap_unordered(run_one, missing), 1):
            print(f"{number} of {len(missing)}", flush=True)


if __name__ == "__main__":
    main()
