"""Train beside other libraries: the same environments, rollouts, epochs, minibatches and network sizes.

    python -m benchmarks.rivals [--tasks cartpole …] [--sides sb3 …]    measures, writes results/throughput/rivals.csv
    python -m benchmarks.rivals --table                                 writes rivals.md from it again

Every side is a process of its own, pinned to one processor, with one thread each of PyTorch, XLA, OpenMP and EnvPool.
All sides of a task run in turn, a second or so each, round after round; a ratio is the median over the rounds. CPU time
counts first, because other programs on the machine stretch the clock of whoever runs beside them. What comes before
the second iteration, compilation above all, is not counted; it stands in a column of its own. Other libraries live in
environments of their own, which are built from constraints/rivals-*.txt when they are missing or out of date.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from adept.runs.machine import describe
from benchmarks.rivals.table import text
from benchmarks.rivals.tasks import TASKS, Task
from benchmarks.tables import RESULTS, ROOT, read, write

ENVIRONMENTS = {
    **dict.fromkeys(("sb3", "sbx", "rlox", "rlox-rust"), "pools"), "sample_factory": "sample-factory", "rejax": "jax",
}  # fmt: skip
"""The environment of each side; the others run with this interpreter."""
TORCH = "torch==2.13.0"
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


class Side:
    """The process of one side."""

    def __init__(self, name: str, task: Task, interpreter: Path, processor: int) -> None:
        self.name = name
        variables = {**os.environ, **ONE_THREAD, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self._process = subprocess.Popen(
            [interpreter, "-W", "ignore", "-m", "benchmarks.rivals.side", name, task.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT,
            preexec_fn=lambda: os.sched_setaffinity(0, {processor}),
        )  # fmt: skip
        self.blocks: list[dict[str, float]] = []

    def started(self) -> dict[str, Any]:
        """Wait for the first two iterations; return what they took."""
        return self._answer()

    def run(self, seconds: float) -> None:
        """Run a block of so many seconds of CPU time."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)
        self.blocks.append(self._answer())

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with status {self._process.wait()}; its message stands above")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def interpreter(side: str, folder: Path) -> Path:
    """Return the interpreter of a side, whose environment is built if need be."""
    if side not in ENVIRONMENTS:
        return Path(sys.executable)
    name = f"rivals-{ENVIRONMENTS[side]}"
    packages, place = ROOT / "constraints" / f"{name}.txt", folder / name
    built, python = place / ".built", place / "bin" / "python"
    if not built.exists() or built.stat().st_mtime < packages.stat().st_mtime:
        print(f"building {place} from {packages.relative_to(ROOT)}", flush=True)
        pip = [python, "-m", "pip", "install", "-qq", "--no-compile"]
        commands = [[sys.executable, "-m", "venv", "--clear", place], [*pip, "--no-deps", "-r", packages]]
        # PyTorch first and alone: a range among the other requirements could fetch a build for graphics cards.
        if TORCH in packages.read_text(encoding="utf-8"):
            commands.insert(1, [*pip, TORCH])
        try:
            for command in commands:
                subprocess.run(command, check=True)
        except subprocess.CalledProcessError as error:
            sides = ", ".join(other for other, needed in ENVIRONMENTS.items() if f"rivals-{needed}" == name)
            raise SystemExit(
                f"{sides} cannot run: {place} could not be built, the reason stands above. It needs an index with the"
                f" versions of {packages.relative_to(ROOT)}, 3 GB, and Python 3.11 (this is {sys.version.split()[0]})"
            ) from error
        built.touch()
    return python


def measure(
    task: Task, names: list[str], repeats: int, seconds: float, interpreters: dict[str, Path]
) -> Iterator[dict[str, Any]]:
    """Yield a row for ours and for every other side that is named."""
    processor = max(os.sched_getaffinity(0))
    sides = [Side(name, task, interpreters[name], processor) for name in ("ours", *names)]
    starts = {side.name: side.started() for side in sides}
    for _ in range(repeats):
        for side in sides:
            side.run(seconds)
    for side in sides:
        side.close()
    ours = sides[0].blocks
    for side in sides:
        pairs = list(zip(side.blocks, ours, strict=True))
        start = starts[side.name]
        yield {
            "task": task.name,
            "side": side.name,
            "steps_per_processor_second": median(speed(block, "processor") for block in side.blocks),
            "ratio_processor": median(speed(own, "processor") / speed(block, "processor") for block, own in pairs),
            "ratio_lowest": min(speed(own, "processor") / speed(block, "processor") for block, own in pairs),
            "ratio_highest": max(speed(own, "processor") / speed(block, "processor") for block, own in pairs),
            "steps_per_second": median(speed(block, "clock") for block in side.blocks),
            "ratio_clock": median(speed(own, "clock") / speed(block, "clock") for block, own in pairs),
            "making_seconds": start["making"],
            "compilation_seconds": start["first"],
            "rounds": repeats,
            "packages": " ".join(f"{name}={version}" for name, version in start["packages"].items()),
        }


def merged(task: Task, before: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put rows of a task in the place of older ones; ours of a run that left sides out only if there is none yet."""
    known = {row["side"]: row for row in before if row["task"] == task.name}
    measured = {row["side"]: row for row in found}
    if "ours" in known and not set(task.sides) <= set(measured):
        del measured["ours"]
    known |= measured
    order = ("ours", *task.sides)
    rows = [row for row in before if row["task"] != task.name] + [known[side] for side in order if side in known]
    return sorted(rows, key=lambda row: list(TASKS).index(row["task"]))


def speed(block: dict[str, float], clock: str) -> float:
    return block["steps"] / block[clock]


def main() -> None:
    """Measure and write rows, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    every = dict.fromkeys(side for task in TASKS.values() for side in task.sides)
    parser.add_argument("--sides", nargs="+", choices=every, default=list(every), help="who runs beside ours")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time of one block")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venvs", help="where environments are built")
    parser.add_argument("--table", action="store_true", help="write the table from the rows there are")
    options = parser.parse_args()
    path = RESULTS / "rivals.csv"
    machine, folder = describe(), options.environments.resolve()
    sides = {name: [side for side in TASKS[name].sides if side in options.sides] for name in options.tasks}
    tasks = {} if options.table else {name: chosen for name, chosen in sides.items() if chosen}
    # All are built before any is measured.
    interpreters = {side: interpreter(side, folder) for side in sorted({"ours"}.union(*tasks.values()))}
    for name, chosen in tasks.items():
        found = list(measure(TASKS[name], chosen, options.repeats, options.seconds, interpreters))
        for row in found:
            row |= {key: machine[key] for key in ("commit", "dirty", "processor", "time")}
        write(path, merged(TASKS[name], read(path), found))
        print(f"{name}: " + ", ".join(f"{row['side']} {row['ratio_processor']:.2f}" for row in found), flush=True)
    (RESULTS / "rivals.md").write_text(text(read(path)), encoding="utf-8")


if __name__ == "__main__":
    main()
