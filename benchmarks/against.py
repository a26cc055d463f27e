"""Is training as fast as at another commit? Both run in turn, iteration by iteration, in processor time.

    git worktree add ../before COMMIT
    python benchmarks/against.py ../before [--tasks minigrid …] [--iterations 6] [--monitor]

Each side is a process of its own with one thread. Both run the same configuration, and compute the same numbers unless
a commit between them changed these, so that the fastest iterations compare the same work: *ratio* is theirs,
above 1 where this tree is faster. *median* is that of the pairs. Procgen runs 8 environments of 32 steps.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
TASKS = {
    "minigrid": ("minigrid/DoorKey-6x6", {}),
    "mujoco": ("envpool/HalfCheetah-v4", {}),
    "halfcheetah": ("pybullet/HalfCheetah", {}),
    "ant": ("pybullet/Ant", {}),
    "bigfish": ("procgen/bigfish", {"environments": 8, "rollout_length": 32, "minibatch_size": 256}),
}
LEAST = 0.97
"""The least ratio to reach."""
WORKER = """
import dataclasses, sys, time
from adept.config import Config, Execution
from adept.presets import preset
from adept.training import Trainer

env, changes, monitor = eval(sys.argv[1])
config = dataclasses.replace(preset(env, scheduler="fixed"), **changes)
if "monitor" in Config.__dataclass_fields__:
    config = dataclasses.replace(config, monitor=monitor)
records = iter(Trainer(config, Execution(device="cpu")))
for _ in sys.stdin:
    started = time.process_time()
    next(records)
    print(time.process_time() - started, flush=True)
"""


class Side:
    """A tree's trainer in a process of its own."""

    def __init__(self, tree: Path, task: str, monitor: bool) -> None:
        command = [sys.executable, "-c", WORKER, repr((*TASKS[task], monitor))]
        settings = {"PYTHONPATH": str(tree.resolve() / "src"), "OMP_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=settings, cwd=tree, stdin=pipe, stdout=pipe, text=True)

    def iterate(self) -> float:
        """Run one iteration; return its processor seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def measure(other: Path, task: str, iterations: int, monitor: bool) -> tuple[list[float], list[float]]:
    """Return the processor seconds of every iteration of both sides, but for the first, which warms up."""
    sides = (Side(ROOT, task, monitor), Side(other, task, monitor))
    seconds: tuple[list[float], list[float]] = ([], [])
    for iteration in range(iterations + 1):
        for index in (0, 1) if iteration % 2 else (1, 0):
            spent = sides[index].iterate()
            if iteration:
                seconds[index].append(spent)
    for side in sides:
        side.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path, help="the folder of another checkout")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--monitor", action="store_true", help="monitor updates, where a side can")
    options = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}{'ratio':>16}{'median':>9}{'here, s':>10}{'there, s':>10}", flush=True)
    for task in options.tasks:
        ours, theirs = measure(options.other, task, options.iterations, options.monitor)
        ratio = min(theirs) / min(ours)
        pairs = median(old / new for new, old in zip(ours, theirs, strict=True))
        verdict = "" if ratio >= LEAST else f"   below {LEAST}"
        line = f"{TASKS[task][0]:<21}{ratio:>6.3f}{pairs:>9.3f}{min(ours):>10.3f}{min(theirs):>10.3f}{verdict}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
