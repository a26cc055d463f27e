"""How fast is it? Whole training loops beside Stable-Baselines3's: same hyperparameters, network and steps.

python -m benchmarks.throughput [--tasks minigrid …] [--repeats 3]    prints the table and writes results/throughput.
Both sides run in turn, iteration by iteration, in one process with one thread of PyTorch. Some iterations make a
block, and a ratio is the median over the blocks: of whole iterations, and of the updates alone, which do not depend on
the environments. Beside the clock's ratio stands that of CPU time, which other programs on the machine disturb less.
What comes before the first block (making environments and networks, a first iteration) is left out and printed on its
own. A row is written as soon as it is measured, with the commit and the machine. Uncommitted changes are refused
unless --no-write is given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from adept.algorithms.learner import mean_metrics
from adept.config import Config, Execution
from adept.envs import Array, Discrete
from adept.presets import preset
from adept.runs.machine import describe
from adept.schedulers import make_scheduler
from adept.trainer_engine import preset_settings
from adept.training import Trainer
from benchmarks.tables import RESULTS
from benchmarks.tables import write as write_table

PARTS = ("tasks", "epochs", "memory")
EXECUTION = Execution(device="cpu")


class Task(NamedTuple):
    """What is run, and how many iterations make a block; the target is the least ratio to reach."""

    env: str
    target: float
    iterations: int
    rollout_length: int | None = None
    """In place of the paper's, where its iteration would take minutes."""


TASKS = {
    "minigrid": Task("minigrid/DoorKey-6x6", 10.0, 12),
    "halfcheetah": Task("pybullet/HalfCheetah", 5.0, 4),
    "ant": Task("pybullet/Ant", 2.5, 4),
    "bigfish": Task("procgen/bigfish", 1.5, 1, rollout_length=32),
}


Seconds = dict[str, float]
"""By the clock, of the processor, and what parts took by the clock."""


def make_config(task: Task) -> Config:
    config = preset(task.env, scheduler="fixed")
    return replace(config, rollout_length=task.rollout_length or config.rollout_length)


def timed(work: Callable[[], Seconds]) -> Seconds:
    clock, processor = time.perf_counter(), time.process_time()
    parts = work()
    return {"clock": time.perf_counter() - clock, "processor": time.process_time() - processor, **parts}


class Ours:
    """Our trainer, one iteration at a time."""

    def __init__(self, config: Config) -> None:
        self.trainer = Trainer(config, EXECUTION)
        self._records = iter(self.trainer)

    def iterate(self) -> Seconds:
        """Run one iteration; return the seconds of its parts."""
        record = next(self._records)
        return {name: record[f"{name}_seconds"] for name in ("environment", "inference", "update")}

    def close(self) -> None:
        """Free the environments."""
        self.trainer.close()


class Theirs:
    """Stable-Baselines3, one iteration at a time."""

    def __init__(self, config: Config) -> None:
        from experiments.stable_baselines3.baseline import model

        self._rows, self._updating = config.batch_size, 0.0
        self._model = model(config, config.epochs)
        train = self._model.train

        def timed_train() -> None:
            started = time.perf_counter()
            train()
            self._updating += time.perf_counter() - started

        self._model.train = timed_train  # type: ignore[method-assign]

    def iterate(self) -> Seconds:
        """Run one iteration; return the seconds of its update."""
        self._updating = 0.0
        self._model.learn(self._rows, reset_num_timesteps=False)
        return {"update": self._updating}

    def close(self) -> None:
        """Free the environments."""
        self._model.get_env().close()  # type: ignore[union-attr]


def environment_alone(trainer: Trainer) -> float:
    """Return the steps per second of our environments under random actions, with nothing else running."""
    environments, config = trainer.environments, trainer.config
    rng = np.random.default_rng(0)
    actions = environments.actions
    shape = (config.rollout_length, config.environments)
    taken: Array = (
        rng.integers(actions.n, size=shape)
        if isinstance(actions, Discrete)
        else (rng.uniform(actions.low, actions.high, (*shape, len(actions.low))).astype(np.float32))
    )
    environments.restart(0)
    started = time.perf_counter()
    for action in taken:
        environments.step(action)
    return config.batch_size / (time.perf_counter() - started)


def in_turn(ours: Ours, theirs: Theirs, iterations: int) -> tuple[Seconds, Seconds]:
    """Run a block of each side, their iterations alternating; return the sums of their seconds."""
    pairs = [(timed(ours.iterate), timed(theirs.iterate)) for _ in range(iterations)]
    mine, other = ({part: sum(each[part] for each in side) for part in side[0]} for side in zip(*pairs, strict=True))
    return mine, other


def measure(task: Task, repeats: int) -> dict[str, Any]:
    """Return the figures of one task."""
    config = make_config(task)
    started = time.perf_counter()
    ours = Ours(config)
    ours.iterate()
    start_up = time.perf_counter() - started
    theirs = Theirs(config)
    theirs.iterate()
    blocks = [in_turn(ours, theirs, task.iterations) for _ in range(repeats)]
    alone = median(environment_alone(ours.trainer) for _ in range(repeats))
    ours.close()
    theirs.close()
    mine, other = zip(*blocks, strict=True)
    steps = task.iterations * config.batch_size
    clock = median(block["clock"] for block in mine)
    parts = [part for part in mine[0] if part not in ("clock", "processor")]
    shares = {part: median(block[part] / block["clock"] for block in mine) for part in parts}
    ratios = {part: [sb3[part] / own[part] for own, sb3 in blocks] for part in ("clock", "processor", "update")}
    return {
        "env": config.env,
        "size": f"{config.environments} × {config.rollout_length}, minibatch {config.minibatch_size}",
        "epochs": config.epochs,
        "ours": steps / clock,
        "sb3": steps / median(block["clock"] for block in other),
        "ratio": median(ratios["clock"]),
        "ratio_lowest": min(ratios["clock"]),
        "ratio_highest": max(ratios["clock"]),
        "ratio_cpu": median(ratios["processor"]),
        "ratio_update": median(ratios["update"]),
        "ratio_update_lowest": min(ratios["update"]),
        "ratio_update_highest": max(ratios["update"]),
        "target": task.target,
        **{f"share_{name}": share for name, share in shares.items()},
        "share_rest": median(1 - sum(block[part] for part in parts) / block["clock"] for block in mine),
        "sb3_share_update": median(block["update"] / block["clock"] for block in other),
        "environment_alone": alone,
        "network_alone": steps / (clock * (shares["inference"] + shares["update"])),
        "start_up_seconds": max(start_up - clock / task.iterations, 0.0),
    }


def linear_in_epochs(task: Task, repeats: int) -> dict[str, Any]:
    """Fit seconds = a + b·K to iterations of K epochs, and weigh a decision of the scheduler against them.

    Seconds are of CPU time, and of each K the median. Each rollout is used for every K, so that its own time, which
    varies with what happens in it, is the same for all.
    """
    trainer = Trainer(make_config(task), EXECUTION)
    trainer.collector.restart(0)
    collecting: list[float] = []
    updating: dict[int, list[float]] = {epochs: [] for epochs in (1, 2, 4, 8, 12)}
    for _ in range(1 + 2 * repeats):
        started = time.process_time()
        rollout = trainer.collector.collect()
        collecting.append(time.process_time() - started)
        for count, times in updating.items():
            started = time.process_time()
            mean_metrics(list(trainer.learner.epochs(rollout, preset_settings(trainer.config, count, 1e-4))))
            times.append(time.process_time() - started)
    trainer.close()
    epochs = np.array(list(updating))
    seconds = np.array([median(collecting[1:]) + median(times[1:]) for times in updating.values()])
    slope, offset = np.polyfit(epochs, seconds, 1)
    unexplained = ((seconds - offset - slope * epochs) ** 2).sum() / ((seconds - seconds.mean()) ** 2).sum()
    deciding = seconds_per_decision()
    return {
        "env": task.env,
        "epochs": epochs.tolist(),
        "seconds": seconds.tolist(),
        "seconds_per_epoch": float(slope),
        "seconds_without_update": float(offset),
        "r_squared": 1 - float(unexplained),
        "scheduler_seconds": deciding,
        "scheduler_share": deciding / float(seconds.min()),
    }


def seconds_per_decision(calls: int = 5000) -> float:
    scheduler = make_scheduler("ucb", (4, 2, 1), seed=0)
    started = time.process_time()
    for index in range(calls):
        scheduler.step(float(index % 7))
    return (time.process_time() - started) / calls


def peak_memory() -> float:
    """Return the peak of memory, in GB, of this process after one iteration on Procgen at the paper's size."""
    trainer = Trainer(replace(preset(TASKS["bigfish"].env, scheduler="fixed"), epochs=1), EXECUTION)
    next(iter(trainer))
    trainer.close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def show(rows: list[dict[str, Any]]) -> None:
    header = f"{'':<22}{'ours':>9}{'SB3':>8}{'ratio':>8}{'(range)':>15}{'CPU':>7}{'update':>8}{'target':>8}"
    print(header + f"{'env':>7}{'infer':>7}{'update':>8}{'rest':>6}{'env alone':>11}{'net alone':>11}{'start-up':>10}")
    for row in rows:
        spread = f"({row['ratio_lowest']:.1f} to {row['ratio_highest']:.1f})"
        shares = [row[f"share_{name}"] for name in ("environment", "inference", "update", "rest")]
        print(
            f"{row['env']:<22}{row['ours']:>9,.0f}{row['sb3']:>8,.0f}{row['ratio']:>7.1f}×{spread:>15}"
            f"{row['ratio_cpu']:>6.1f}×{row['ratio_update']:>7.1f}×{row['target']:>7.1f}×"
            f"{shares[0]:>7.0%}{shares[1]:>7.0%}{shares[2]:>8.0%}{shares[3]:>6.0%}"
            f"{row['environment_alone']:>11,.0f}{row['network_alone']:>11,.0f}{row['start_up_seconds']:>9.1f}s"
        )


def show_rest(found: dict[str, Any]) -> None:
    for row in found["tasks"]:
        if row["env"] == TASKS["minigrid"].env:
            steps = 500_000
            seconds = steps / row["ours"]
            whole = row["ratio"] * seconds / (seconds + row["start_up_seconds"])
            print(f"{row['env']} over {steps:,} steps, our start-up included: {whole:.1f}× (nothing is compiled)")
    for fit in found["epochs"]:
        print(
            f"{fit['env']}: {fit['seconds_without_update'] * 1e3:.0f} ms + {fit['seconds_per_epoch'] * 1e3:.1f} ms"
            f" × K, R² = {fit['r_squared']:.4f}; a decision of the scheduler takes"
            f" {fit['scheduler_seconds'] * 1e6:.0f} µs, {fit['scheduler_share']:.4%} of an iteration with K = 1"
        )
    for row in found["memory"]:
        print(f"{row['env']} at 64 × 256: peak memory of the process {row['peak_gb']:.2f} GB")


def read() -> dict[str, Any]:
    """Return what is recorded; a row of another commit is kept until it is measured again."""
    path = RESULTS / "throughput.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    return {part: known.get(part, []) for part in PARTS}


def write(found: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "throughput.json").write_text(json.dumps(found, indent=2) + "\n")
    rows = [{key: value for key, value in row.items() if key != "machine"} for row in found["tasks"]]
    write_table(RESULTS / "throughput.csv", rows)


def measurements(tasks: list[str], repeats: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every row that was asked for, and the part of the table it belongs to."""
    if "bigfish" in tasks:  # first, since a process inherits the peak of the one that starts it
        with multiprocessing.get_context("spawn").Pool(1) as process:
            yield "memory", {"env": TASKS["bigfish"].env, "peak_gb": process.apply(peak_memory)}
    for name in tasks:
        yield "tasks", measure(TASKS[name], repeats)
        if name in ("minigrid", "halfcheetah"):
            yield "epochs", linear_in_epochs(TASKS[name], repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    compared = {name: metadata.version(name) for name in ("stable-baselines3", "minigrid")}
    machine = {**describe(), "compared": compared}
    if machine["dirty"] and not options.no_write:
        raise SystemExit("there are uncommitted changes: commit them first, or add --no-write")
    found = {part: [] for part in PARTS} if options.no_write else read()
    for part, row in measurements(options.tasks, options.repeats):
        others = [other for other in found[part] if other["env"] != row["env"]]
        order = [task.env for task in TASKS.values()]
        found[part] = sorted([*others, {**row, "machine": machine}], key=lambda entry: order.index(entry["env"]))
        if not options.no_write:
            write(found)
    show([row for row in found["tasks"] if "ratio_update" in row])
    show_rest(found)


if __name__ == "__main__":
    main()
