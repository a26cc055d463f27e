"""Does it learn? Our PPO beside Stable-Baselines3's, same hyperparameters and fixed epochs, several seeds.

python -m experiments.stable_baselines3.learning [--workers 2]    runs what is missing in results/learning

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
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adept.config import Config
from adept.report.figures import WIDTH, Drawing, legend, new_figure, our_style, step_axis
from paper.measures import RESULTS
from paper.words import table

RECORDS = RESULTS / "learning"
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
    """Return library, task, seed and steps of every run."""
    return [(library, task, seed, STEPS[task]) for (library, task), seeds in SEEDS.items() for seed in seeds]


def result_path(library: str, task: str, seed: int) -> Path:
    """Return where the record of a run is."""
    return RECORDS / f"{library}-{task.replace('/', '-')}-seed{seed}.csv"


def run(cell: tuple[str, str, int, int]) -> None:
    """Train, if that was not done before, and write the record."""
    from adept.presets import preset
    from adept.runs.safe_io import write_aside

    library, task, seed, steps = cell
    path = result_path(library, task, seed)
    if path.exists():
        return
    config = replace(preset(task, scheduler="fixed"), seed=seed, steps=steps)
    rows = RUNNERS[library](config)
    text = "step,score\n" + "".join(f"{step},{score:.6g}\n" for step, score in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, text)
    print(f"{library} {task} seed {seed}: {rows[-1][1]:.3f}", flush=True)


def run_adept(config: Config) -> list[tuple[int, float]]:
    """Return steps and scores of our PPO."""
    from adept.training import train

    return [(int(record["step"]), record["score"]) for record in train(config)]


def run_random(config: Config) -> list[tuple[int, float]]:
    """Return steps and scores of random actions."""
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
    """Return steps and scores of Stable-Baselines3's PPO."""
    from stable_baselines3.common.callbacks import BaseCallback

    from experiments.stable_baselines3.baseline import Pool, environments, model, normalized

    rows: list[tuple[int, float]] = []
    recent: deque[float] = deque(maxlen=100)

    class Listen(BaseCallback):
        def _on_step(self) -> bool:
            recent.extend(info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
            return not (config.backend == "minigrid" and on_envpool and rows and rows[-1][1] >= SOLVED)

        def _on_rollout_end(self) -> None:
            rows.append((self.num_timesteps, float(np.mean(recent)) if recent else np.nan))

    vector = normalized(config, Pool(config)) if on_envpool else environments(config)
    model(config, config.epochs, vector).learn(config.iterations * config.batch_size, callback=Listen())
    return rows


RUNNERS: dict[str, Callable[[Config], list[tuple[int, float]]]] = {
    "adept": run_adept,
    "sb3": run_sb3,
    "sb3-envpool": partial(run_sb3, on_envpool=True),
    "random": run_random,
}


def scores(library: str, task: str, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the record of a run: a row of step and score for each iteration."""
    with result_path(library, task, seed).open(encoding="utf-8") as file:
        return np.array([[float(row["step"]), float(row["score"])] for row in csv.DictReader(file)])


def done(library: str, task: str) -> list[int]:
    """Return the seeds that have a record."""
    return [seed for seed in SEEDS[library, task] if result_path(library, task, seed).exists()]


def first(curve: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the first score of a run, that of an untrained policy."""
    return float(curve[np.isfinite(curve[:, 1]), 1][0])


def presets_table() -> str:
    """Return, for a task of each family, the share of Stable-Baselines3's gain over the untrained policy that ours is.

    Untrained policies are alike in both libraries, so the return of one is the mean over all first scores.
    """
    rng = np.random.default_rng(0)
    rows = []
    for task in PRESETS:
        sides = [[scores(library, task, seed) for seed in done(library, task)] for library in ("adept", "sb3-envpool")]
        if not all(sides):
            continue
        start = float(np.mean([first(curve) for curves in sides for curve in curves]))
        ends = [np.array([curve[-1, 1] for curve in curves]) for curves in sides]
        drawn = [[rng.choice(end, len(end)).mean() - start for end in ends] for _ in range(4000)]
        low, high = np.quantile([ours / theirs for ours, theirs in drawn], (0.025, 0.975))
        share = (ends[0].mean() - start) / (ends[1].mean() - start)
        each = [f"{end.mean():.0f} ({end.min():.0f} to {end.max():.0f})" for end in ends]
        seeds = " and ".join(dict.fromkeys(str(len(end)) for end in ends))
        name = f"{task.partition('/')[2]}, {STEPS[task] // 1000} k"
        rows.append([name, seeds, f"{start:.0f}", *each, f"{100 * share:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"])
    header = ("task, steps", "seeds", "untrained", "ours, mean return", "Stable-Baselines3's", "share [95 %]")
    return table(header, rows, 5)


def atari() -> str:
    """Return the score of the short Atari run beside that of random actions."""
    ours, random = (scores(library, ATARI, 1)[-1, 1] for library in ("adept", "random"))
    return (
        f"Atari, {ATARI.partition('/')[2]}, {STEPS[ATARI] // 1000} k steps, one seed: a return of {ours:.1f} a "
        f"life (rewards of -1, 0 and 1), and {random:.1f} with random actions."
    )


BLOCKS = {"learning": lambda: f"{presets_table()}\n\n{atari()}"}


@our_style()
def drawings() -> list[Drawing]:
    """Draw every run as a thin line: ours and Stable-Baselines3's, a panel per task."""
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
    legend(figure)
    caption = "Mean return of the last 100 episodes; each line is a run."
    return [Drawing("learning", "Learning curves of both libraries", caption, figure, [])]


def main() -> None:
    """Run what is missing, seed by seed, so that what there is when it is stopped compares both sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=tuple(RUNNERS), help="the runs of one library")
    parser.add_argument("--tasks", nargs="+", choices=tuple(STEPS), default=list(STEPS))
    options = parser.parse_args()
    asked = [cell for cell in cells() if options.only in (None, cell[0]) and cell[1] in options.tasks]
    asked.sort(key=lambda cell: (options.tasks.index(cell[1]), cell[2]))
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(run, asked):
            pass


if __name__ == "__main__":
    main()
