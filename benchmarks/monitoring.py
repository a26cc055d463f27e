"""What monitoring costs: the same runs with and without it, in turn, in processor time.

    python benchmarks/monitoring.py [--tasks minigrid …] [--blocks 3]

Both runs compute the same numbers, so that all of the difference is monitoring. An iteration of each is made in turn; a
block has as many iterations as there are between two measurements. *inside* is the share of processor time that is
spent in the monitor itself (copying parameters, judging), which other programs hardly disturb; *ratio* is
that of whole blocks, its median over the blocks. Procgen's rollout is an eighth of the paper's, and so are the rows
that are judged, so that the share is that of the paper's size. Each task adds a row to results/monitoring.csv.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from adept.config import Config, Execution
from adept.presets import preset
from adept.runs.machine import describe
from adept.training import Trainer

SHORTER = 8
"""How much shorter Procgen's rollouts are than the preset's."""
OUT = Path(__file__).resolve().parent.parent / "results" / "monitoring.csv"
MOST = 0.03
"""Share of the processor time that monitoring may take."""


def configurations() -> dict[str, Config]:
    bigfish = preset("procgen/bigfish", scheduler="fixed")
    return {
        "minigrid": preset("minigrid/DoorKey-6x6", scheduler="fixed"),
        "halfcheetah": preset("pybullet/HalfCheetah", scheduler="fixed"),
        "pendulum": preset("envpool/Pendulum-v1", scheduler="fixed"),
        "ant": preset("pybullet/Ant", scheduler="fixed"),
        "bigfish": replace(
            bigfish,
            rollout_length=bigfish.rollout_length // SHORTER,
            monitor_rows=bigfish.monitor_rows // SHORTER,
        ),
    }


class Timed:
    """A run that counts its own processor time, and what of it goes into monitoring."""

    def __init__(self, config: Config) -> None:
        self.trainer = Trainer(config, Execution(device="cpu"))
        self._records = iter(self.trainer)
        self.spent = self.inside = 0.0
        for name in ("_rows", "_evaluate", "_begin", "mark"):
            setattr(self.trainer.engine, name, self._counted(getattr(self.trainer.engine, name)))

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

    def forget(self) -> tuple[float, float]:
        """Return the seconds since the last call: all, and those of monitoring."""
        seconds = self.spent, self.inside
        self.spent = self.inside = 0.0
        return seconds


def measure(config: Config, blocks: int) -> dict[str, float]:
    """Return the shares of one task."""
    runs = [Timed(replace(config, monitor=monitor)) for monitor in (True, False)]
    for run in runs:
        run.iterate()  # the first one warms up, and has no update to judge
        run.forget()
    found: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for block in range(blocks):
        for _ in range(config.monitor_interval):
            for run in runs if block % 2 else reversed(runs):
                run.iterate()
        found.append((runs[0].forget(), runs[1].forget()))
    for run in runs:
        run.trainer.close()
    inside, spent = (sum(on[index] for on, _ in found) for index in (1, 0))
    ratios = [on[0] / off[0] for on, off in found]
    return {"inside": inside / (spent - inside), "ratio": median(ratios), "low": min(ratios), "high": max(ratios)}


def main() -> None:
    known = configurations()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", nargs="+", choices=known, default=list(known))
    parser.add_argument("--blocks", type=int, default=3)
    options = parser.parse_args()
    print(f"{'':<24}{'inside':>8}{'ratio':>8}{'(range)':>18}", flush=True)
    for name in options.tasks:
        found = measure(known[name], options.blocks)
        spread = f"({found['low']:.3f} to {found['high']:.3f})"
        verdict = "" if found["inside"] < MOST else f"   above {MOST:.0%}"
        line = f"{known[name].env:<24}{found['inside']:>8.2%}{found['ratio']:>8.3f}{spread:>18}{verdict}"
        print(line, flush=True)
        note({"env": known[name].env, "every": known[name].monitor_interval, "blocks": options.blocks, **found})


def note(row: dict[str, Any]) -> None:
    """Add a row to the record, with the commit and the processor that it was measured with."""
    here = describe()
    row = {**row, "commit": here["commit"], "processor": here["processor"]}
    new = not OUT.exists()
    with OUT.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, row, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({name: f"{value:.4f}" if isinstance(value, float) else value for name, value in row.items()})


if __name__ == "__main__":
    main()
