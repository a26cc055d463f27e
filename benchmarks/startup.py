"""Time from a command to its first output: `adept train --help`, and the first record of a run.

    python -m benchmarks.startup [--repeats 5]

Processor time stands beside the clock, because a busy machine lengthens the clock alone. The first start of each, which
writes byte code, does not count.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ADEPT = (sys.executable, "-m", "adept.cli")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
HELP = ("train", "--help")
RUNS = ("gymnasium/CartPole-v1", "minigrid/DoorKey-6x6", "pybullet/HalfCheetah", "procgen/bigfish")
PAUSE = 0.005
"""Seconds between two looks at a run's records."""


def processor_seconds(process: int) -> float:
    """Return the processor time of a process that runs or has ended and not been waited for."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def has_record(folder: Path) -> bool:
    """Return whether a run in the folder has written its first iteration."""
    return any(len(path.read_text(encoding="utf-8").splitlines()) > 1 for path in folder.glob("**/iterations.csv"))


def measure(words: tuple[str, ...], folder: Path | None = None) -> tuple[float, float]:
    """Return seconds and processor seconds until a command ends, or until its first record is in the folder."""
    out = () if folder is None else ("--out", str(folder))
    start = time.perf_counter()
    with subprocess.Popen([*ADEPT, *words, *out], env=ENVIRONMENT, stdout=subprocess.DEVNULL) as process:
        ended = None
        while ended is None and not (folder and has_record(folder)):
            time.sleep(PAUSE)
            # Unlike poll(), this leaves an ended process to be looked at.
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        times = time.perf_counter() - start, processor_seconds(process.pid)
        process.kill()
    if ended is not None and (ended.si_status != 0 or (folder and not has_record(folder))):
        raise SystemExit(f"adept {' '.join(words)} ended with status {ended.si_status} and without a record")
    return times


def main() -> int:
    """Print a table: medians of the clock and of processor time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--env", nargs="+", default=RUNS)
    options = parser.parse_args()
    print("| command | until | seconds | processor seconds |\n| --- | --- | ---: | ---: |")
    for env in (None, *options.env):
        words = HELP if env is None else ("train", "--env", env, "--quiet")
        times = []
        for _ in range(options.repeats + 1):  # the first one writes byte code
            with tempfile.TemporaryDirectory() as folder:
                times.append(measure(words, None if env is None else Path(folder)))
        seconds, processor = (statistics.median(column) for column in zip(*times[1:], strict=True))
        until = "end" if env is None else "first record"
        print(f"| `adept {' '.join(words)}` | {until} | {seconds:.2f} | {processor:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
