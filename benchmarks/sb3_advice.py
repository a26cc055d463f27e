"""What the hindsight controller does for Stable-Baselines3's PPO with its own defaults, against a grid around them.

    pip install 'adept-rl[sb3,envpool]'
    python -m benchmarks.sb3_advice run        # resumes: runs that have a record are not run again
    python -m benchmarks.sb3_advice report     # the tables, from the records
    python -m benchmarks.sb3_advice overhead   # processor time of advice, advice and none taking turns in one process

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
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sb3_record import recorder

OUT = Path(__file__).parent.parent / "results" / "sb3-advice"
TASKS = {"CartPole-v1": 61_440, "Acrobot-v1": 61_440, "Pendulum-v1": 81_920, "Hopper-v4": 102_400}
"""Environment steps of each task. All settings are SB3's defaults: one environment, 2048 steps, lr 3e-4, K = 10."""
POOLED = ("Hopper-v4",)
"""Tasks with MuJoCo, which EnvPool brings along."""
EPOCHS = (3, 10, 20)
RATES = (1e-4, 3e-4, 1e-3)
GRID = tuple(f"fixed-{epochs}-{rate:g}" for epochs, rate in itertools.product(EPOCHS, RATES))
QUESTION = ("default", "hindsight", "hindsight-compute")
METHODS = (*QUESTION, *(cell for cell in GRID if cell != "fixed-10-0.0003"))
"""`default` is the middle of the grid."""
SEEDS = (1, 2, 3, 4, 5)
COLUMNS = ("step", "gradient_steps", "episode_return", "seconds", "cpu_seconds", "epochs", "stride")


def settings(method: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the keyword arguments of PPO and the callbacks that make a method."""
    from adept.integrations.sb3 import AdeptCallback

    if method == "default":
        return {}, []
    if method == "hindsight":
        return {}, [AdeptCallback("hindsight", verbose=0)]
    if method == "hindsight-compute":
        return {}, [AdeptCallback({"name": "hindsight", "dear": "compute"}, verbose=0)]
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
        choice = callbacks[0].pilot.choice if callbacks else None
        return (model.n_epochs, 1.0) if choice is None else (choice.epochs, choice.stride)

    model.learn(TASKS[task], callback=[*callbacks, recorder(rows, chosen)])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "made_with"])
        made_with = f"{_versions()}; {callbacks[0].scheduler!r}" if callbacks else _versions()
        writer.writerows([*row, made_with if not number else ""] for number, row in enumerate(rows))


def _versions() -> str:
    packages = ("stable-baselines3", "torch", "gymnasium", "numpy")
    return ", ".join([platform.machine(), *(f"{name} {metadata.version(name)}" for name in packages)])


def cells(options: argparse.Namespace) -> Iterator[tuple[str, str, int, Path]]:
    """Yield every run and where its record is, in the order in which they are carried out."""
    for task in options.tasks:
        for methods in (QUESTION, METHODS[len(QUESTION) :]):
            for seed, method in itertools.product(options.seeds, methods):
                if method in options.methods:
                    yield task, method, seed, options.out / task / f"{method}-seed{seed}.csv"


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
        rows = [{name: float(row[name]) for name in COLUMNS} for row in csv.DictReader(file)]
    return {
        "final": rows[-1]["episode_return"],
        "mean": float(np.nanmean([row["episode_return"] for row in rows])),
        "gradient_steps": rows[-1]["gradient_steps"],
        "cpu_seconds": rows[-1]["cpu_seconds"],
        "stride": rows[-1]["stride"],
    }


def report(options: argparse.Namespace) -> None:
    """Print a table for each task with records: means over seeds ± standard errors."""
    for task in options.tasks:
        found: dict[str, list[dict[str, float]]] = {}
        for name, method, _, path in cells(options):
            if name == task and path.exists():
                found.setdefault(method, []).append(read(path))
        if found:
            print("\n".join(table(task, found, seeds=len(options.seeds))))


def table(task: str, found: dict[str, list[dict[str, float]]], seeds: int) -> list[str]:
    """Return the lines of a task's table; the best cell of the grid is named where every cell has all seeds."""
    grid = {method: found.get(method, []) for method in METHODS if method == "default" or method in GRID}
    missing = sum(seeds - len(runs) for runs in grid.values())
    best = max(grid, key=lambda method: np.mean([run["mean"] for run in grid[method]])) if not missing else ""
    lines = [
        f"\n### {task}, {TASKS[task]:,} steps\n",
        "| method | seeds | return at the end | mean return | gradient steps | processor s | last stride |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for method in dict.fromkeys([*QUESTION, *([best] if best else [])]):
        if method in found:
            label = f"best of the grid: {method}" if method == best else method
            lines.append(f"| {label} | {len(found[method])}/{seeds} | {_row(found[method])} |")
    if missing:
        lines.append(f"\nOf the grid's {len(grid) * seeds} runs {missing} are missing: no best cell is named.")
    return lines


def _row(runs: Sequence[dict[str, float]]) -> str:
    def shown(name: str, digits: int) -> str:
        values = np.array([run[name] for run in runs])
        error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
        return f"{values.mean():.{digits}f}{error}"

    steps, cpu = (float(np.mean([run[name] for run in runs])) for name in ("gradient_steps", "cpu_seconds"))
    return f"{shown('final', 1)} | {shown('mean', 1)} | {steps:,.0f} | {cpu:.0f} | {shown('stride', 2)}"


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
        models = {watched: PPO("MlpPolicy", environment(task, 1), seed=1, device="cpu") for watched in (False, True)}
        callback = AdeptCallback(verbose=0)
        spent: dict[bool, list[float]] = {False: [], True: []}
        for iteration in range(options.iterations):
            for watched in (iteration % 2 == 1, iteration % 2 == 0):  # each goes first as often as the other
                start = time.process_time()
                models[watched].learn(2048, callback=callback if watched else None, reset_num_timesteps=False)
                spent[watched].append(time.process_time() - start)
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
    for name, call in (("run", run), ("report", report)):
        command = commands.add_parser(name)
        command.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
        command.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
        command.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
        command.add_argument("--out", type=Path, default=OUT)
        command.set_defaults(call=call)
    measuring = commands.add_parser("overhead")
    measuring.add_argument("--tasks", nargs="+", default=["CartPole-v1", "Pendulum-v1"])
    measuring.add_argument("--iterations", type=int, default=21)
    measuring.set_defaults(call=overhead)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
