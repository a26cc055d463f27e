"""Does it learn? Our PPO beside Stable-Baselines3's, same hyperparameters and fixed epochs, several seeds.

python benchmarks/learning.py [--workers 2]    runs what is missing in results/learning, then prints the table
                                               and draws results/learning/learning.png.
Every run is one CSV of step and mean return of the last 100 episodes; a finished one is not run again.

The paper's tasks: three seeds are enough where they agree. Whether a seed solves DoorKey, or leaves standing still for
hopping, is luck to a degree that takes ten. On CoinRun a short run of ours stands against random actions.

The presets' tasks, one of each family: five seeds of each side on the same EnvPool environments (`sb3-envpool`), except
Atari, where a short run stands against random actions. What is compared is the gain over the first rollouts, whose
policy is untrained, since returns may be negative. DoorKey's runs of `sb3-envpool` end once they have solved the task.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from adept.config import Config

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "learning"
sys.path.insert(0, str(ROOT))

from benchmarks.page import write  # noqa: E402

FEW, FIVE, MANY = range(1, 4), range(1, 6), range(1, 11)
SOLVED = 0.9
STEPS = {
    "minigrid/DoorKey-6x6": 400_000,
    "pybullet/HalfCheetah": 300_000,
    "pybullet/Hopper": 300_000,
    "procgen/coinrun": 300_000,
    "envpool/CartPole-v1": 100_000,
    "envpool/Acrobot-v1": 100_000,
    "envpool/Pendulum-v1": 100_000,
    "envpool/LunarLander-v3": 200_000,
    "envpool/Hopper-v4": 100_000,
    "envpool/CrazyClimber-v5": 40_000,
}
PRESETS = (
    "envpool/CartPole-v1",
    "envpool/Acrobot-v1",
    "envpool/Pendulum-v1",
    "envpool/LunarLander-v3",
    "envpool/Hopper-v4",
)
"""One task of each family of presets that is compared with Stable-Baselines3, in order of its compute."""
CLOSE = ("envpool/Pendulum-v1",)
"""Tasks on which five seeds of each side did not decide it, so that there are ten."""
ATARI = "envpool/CrazyClimber-v5"
PAGE = ROOT / "results" / "learning" / "README.md"

SEEDS = {
    ("adept", "minigrid/DoorKey-6x6"): MANY,
    ("sb3", "minigrid/DoorKey-6x6"): FEW,
    ("sb3-envpool", "minigrid/DoorKey-6x6"): MANY,
    ("adept", "pybullet/HalfCheetah"): FEW,
    ("sb3", "pybullet/HalfCheetah"): FEW,
    ("adept", "pybullet/Hopper"): MANY,
    ("sb3", "pybullet/Hopper"): MANY,
    ("adept", "procgen/coinrun"): range(1, 2),
    ("random", "procgen/coinrun"): range(1, 2),
    **{(library, task): MANY if task in CLOSE else FIVE for task in PRESETS for library in ("adept", "sb3-envpool")},
    ("adept", "envpool/CrazyClimber-v5"): range(1, 2),
    ("random", "envpool/CrazyClimber-v5"): range(1, 2),
}


def cells() -> list[tuple[str, str, int, int]]:
    return [(library, task, seed, STEPS[task]) for (library, task), seeds in SEEDS.items() for seed in seeds]


def result_path(library: str, task: str, seed: int) -> Path:
    return RESULTS / f"{library}-{task.replace('/', '-')}-seed{seed}.csv"


def run(cell: tuple[str, str, int, int]) -> None:
    from adept.presets import preset
    from adept.runs.safe_io import write_aside

    library, task, seed, steps = cell
    path = result_path(library, task, seed)
    if path.exists():
        return
    config = replace(preset(task, scheduler="fixed"), seed=seed, steps=steps)
    rows = RUNNERS[library](config)
    text = "step,score\n" + "".join(f"{step},{score:.6g}\n" for step, score in rows)
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_aside(path, text)
    print(f"{library} {task} seed {seed}: {rows[-1][1]:.3f}", flush=True)


def run_adept(config: Config) -> list[tuple[int, float]]:
    from adept.training import train

    return [(int(record["step"]), record["score"]) for record in train(config)]


def run_random(config: Config) -> list[tuple[int, float]]:
    from adept.envs import Discrete, make_environments

    environments = make_environments(config)
    assert isinstance(environments.actions, Discrete)
    environments.restart(config.seed)
    rng, returns = np.random.default_rng(config.seed), np.zeros(config.environments)
    rows: list[tuple[int, float]] = []
    recent: deque[float] = deque(maxlen=100)
    for iteration in range(1, config.iterations + 1):
        for _ in range(config.rollout_length):
            result = environments.step(rng.integers(environments.actions.n, size=config.environments))
            returns += result.rewards
            done = result.terminated | result.truncated
            recent.extend(returns[done])
            returns[done] = 0.0
        rows.append((iteration * config.batch_size, float(np.mean(recent)) if recent else np.nan))
    return rows


def run_sb3(config: Config, *, on_envpool: bool = False) -> list[tuple[int, float]]:
    from stable_baselines3.common.callbacks import BaseCallback

    from benchmarks.baseline import Pool, environments, model, normalized

    rows: list[tuple[int, float]] = []
    recent: deque[float] = deque(maxlen=100)

    class Listen(BaseCallback):
        def _on_step(self) -> bool:
            recent.extend(info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
            return not (config.backend == "minigrid" and on_envpool and rows and rows[-1][1] >= SOLVED)

        def _on_rollout_end(self) -> None:
            rows.append((self.num_timesteps, float(np.mean(recent)) if recent else np.nan))

    vector = normalized(config, Pool(config)) if on_envpool else environments(config)
    model(config, config.arms[0], vector).learn(config.iterations * config.batch_size, callback=Listen())
    return rows


RUNNERS: dict[str, Callable[[Config], list[tuple[int, float]]]] = {
    "adept": run_adept,
    "sb3": run_sb3,
    "sb3-envpool": partial(run_sb3, on_envpool=True),
    "random": run_random,
}


def scores(library: str, task: str, seed: int) -> np.ndarray:
    with open(result_path(library, task, seed)) as file:
        return np.array([[float(row["step"]), float(row["score"])] for row in csv.DictReader(file)])


def done(library: str, task: str) -> list[int]:
    return [seed for seed in SEEDS[library, task] if result_path(library, task, seed).exists()]


def first(curve: np.ndarray) -> float:
    """Return the first score of a run, that of an untrained policy."""
    return float(curve[np.isfinite(curve[:, 1]), 1][0])


def presets_table() -> str:
    """Return, for a task of each family, the share of Stable-Baselines3's gain over the untrained policy that ours is.

    Untrained policies are alike in both libraries, so the return of one is the mean over all first scores.
    """
    rng = np.random.default_rng(0)
    lines = [
        "| task, steps | seeds | untrained | ours, mean return | Stable-Baselines3's | share [95 %] |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for task in PRESETS:
        sides = {library: [scores(library, task, seed) for seed in done(library, task)]
                 for library in ("adept", "sb3-envpool")}  # fmt: skip
        if not all(sides.values()):
            continue
        start = float(np.mean([first(curve) for curves in sides.values() for curve in curves]))
        ends = [np.array([curve[-1, 1] for curve in curves]) for curves in sides.values()]
        drawn = [[rng.choice(end, len(end)).mean() - start for end in ends] for _ in range(4000)]
        low, high = np.quantile([ours / theirs for ours, theirs in drawn], (0.025, 0.975))
        share = (ends[0].mean() - start) / (ends[1].mean() - start)
        each = [f"{end.mean():.0f} ({end.min():.0f} to {end.max():.0f})" for end in ends]
        seeds = " and ".join(dict.fromkeys(str(len(end)) for end in ends))
        name = f"{task.partition('/')[2]}, {STEPS[task] // 1000} k"
        interval = f"{100 * share:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
        lines.append(f"| {' | '.join([name, seeds, f'{start:.0f}', *each, interval])} |")
    if done("adept", ATARI) and done("random", ATARI):
        ours, random = (scores(library, ATARI, 1)[-1, 1] for library in ("adept", "random"))
        lines.append(
            f"\nAtari, {ATARI.partition('/')[2]}, {STEPS[ATARI] // 1000} k steps, one seed: a return of {ours:.1f} a "
            f"life (rewards of -1, 0 and 1), and {random:.1f} with random actions."
        )
    return "\n".join(lines)


def report() -> None:
    for library, task in SEEDS:
        seeds = done(library, task)
        if not seeds:
            continue
        curves = [scores(library, task, seed) for seed in seeds]
        final = [float(curve[-1, 1]) for curve in curves]
        print(
            f"\n{task}, {library}: mean {np.mean(final):.3f} of {len(final)}, {np.mean(final[:3]):.3f} of seeds 1 to 3"
        )
        print("  each: " + " ".join(f"{value:.3f}" for value in final))
        if task.startswith("minigrid"):
            reached = [next((int(step) for step, score in curve if score >= SOLVED), None) for curve in curves]
            print(f"  steps to a mean return of {SOLVED}: {reached}")
        if task.startswith("procgen"):
            print(f"  mean over the last third of the run: {np.mean(curves[0][-len(curves[0]) // 3 :, 1]):.2f}")


def draw(path: Path) -> None:
    """Draw every run as a thin line: ours and Stable-Baselines3's, a panel per task."""
    import matplotlib

    from adept.report.figures import STYLE, WIDTH, legend, new_figure, step_axis

    with matplotlib.rc_context(STYLE):
        tasks = [task for task in STEPS if ("sb3", task) in SEEDS]
        figure, (panels,) = new_figure(1, len(tasks), WIDTH, 2.6)
        for axes, task in zip(panels, tasks, strict=True):
            for library, colour, label in (("adept", "#0072b2", "adept"), ("sb3", "#c98a00", "Stable-Baselines3")):
                for seed in SEEDS[library, task]:
                    steps, score = scores(library, task, seed).T
                    axes.plot(steps, score, color=colour, linewidth=0.9, label=label if seed == 1 else None)
            axes.set_title(task.partition("/")[2])
            step_axis(axes)
        panels[0].set_ylabel("mean return of 100 episodes")
        legend(figure, panels[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, bbox_inches="tight", pad_inches=0.08, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=tuple(RUNNERS), help="run the cells of one library, and print nothing")
    parser.add_argument("--tasks", nargs="+", choices=tuple(STEPS), help="run these tasks alone, and draw nothing")
    parser.add_argument("--report", action="store_true", help="run nothing; print the table of the runs that are there")
    parser.add_argument(
        "--page", action="store_true", help="with --report: the table into results/learning/README.md, too"
    )
    options = parser.parse_args()
    if options.report:
        report()
        print(presets_table())
        if options.page:
            write("learning", presets_table(), PAGE)
        return
    asked = [cell for cell in cells() if options.only in (None, cell[0]) and cell[1] in (options.tasks or STEPS)]
    # Seed by seed, so that what there is when it is stopped compares both sides.
    chosen = sorted(asked, key=lambda cell: (options.tasks or list(STEPS)).index(cell[1]) * 100 + cell[2])
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(run, chosen):
            pass
    if options.only is None and options.tasks is None:
        report()
        print(presets_table())
        draw(PAGE.parent / "learning.png")


if __name__ == "__main__":
    main()
