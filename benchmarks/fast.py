"""How much faster are the fast paths for small networks than the reference? Both train in turn, in one process.

    python -m benchmarks.fast [--repeats 5] [--seconds 3]    writes results/throughput/fast.csv

Every round lets both run for some seconds of processor time, monitoring off. A ratio is that of environment steps per
processor second, and the median over the rounds is taken; the first iteration of each is not counted.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from statistics import median
from typing import Any

from adept.config import Config, Execution
from adept.presets import preset
from adept.runs.machine import describe
from adept.training import Trainer
from benchmarks.tables import RESULTS, write

TASKS = ("envpool/CartPole-v1", "minigrid/DoorKey-6x6", "envpool/HalfCheetah-v4", "pybullet/HalfCheetah")


def make_trainer(config: Config, *, fast: bool) -> Trainer:
    trainer = Trainer(config, Execution(device="cpu", fast=fast))
    next(iter(trainer))
    return trainer


def speed(trainer: Trainer, seconds: float) -> float:
    """Return the environment steps per processor second of a block of so many seconds or a little more."""
    started, steps = time.process_time(), 0
    for _ in trainer:
        steps += trainer.config.batch_size
        if (spent := time.process_time() - started) >= seconds:
            return steps / spent
    raise ValueError("the run ended within a block; give it more steps")


def measure(task: str, repeats: int, seconds: float) -> dict[str, Any]:
    """Return the row of a task."""
    config = replace(preset(task, scheduler="fixed"), steps=10**9, monitor=False)
    trainers = {fast: make_trainer(config, fast=fast) for fast in (True, False)}
    rounds = [{fast: speed(trainer, seconds) for fast, trainer in trainers.items()} for _ in range(repeats)]
    for trainer in trainers.values():
        trainer.close()
    ratios = sorted(each[True] / each[False] for each in rounds)
    return {
        "task": task, "epochs": config.epochs, "fast_steps_per_second": median(each[True] for each in rounds),
        "reference_steps_per_second": median(each[False] for each in rounds), "ratio": median(ratios),
        "lowest": ratios[0], "highest": ratios[-1], "rounds": repeats,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    machine = describe()
    known = {name: machine[name] for name in ("commit", "dirty", "processor")}
    rows = []
    for task in TASKS:
        rows.append({**measure(task, options.repeats, options.seconds), **known})
        print(*rows[-1].values(), flush=True)
    write(RESULTS / "fast.csv", rows)


if __name__ == "__main__":
    main()
