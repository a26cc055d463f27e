"""How many seeds the declared test needs before it can show a winner at all."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from adept.report.statistics import permutation_p
from adept.report.text import counted, p_text

LEVEL = 0.05
MOST_SEEDS = 30
"""Beyond so many seeds nothing is searched for."""


@lru_cache(maxsize=1024)
def smallest_p(seeds: int, tasks: int, tests: int, *, two_sided: bool = True) -> float:
    """Return the smallest p that the test of two methods' IQMs can give, corrected for a number of tests (Holm).

    It is that of a method whose every run beats every run of its rival. On one task with 3 seeds it is 2/C(6, 3) = 0.1.
    """
    random = np.random.default_rng(0)
    low, high = ([shift + random.random(seeds) for _ in range(tasks)] for shift in (0.0, 100.0))
    return min(1.0, tests * permutation_p(high, low, two_sided=two_sided))


@lru_cache(maxsize=1024)
def seeds_needed(tasks: int, tests: int) -> int | None:
    """Return the fewest seeds with which a method that wins every run is shown to be better; None: not within 30."""
    found = (seeds for seeds in range(2, MOST_SEEDS + 1) if smallest_p(seeds, tasks, tests) < LEVEL)
    return next(found, None)


def can_show_a_winner(seeds: int, tasks: int, rivals: int) -> str:
    """Say whether so many seeds can show that one of some rivals is better than the baseline, and how many can."""
    if seeds < 1 or tasks < 1 or rivals < 1:
        return ""
    here = f"{counted(seeds, 'seed')} on {counted(tasks, 'task')}"
    p, needed = smallest_p(seeds, tasks, rivals), seeds_needed(tasks, rivals)
    best = f"gets {p_text(p)}, corrected for {counted(rivals, 'rival')}"
    if p < LEVEL:
        return f"{here} can show a winner: a method that wins every run against the baseline {best}."
    wanted = f"{needed} seeds are needed" if needed else f"more than {MOST_SEEDS} seeds are needed"
    return f"{here} cannot show a winner: even a method that wins every run against the baseline {best}; {wanted}."
