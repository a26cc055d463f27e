"""What the schedulers cost: one `step` in microseconds, early and late in a life, and `import adept` against NumPy.

    python benchmarks/schedulers.py

Every figure is the fastest of several repetitions, the one least disturbed by what else the machine does.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time

from adept import SCHEDULERS, Scheduler, make_scheduler

BLOCK = 2_000


def microseconds_per_step(scheduler: Scheduler[int], rewards: list[float]) -> float:
    """Return the time of one step, over the fastest of ten blocks."""
    fastest = float("inf")
    for _ in range(10):
        started = time.perf_counter()
        for reward in rewards:
            scheduler.step(reward)
        fastest = min(fastest, time.perf_counter() - started)
    return fastest / len(rewards) * 1e6


def import_seconds(modules: tuple[str, ...], repetitions: int = 15) -> list[float]:
    """Return the fastest import of each module, each in a new interpreter, taking turns."""
    program = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    fastest = [float("inf")] * len(modules)
    for _ in range(repetitions):
        for index, module in enumerate(modules):
            printed = subprocess.run(
                [sys.executable, "-c", program.format(module)], capture_output=True, text=True, check=True
            ).stdout
            fastest[index] = min(fastest[index], float(printed))
    return fastest


def main() -> None:
    rng = random.Random(0)
    rewards = [rng.gauss(0.0, 1.0) for _ in range(BLOCK)]
    print(f"{'µs per step, 3 arms':<24}{'young':>8}{'after 200,000 steps':>22}")
    for name in SCHEDULERS:
        arms = [3] if name == "fixed" else [3, 2, 1]
        young = microseconds_per_step(make_scheduler(name, arms), rewards)
        old = make_scheduler(name, arms)
        for _ in range(100):
            for reward in rewards:
                old.step(reward)
        print(f"{name:<24}{young:>8.2f}{microseconds_per_step(old, rewards):>22.2f}")
    numpy, ours = import_seconds(("numpy", "adept"))
    print(f"\nimport numpy {numpy * 1e3:.0f} ms, import adept {ours * 1e3:.0f} ms: {ours / numpy:.2f} ×")


if __name__ == "__main__":
    main()
