"""What the hindsight controller does for Stable-Baselines3's PPO with its own defaults, against a grid around them.

    pip install 'adept-rl[sb3,envpool]'
    python -m experiments.stable_baselines3.advice run        # resumes: runs that have a record are not run again
    python -m experiments.stable_baselines3.advice overhead   # processor time with advice and without, in turns

`run` goes from cheap to expensive: the first task before the second, and of each the methods in question for all seeds
before the grid. `--tasks`, `--methods` and `--seeds` choose some. Several may run at once: a run that another process
has begun is left to it; after a kill, delete its `.part` file. Delete a record to run it again.

The grid is n_epochs × learning rate around the defaults, which rl-zoo3's tuned values lie within. Its best cell is
chosen afterwards, by the mean return over seeds: nobody can have it without trying all nine.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from adept.records import current_name
from experiments.stable_baselines3.record import recorder
from paper.measures import RESULTS
from paper.words import table as markdown_table

OUT = RESULTS / "sb3-advice"
TASKS = {"CartPole-v1": 61_440, "Acrobot-v1": 61_440, "Pendulum-v1": 81_920, "Hopper-v4": 102_400}
"""Environment steps of each task. All settings are SB3's defaults: one environment, 2048 steps, lr 3e-4, K = 10."""
POOLED = ("Hopper-v4",)
"""Tasks with MuJoCo, which EnvPool brings along."""
EPOCHS = (3, 10, 20)
RATES = (1e-4, 3e-4, 1e-3)
GRID = tuple(f"fixed-{epochs}-{rate:g}" for epochs, rate in itertools.product(EPOCHS, RATES))
HINDSIGHT: dict[str, dict[str, str]] = {
    "hindsight": {},
    "hindsight-compute": {"optimize_for": "compute"},
    "shared": {"critic": "shared"},
    "shared-compute": {"optimize_for": "compute", "critic": "shared"},
}
"""Options of the hindsight controller by method."""
QUESTION = ("default", *HINDSIGHT)
TIMED = ("default", "shared", "shared-compute")
"""Methods whose processor time is compared: all others were run later, on other machines than the default."""
CELLS = tuple("default" if cell == "fixed-10-0.0003" else cell for cell in GRID)
"""The grid, whose middle is the default."""
METHODS = tuple(dict.fromkeys((*QUESTION, *CELLS)))
LABELS = {"default": "default: K = 10, learning rate 0.0003"} | {
    method: ", ".join(['`"hindsight"`', *(f'`"{name}": "{value}"`' for name, value in options.items())])
    for method, options in HINDSIGHT.items()
}
SEEDS = (1, 2, 3, 4, 5)
COLUMNS = ("step", "gradient_steps", "episode_return", "seconds", "cpu_seconds", "epochs", "lr_scale")


def settings(method: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the keyword arguments of PPO and the callbacks that make a method."""
    from adept.integrations.sb3 import AdeptCallback

    if method == "default":
        return {}, []
    if method in HINDSIGHT:
        return {}, [AdeptCallback({"name": "hindsight", **HINDSIGHT[method]}, verbose=0)]
    _, epochs, rate = method.split("-", 2)
    return {"n_epochs": int(epochs), "learning_rate": float(rate)}, []


def environment(task: str, seed: int) -> Any:
    """Return one environment, monitored, as SB3 wants it."""
    import gymnasium
    from stable_baselines3.common.env_util import make_vec_env

    if task not in POOLED:
        return make_vec_env(task, seed=seed)
    import envpool

    class Single(gymnasium.Env[Any, Any]):
        """The only environment of a pool, which SB3 resets itself at the end of an episode."""

        def __init__(self) -> None:
            self.pool = envpool.make_gymnasium(task, num_envs=1, seed=seed)
            self.observation_space, self.action_space = self.pool.observation_space, self.pool.action_space

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            return self.pool.reset()[0][0], {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            observation, reward, terminated, truncated, _ = self.pool.step(np.asarray(action, np.float64)[None])
            return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    return make_vec_env(Single, seed=seed)


def run_one(task: str, method: str, seed: int, path: Path) -> None:
    """Train once and write the record: a row per iteration, the last one after the last update."""
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    options, callbacks = settings(method)
    model = PPO("MlpPolicy", environment(task, seed), seed=seed, device="cpu", **options)
    rows: list[list[float]] = []

    def chosen(model: Any) -> tuple[float, float]:
        choice = callbacks[0].engine.settings if callbacks else None
        return (model.n_epochs, 1.0) if choice is None else (choice.epochs, choice.lr_scale)

    model.learn(TASKS[task], callback=[*callbacks, recorder(rows, chosen)])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "made_with"])
        made_with = f"{versions()}; {callbacks[0].rule!r}" if callbacks else versions()
        writer.writerows([*row, made_with if not number else ""] for number, row in enumerate(rows))


def versions() -> str:
    """Return what runs are made with, for their records."""
    packages = ("stable-baselines3", "torch", "gymnasium", "numpy")
    return ", ".join([platform.machine(), *(f"{name} {metadata.version(name)}" for name in packages)])


def cells(options: argparse.Namespace) -> Iterator[tuple[str, str, int, Path]]:
    """Yield every run and where its record is, in the order in which they are carried out."""
    for task in options.tasks:
        for methods in (QUESTION, METHODS[len(QUESTION) :]):
            for seed, method in itertools.product(options.seeds, methods):
                if method in options.methods:
                    yield task, method, seed, record_path(options.out, task, method, seed)


def record_path(out: Path, task: str, method: str, seed: int) -> Path:
    """Return where the record of a run is."""
    return out / task / f"{method}-seed{seed}.csv"


def run(options: argparse.Namespace) -> None:
    """Carry out what has no record yet."""
    for task, method, seed, path in cells(options):
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        try:
            part.touch(exist_ok=False)
        except FileExistsError:
            continue  # another process has begun it
        print(f"{task} {method} seed {seed}", flush=True)
        try:
            run_one(task, method, seed, part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def read(path: Path) -> dict[str, float]:
    """Return the figures of one run: return at its end and on average, gradient steps and processor time."""
    with path.open(encoding="utf-8") as file:
        table = csv.DictReader(file)
        assert table.fieldnames is not None
        table.fieldnames = [current_name(name) for name in table.fieldnames]
        rows = [{name: float(row[name]) for name in COLUMNS} for row in table]
    return {
        "final": rows[-1]["episode_return"],
        "mean": float(np.nanmean([row["episode_return"] for row in rows])),
        "gradient_steps": rows[-1]["gradient_steps"],
        "cpu_seconds": rows[-1]["cpu_seconds"],
        "lr_scale": rows[-1]["lr_scale"],
    }


def records(out: Path) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Return the figures of the runs that have a record, by task and method."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for task, method, seed in itertools.product(TASKS, METHODS, SEEDS):
        path = record_path(out, task, method, seed)
        if path.exists():
            found.setdefault(task, {}).setdefault(method, []).append(read(path))
    return found


def table(found: Mapping[str, Mapping[str, Sequence[dict[str, float]]]]) -> str:
    """Return a row for each task and method in question, and for the best cell of the grid where it is complete."""
    rows = []
    planned = len(TASKS) * len(METHODS) * len(SEEDS)
    missing = planned - sum(len(runs) for methods in found.values() for runs in methods.values())
    for task, methods in found.items():
        done = {method: len(methods.get(method, ())) for method in METHODS}
        complete = all(done[method] == len(SEEDS) for method in CELLS)
        grid = {method: _mean(methods[method], "mean") for method in CELLS} if complete else {}
        best = [max(grid, key=lambda method: grid[method])] if complete else []
        for method in dict.fromkeys([*QUESTION, *best]):
            if runs := methods.get(method):
                better = sum(score > _mean(runs, "mean") for score in grid.values())
                cells = (
                    task,
                    ("best of the grid: " if method in best else "") + _label(method, done[method]),
                    _error(runs, "final"),
                    _error(runs, "mean"),
                    f"{better} of {len(CELLS)}" if complete else "",
                    _share(runs, methods, "gradient_steps"),
                    _share(runs, methods, "cpu_seconds") if method in TIMED else "",
                )
                rows.append(cells)
    header = ("task", "setting", "return at the end", "mean return over the run", "better cells", "gradient steps",
              "processor time")  # fmt: skip
    note = f"\n\n{missing} of {planned} runs are missing." if missing else ""
    return markdown_table(header, rows, 5) + note


BLOCKS = {"sb3-advice": lambda: table(records(OUT))}


def _label(method: str, seeds: int) -> str:
    name = LABELS.get(method) or "K = {1}, learning rate {2}".format(*method.split("-", 2))
    return name if seeds == len(SEEDS) else f"{name} ({seeds} of {len(SEEDS)} seeds)"


def _mean(runs: Sequence[dict[str, float]], name: str) -> float:
    return float(np.mean([run[name] for run in runs]))


def _error(runs: Sequence[dict[str, float]], name: str) -> str:
    """Return a mean over seeds and its standard error."""
    error = f" ± {np.std([run[name] for run in runs], ddof=1) / len(runs) ** 0.5:.0f}" if len(runs) > 1 else ""
    return f"{_mean(runs, name):.0f}{error}"


def _share(runs: Sequence[dict[str, float]], methods: Mapping[str, Sequence[dict[str, float]]], name: str) -> str:
    """Return a mean over seeds as a share of the default's."""
    return f"{100 * _mean(runs, name) / _mean(methods['default'], name):.0f} %" if "default" in methods else ""


def overhead(options: argparse.Namespace) -> None:
    """Train two equal models in one process, one with advice, an iteration each in turns; print what advice adds.

    Both do the same updates, bit for bit. As they take turns, what else the machine does falls on both alike. `added`
    is the mean difference of the pairs over the mean without advice.
    """
    import torch
    from stable_baselines3 import PPO

    from adept.integrations.sb3 import AdeptCallback

    torch.set_num_threads(1)
    print("| task | iterations | processor s without | with advice | added | standard error |")
    print("| --- | --- | --- | --- | --- | --- |")
    for task in options.tasks:
        models = {
            monitored: PPO("MlpPolicy", environment(task, 1), seed=1, device="cpu") for monitored in (False, True)
        }
        callback = AdeptCallback(verbose=0)
        spent: dict[bool, list[float]] = {False: [], True: []}
        for iteration in range(options.iterations):
            for monitored in (iteration % 2 == 1, iteration % 2 == 0):  # each goes first as often as the other
                start = time.process_time()
                models[monitored].learn(2048, callback=callback if monitored else None, reset_num_timesteps=False)
                spent[monitored].append(time.process_time() - start)
        plain, advised = (np.array(spent[key][1:]) for key in (False, True))  # the first iteration judges nothing
        added = (advised - plain) / plain.mean()
        error = added.std(ddof=1) / np.sqrt(len(added))
        print(
            f"| {task} | {len(plain)} | {plain.mean():.2f} | {advised.mean():.2f} | {100 * added.mean():+.1f} % "
            f"| {100 * error:.1f} % |",
            flush=True,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    running.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    running.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    running.add_argument("--out", type=Path, default=OUT)
    running.set_defaults(call=run)
    measuring = commands.add_parser("overhead")
    measuring.add_argument("--tasks", nargs="+", default=["CartPole-v1", "Pendulum-v1"])
    measuring.add_argument("--iterations", type=int, default=21)
    measuring.set_defaults(call=overhead)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
