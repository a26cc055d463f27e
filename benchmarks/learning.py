"""Does it learn? Our PPO beside Stable-Baselines3's, same hyperparameters and fixed epochs, several seeds.

python benchmarks/learning.py [--workers 2]    runs what is missing in results/learning, then prints the table
                                               and draws docs/images/learning.png.
Every run is one CSV of step and mean return of the last 100 episodes; a finished one is not run again.

Whether a seed solves DoorKey is luck to a degree that three seeds do not tell: there are ten of ours, and of
Stable-Baselines3 on the same EnvPool environments, where a run ends once it has solved the task.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from adept.config import Config

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "learning"
sys.path.insert(0, str(ROOT))

SEEDS = (1, 2, 3)
LUCK = ("minigrid/DoorKey-6x6", range(1, 11))
SOLVED = 0.9
TASKS = {"minigrid/DoorKey-6x6": 400_000, "pybullet/HalfCheetah": 300_000, "pybullet/Hopper": 300_000}
PROCGEN = {"procgen/coinrun": 300_000}
"""A short run, ours alone, whose return has to leave the random policy's: that of the first rollout."""


def cells() -> list[tuple[str, str, int, int]]:
    both = [(library, task, seed, TASKS[task]) for library in ("sb3", "adept") for task in TASKS for seed in SEEDS]
    task, seeds = LUCK
    luck = [(library, task, seed, TASKS[task]) for library in ("adept", "sb3-envpool") for seed in seeds]
    procgen = [("adept", task, SEEDS[0], steps) for task, steps in PROCGEN.items()]
    return list(dict.fromkeys(both + luck + procgen))


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
    rows = run_adept(config) if library == "adept" else run_sb3(config, on_envpool=library == "sb3-envpool")
    text = "step,score\n" + "".join(f"{step},{score:.6g}\n" for step, score in rows)
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_aside(path, text)
    print(f"{library} {task} seed {seed}: {rows[-1][1]:.3f}", flush=True)


def run_adept(config: Config) -> list[tuple[int, float]]:
    from adept.training import train

    return [(int(record["step"]), record["score"]) for record in train(config)]


def run_sb3(config: Config, *, on_envpool: bool) -> list[tuple[int, float]]:
    from stable_baselines3.common.callbacks import BaseCallback

    from benchmarks.baseline import Pool, environments, model

    rows: list[tuple[int, float]] = []
    recent: deque[float] = deque(maxlen=100)

    class Listen(BaseCallback):
        def _on_step(self) -> bool:
            recent.extend(info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
            return not (on_envpool and rows and rows[-1][1] >= SOLVED)

        def _on_rollout_end(self) -> None:
            rows.append((self.num_timesteps, float(np.mean(recent)) if recent else np.nan))

    vector = Pool(config) if on_envpool else environments(config)
    model(config, config.arms[0], vector).learn(config.iterations * config.batch_size, callback=Listen())
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
    task, seeds = LUCK
    for library, chosen in (("adept", SEEDS), ("sb3", SEEDS), ("adept", seeds), ("sb3-envpool", seeds)):
        curves = [scores(library, task, seed) for seed in chosen]
        reached = [next((int(step) for step, score in curve if score >= SOLVED), None) for curve in curves]
        print(f"{task}, steps to a mean return of {SOLVED}, {library}: {reached}")
    for task in PROCGEN:
        curve = scores("adept", task, SEEDS[0])
        known = curve[~np.isnan(curve[:, 1])]
        print(f"{task}: {known[0, 1]:.2f} in the first rollouts, {known[-1, 1]:.2f} after {int(known[-1, 0]):,} steps")


def draw(path: Path) -> None:
    """Draw every run as a thin line: ours and Stable-Baselines3's, a panel per task."""
    import matplotlib

    from adept.report.figures import STYLE, WIDTH, legend, new_figure, step_axis

    with matplotlib.rc_context(STYLE):
        figure, (panels,) = new_figure(1, len(TASKS), WIDTH, 2.6)
        for axes, task in zip(panels, TASKS, strict=True):
            for library, colour, label in (("adept", "#0072b2", "adept"), ("sb3", "#c98a00", "Stable-Baselines3")):
                for seed in SEEDS:
                    steps, score = scores(library, task, seed).T
                    axes.plot(steps, score, color=colour, linewidth=1.2, label=label if seed == SEEDS[0] else None)
            axes.set_title(task.partition("/")[2])
            step_axis(axes)
        panels[0].set_ylabel("mean return of 100 episodes")
        legend(figure, panels[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, bbox_inches="tight", pad_inches=0.08, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", choices=("adept", "sb3", "sb3-envpool"), help="run the cells of one library, and print nothing"
    )
    options = parser.parse_args()
    chosen = [cell for cell in cells() if options.only in (None, cell[0])]
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(run, chosen):
            pass
    if options.only is None:
        report()
        draw(ROOT / "docs" / "images" / "learning.png")


if __name__ == "__main__":
    main()
