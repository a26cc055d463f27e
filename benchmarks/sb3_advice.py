"""What the hindsight controller does for Stable-Baselines3's PPO with its own defaults, against a grid around them.

    pip install 'adept-rl[sb3]' 'gymnasium[mujoco]'
    python benchmarks/sb3_advice.py run        # resumes: runs that have a record are not run again
    python benchmarks/sb3_advice.py report     # the table, from the records
    python benchmarks/sb3_advice.py overhead   # processor time of advice, advice and none taking turns in one process

The grid is n_epochs × learning rate, each a third of the default, the default and three times it. Its best cell is
chosen afterwards, by the mean return over seeds: nobody can have it without trying all nine.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

OUT = Path(__file__).parent.parent / "results" / "sb3-advice"
TASKS = {"CartPole-v1": 61_440, "Acrobot-v1": 61_440, "Pendulum-v1": 81_920, "Hopper-v5": 102_400}
"""Environment steps of each task. All settings are SB3's defaults: one environment, 2048 steps, lr 3e-4, K = 10."""
EPOCHS = (3, 10, 30)
RATES = (1e-4, 3e-4, 1e-3)
GRID = tuple(f"fixed-{epochs}-{rate:g}" for epochs, rate in itertools.product(EPOCHS, RATES))
METHODS = ("default", "hindsight", "hindsight-compute", *(cell for cell in GRID if cell != "fixed-10-0.0003"))
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


def run_one(task: str, method: str, seed: int, path: Path) -> None:
    """Train once and write the record: a row per iteration, the last one after the last update."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    options, callbacks = settings(method)
    model = PPO("MlpPolicy", make_vec_env(task, seed=seed), seed=seed, device="cpu", **options)
    rows: list[list[float]] = []

    class Record(BaseCallback):
        gradient_steps = 0

        def _on_training_start(self) -> None:
            self.start = time.perf_counter(), time.process_time()
            model.policy.optimizer.register_step_post_hook(self.count)

        def count(self, *_: Any) -> None:
            self.gradient_steps += 1

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            self.write()

        def _on_training_end(self) -> None:
            self.write()

        def write(self) -> None:
            episodes = [episode["r"] for episode in model.ep_info_buffer]
            mean = float(np.mean(episodes)) if episodes else float("nan")
            wall, cpu = time.perf_counter() - self.start[0], time.process_time() - self.start[1]
            choice = callbacks[0].pilot.choice if callbacks else None
            epochs, stride = (model.n_epochs, 1.0) if choice is None else (choice.epochs, choice.stride)
            rows.append([model.num_timesteps, self.gradient_steps, mean, wall, cpu, epochs, stride])

    model.learn(TASKS[task], callback=[*callbacks, Record()])
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    with unfinished.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    unfinished.replace(path)


def cells(seeds: tuple[int, ...] = SEEDS) -> Iterator[tuple[str, str, int, Path]]:
    """Yield every run and where its record is, seed by seed, so that a study that is cut short has whole seeds."""
    for seed, task, method in itertools.product(seeds, TASKS, METHODS):
        yield task, method, seed, OUT / task / f"{method}-seed{seed}.csv"


def run(options: argparse.Namespace) -> None:
    """Carry out what has no record yet."""
    for task, method, seed, path in cells(tuple(options.seeds)):
        if not path.exists():
            print(f"{task} {method} seed {seed}", flush=True)
            run_one(task, method, seed, path)


def read(path: Path) -> dict[str, float]:
    """Return the figures of one run: return at its end and on average, gradient steps and processor time."""
    with path.open(encoding="utf-8") as file:
        table = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return {
        "final": table[-1]["episode_return"],
        "mean": float(np.nanmean([row["episode_return"] for row in table])),
        "gradient_steps": table[-1]["gradient_steps"],
        "cpu_seconds": table[-1]["cpu_seconds"],
        "stride": table[-1]["stride"],
    }


def report(options: argparse.Namespace) -> None:
    """Print a table for each task: means over seeds ± standard errors."""
    for task in TASKS:
        found: dict[str, list[dict[str, float]]] = {}
        for name, method, _, path in cells():
            if name == task and path.exists():
                found.setdefault(method, []).append(read(path))
        grid = {method: runs for method, runs in found.items() if method in GRID or method == "default"}
        best = max(grid, key=lambda method: np.mean([run["mean"] for run in grid[method]]), default=None)
        print(f"\n### {task}, {TASKS[task]:,} steps\n")
        print("| method | seeds | return at the end | mean return | gradient steps | processor s |")
        print("| --- | --- | --- | --- | --- | --- |")
        for method in dict.fromkeys(["default", "hindsight", "hindsight-compute", *([best] if best else [])]):
            if method in found:
                label = f"best of the grid: {method}" if method == best and method != "default" else method
                print(f"| {label} | {len(found[method])} | {_row(found[method])} |")
        if best == "default":
            print("\nThe best cell of the grid is the default.")


def _row(runs: list[dict[str, float]]) -> str:
    def shown(name: str, digits: int) -> str:
        values = np.array([run[name] for run in runs])
        error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
        return f"{values.mean():.{digits}f}{error}"

    steps, cpu = (float(np.mean([run[name] for run in runs])) for name in ("gradient_steps", "cpu_seconds"))
    return f"{shown('final', 1)} | {shown('mean', 1)} | {steps:,.0f} | {cpu:.0f}"


def overhead(options: argparse.Namespace) -> None:
    """Train without and with advice in turns, in one process; print the processor time that advice adds."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    from adept.integrations.sb3 import AdeptCallback

    torch.set_num_threads(1)
    print("| task | processor s without | with advice | added |\n| --- | --- | --- | --- |")
    for task in ("CartPole-v1", "Pendulum-v1"):
        spent: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(options.pairs):
            for watched in (False, True):
                model = PPO("MlpPolicy", make_vec_env(task, seed=1), seed=1, device="cpu")
                callback = AdeptCallback(verbose=0) if watched else None
                start = time.process_time()
                model.learn(options.steps, callback=callback)
                spent[watched].append(time.process_time() - start)
        plain, advised = (np.array(spent[key]) for key in (False, True))
        added = 100 * float(np.median(advised / plain - 1))
        print(f"| {task} | {np.median(plain):.2f} | {np.median(advised):.2f} | {added:+.1f} % |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    running.set_defaults(call=run)
    commands.add_parser("report").set_defaults(call=report)
    measuring = commands.add_parser("overhead")
    measuring.add_argument("--pairs", type=int, default=5)
    measuring.add_argument("--steps", type=int, default=20_480)
    measuring.set_defaults(call=overhead)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
