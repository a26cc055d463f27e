"""What monitoring costs: the same runs with and without it, in turn, in processor time.

    python -m benchmarks.monitoring [--tasks minigrid …] [--blocks 3]

Both runs compute the same numbers, so that all of the difference is monitoring. An iteration of each is made in turn.
A block has two measurements of long runs, and all of the 20 iterations of the short ones. *inside* is the share of
processor time that is spent in the monitor itself (copying parameters, judging), which other programs hardly disturb;
*ratio* is that of whole blocks, its median over the blocks. Procgen's rollout is an eighth of the paper's, and so are
the rows that are judged, so that the share is that of the paper's size. Each task adds a row to results/monitoring.csv.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from adept import cost
from adept.config import Config, Execution
from adept.presets import preset
from adept.runs.machine import describe
from adept.training import Trainer
from benchmarks.tables import RESULTS, read, write

SHORTER = 8
"""How much shorter Procgen's rollouts are than the preset's."""
SHORT = 20
"""Iterations of a short run."""
OUT = RESULTS.parent / "monitoring.csv"


def configurations() -> dict[str, Config]:
    long = {
        "minigrid": preset("minigrid/DoorKey-6x6"),
        "cartpole": preset("gymnasium/CartPole-v1"),
        "halfcheetah": preset("pybullet/HalfCheetah"),
        "pendulum": preset("envpool/Pendulum-v1"),
        "ant": preset("pybullet/Ant"),
    }
    short = (
        "minigrid/DoorKey-6x6", "gymnasium/CartPole-v1", "gymnasium/Acrobot-v1", "gymnasium/MountainCar-v0",
        "envpool/Pendulum-v1",
    )  # fmt: skip
    bigfish = preset("procgen/bigfish")
    rollout_length, monitor_rows = bigfish.rollout_length // SHORTER, bigfish.monitor_rows // SHORTER
    runs = {env.partition("/")[2]: preset(env) for env in short}
    return {
        **long,
        **{f"short-{name}": replace(config, steps=SHORT * config.batch_size) for name, config in runs.items()},
        "bigfish": replace(bigfish, rollout_length=rollout_length, monitor_rows=monitor_rows),
    }


class Timed:
    """A run that counts its own processor time, and what of it goes into monitoring."""

    def __init__(self, config: Config) -> None:
        self.trainer = Trainer(config, Execution(device="cpu"))
        self._records = iter(self.trainer)
        self.spent = self.inside = 0.0
        engine = self.trainer.engine
        for owner, name in ((engine, "_rows"), (engine, "_evaluate"), (engine, "mark"), (engine._evaluator, "begin")):
            setattr(owner, name, self._counted(getattr(owner, name)))
        next(self._records)  # the first iteration warms up, and has no update to judge
        self.spent = self.inside = 0.0

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            started = time.process_time()
            result = call(*arguments, **options)
            self.inside += time.process_time() - started
            return result

        return counted

    def iterate(self) -> None:
        """Make one iteration."""
        started = time.process_time()
        next(self._records)
        self.spent += time.process_time() - started


def measure(config: Config, blocks: int) -> dict[str, float]:
    """Return the shares of one task."""
    found: list[tuple[Timed, Timed]] = []
    for block in range(blocks):
        runs = (Timed(config), Timed(replace(config, monitor=False)))
        for _ in range(min(config.iterations - 1, 2 * cost.measuring(config)[1])):
            for run in runs if block % 2 else reversed(runs):
                run.iterate()
        for run in runs:
            run.trainer.close()
        found.append(runs)
    inside, spent = sum(on.inside for on, _ in found), sum(on.spent for on, _ in found)
    ratios = [on.spent / off.spent for on, off in found]
    return {"inside": inside / (spent - inside), "ratio": median(ratios), "low": min(ratios), "high": max(ratios)}


def main() -> None:
    known = configurations()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=known, default=list(known))
    parser.add_argument("--blocks", type=int, default=3)
    options = parser.parse_args()
    print(f"{'':<34}{'inside':>8}{'ratio':>8}{'(range)':>18}", flush=True)
    for name in options.tasks:
        config = known[name]
        found = measure(config, options.blocks)
        spread = f"({found['low']:.3f} to {found['high']:.3f})"
        verdict = "" if found["inside"] < cost.MONITOR_SHARE else f"   above {cost.MONITOR_SHARE:.0%}"
        label = f"{config.env}, {config.iterations} updates"
        print(f"{label:<34}{found['inside']:>8.2%}{found['ratio']:>8.3f}{spread:>18}{verdict}", flush=True)
        every = cost.measuring(config)[1]
        note({"env": config.env, "updates": config.iterations, "every": every, "blocks": options.blocks, **found})


def note(row: dict[str, Any]) -> None:
    """Add a row to the record, with the commit and the processor that it was measured with."""
    here = describe()
    write(OUT, [*read(OUT), {**row, "commit": here["commit"], "processor": here["processor"]}])


if __name__ == "__main__":
    main()
