"""One side in a process of its own: it runs when told to, and answers with steps and seconds.

    python -m benchmarks.rivals.side SIDE TASK

A line of standard input is a number of seconds of CPU time: whole iterations are run until they have passed. The answer
is a line of JSON. The first answer comes unasked: what it took until the second iteration was done.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata

from benchmarks.rivals.tasks import TASKS, Task

MAKERS = {"sbx": "sb3:make_jax", "rlox-rust": "rlox:make_rust"}
"""What makes a side; of the others it is `make` of the module of their name."""
PACKAGES = (
    "adept-rl", "torch", "jax", "envpool", "stable_baselines3", "sbx-rl", "rlox", "sample-factory", "rejax", "gymnax",
    "navix",
)  # fmt: skip


def find(name: str) -> Callable[[Task], Callable[[], int]]:
    """Return what makes a side."""
    module, _, function = MAKERS.get(name, f"{name}:make").partition(":")
    found: Callable[[Task], Callable[[], int]] = getattr(
        importlib.import_module(f"benchmarks.rivals.{module}"), function
    )
    return found


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def measure(iterate: Callable[[], int], seconds: float) -> dict[str, float]:
    """Run whole iterations until so many seconds of CPU time have passed."""
    steps, clock, processor = 0, time.perf_counter(), time.process_time()
    while time.process_time() - processor < seconds:
        steps += iterate()
    return {"steps": steps, "clock": time.perf_counter() - clock, "processor": time.process_time() - processor}


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    name, task = sys.argv[1], TASKS[sys.argv[2]]
    if name != "rejax":
        import torch

        torch.set_num_threads(1)
    clock, processor = time.perf_counter(), time.process_time()
    iterate = find(name)(task)
    made = time.process_time()
    iterate()
    first = time.process_time()
    iterate()
    second = time.process_time()
    warm_up = {
        "making": made - processor,
        # What the first iteration takes beyond the second: compilation, where there is any.
        "first": max(0.0, (first - made) - (second - first)),
        "clock": time.perf_counter() - clock,
        "packages": {package: found for package in PACKAGES if (found := version(package))},
    }
    print(json.dumps(warm_up), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(iterate, float(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
