"""Does it learn? Our PPO beside Stable-Baselines3's, same hyperparameters and fixed epochs, several seeds.

python benchmarks/learning.py [--workers 2]    runs what is missing in results/learning, then prints the table.
Every run is one CSV of step and mean return of the last 100 episodes; a finished one is not run again.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "learning"
sys.path.insert(0, str(ROOT))

SEEDS = (1, 2, 3)
TASKS = {"minigrid/DoorKey-6x6": 400_000, "pybullet/HalfCheetah": 300_000, "pybullet/Hopper": 300_000}
PROCGEN = {"procgen/coinrun": 300_000}
"""A short run, ours alone, whose return has to leave the random policy's: that of the first rollout."""


def cells() -> list[tuple[str, str, int, int]]:
    both = [("sb3", task, seed, steps) for task, steps in TASKS.items() for seed in SEEDS]
    ours = [("adept", task, seed, steps) for task, steps in (TASKS | PROCGEN).items() for seed in SEEDS]
    return both + [cell for cell in ours if cell[1] not in PROCGEN or cell[2] == SEEDS[0]]


def result_path(library: str, task: str, seed: int) -> Path:
    return RESULTS / f"{library}-{task.replace('/', '-')}-seed{seed}.csv"


def run(cell: tuple[str, str, int, int]) -> None:
    from adept.presets import preset
    from adept.records import write_aside

    library, task, seed, steps = cell
    path = result_path(library, task, seed)
    if path.exists():
        return
    config = replace(preset(task, scheduler="fixed"), seed=seed, steps=steps)
    rows = run_adept(config) if library == "adept" else run_sb3(config)
    text = "step,score\n" + "".join(f"{step},{score:.6g}\n" for step, score in rows)
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_aside(path, text)
    print(f"{library} {task} seed {seed}: {rows[-1][1]:.3f}", flush=True)


def run_adept(config: object) -> list[tuple[int, float]]:
    from adept.training import train

    return [(int(record["step"]), record["score"]) for record in train(config)]  # type: ignore[arg-type]


def run_sb3(config: object) -> list[tuple[int, float]]:
    from stable_baselines3.common.callbacks import BaseCallback

    from adept.config import Config
    from benchmarks.baseline import model

    assert isinstance(config, Config)
    rows: list[tuple[int, float]] = []
    recent: deque[float] = deque(maxlen=100)

    class Listen(BaseCallback):
        def _on_step(self) -> bool:
            recent.extend(info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
            return True

        def _on_rollout_end(self) -> None:
            rows.append((self.num_timesteps, float(np.mean(recent)) if recent else np.nan))

    model(config, config.arms[0]).learn(config.iterations * config.batch_size, callback=Listen())
    return rows


def scores(library: str, task: str, seed: int) -> np.ndarray:
    with open(result_path(library, task, seed)) as file:
        return np.array([[float(row["step"]), float(row["score"])] for row in csv.DictReader(file)])


def report() -> None:
    print(f"\n{'task':<24}{'adept':>30}{'stable-baselines3':>30}   mean ratio")
    for task in TASKS:
        final = {library: [scores(library, task, seed)[-1, 1] for seed in SEEDS] for library in ("adept", "sb3")}
        shown = {library: " ".join(f"{value:9.3f}" for value in values) for library, values in final.items()}
        ratio = np.mean(final["adept"]) / np.mean(final["sb3"])
        print(f"{task:<24}{shown['adept']:>30}{shown['sb3']:>30}   {ratio:.3f}")
    for library in ("adept", "sb3"):
        curves = [scores(library, "minigrid/DoorKey-6x6", seed) for seed in SEEDS]
        reached = [next((int(step) for step, score in curve if score >= 0.9), None) for curve in curves]
        print(f"minigrid/DoorKey-6x6, steps to a mean return of 0.9, {library}: {reached}")
    for task in PROCGEN:
        curve = scores("adept", task, SEEDS[0])
        known = curve[~np.isnan(curve[:, 1])]
        print(f"{task}: {known[0, 1]:.2f} in the first rollouts, {known[-1, 1]:.2f} after {int(known[-1, 0]):,} steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=("adept", "sb3"), help="run the cells of one library, and print nothing")
    options = parser.parse_args()
    chosen = [cell for cell in cells() if options.only in (None, cell[0])]
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(run, chosen):
            pass
    if options.only is None:
        report()


if __name__ == "__main__":
    main()
