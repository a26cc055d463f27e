"""Time the report's statistics: 2,000 resamples of 5 seeds × 16 tasks. Run `python benchmarks/report_statistics.py`."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import numpy as np

from adept.report.statistics import aggregate, performance_profile, probability_of_improvement

REPEATS = 30


def milliseconds(call: Callable[[], object]) -> dict[str, float]:
    call()
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - started))
    return {"median_ms": round(statistics.median(times), 2), "worst_ms": round(max(times), 2)}


def main() -> None:
    random = np.random.default_rng(0)
    one, other = random.gamma(4.0, 0.25, (2, 16, 5))
    calls: dict[str, Callable[[], object]] = {
        "aggregate (four metrics)": lambda: aggregate(one),
        "probability_of_improvement": lambda: probability_of_improvement(one, other),
        "performance_profile (81 thresholds)": lambda: performance_profile(one),
    }
    print(json.dumps({name: milliseconds(call) for name, call in calls.items()}, indent=2))


if __name__ == "__main__":
    main()
