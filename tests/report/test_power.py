"""Seeds that a test needs before it can show anything, by counting arrangements."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from adept.report.power import can_show_a_winner, seeds_needed, smallest_p


def enumerated(seeds: int) -> float:
    """Return the exact two-sided p of perfect separation on one task, over all arrangements."""

    def iqm(values):
        cut = len(values) // 4
        return np.mean(sorted(values)[cut : len(values) - cut])

    random = np.random.default_rng(3)
    pool = [*(random.random(seeds)), *(100 + random.random(seeds))]
    gaps = []
    for chosen in combinations(range(2 * seeds), seeds):
        rest = [pool[index] for index in range(2 * seeds) if index not in chosen]
        gaps.append(abs(iqm([pool[index] for index in chosen]) - iqm(rest)))
    return float(np.mean(np.array(gaps) >= max(gaps) - 1e-9))


@pytest.mark.parametrize("seeds", [2, 3, 4, 5])
def test_the_smallest_p_on_one_task_is_that_of_all_arrangements(seeds):
    assert smallest_p(seeds, 1, 1) == pytest.approx(enumerated(seeds), abs=0.01)
    assert smallest_p(seeds, 1, 3) == min(1.0, 3 * smallest_p(seeds, 1, 1))


def test_the_seeds_needed_are_the_fewest_that_can():
    assert enumerated(3) == pytest.approx(2 / comb(6, 3))
    for tasks, rivals in ((1, 1), (1, 3), (2, 5)):
        needed = seeds_needed(tasks, rivals)
        assert smallest_p(needed, tasks, rivals) < 0.05 <= smallest_p(needed - 1, tasks, rivals)
    assert seeds_needed(1, 10**9) is None
    assert (seeds_needed(1, 3), seeds_needed(1, 13)) == (6, 7)  # docs/studies.md says so


def test_the_sentence():
    few = can_show_a_winner(3, 1, 3)
    assert few.startswith(
        "3 seeds on 1 task cannot show a winner: even a method that wins every run against the baseline"
    )
    assert few.endswith(f"corrected for 3 rivals; {seeds_needed(1, 3)} seeds are needed.")
    assert "10 seeds on 1 task can show a winner" in can_show_a_winner(10, 1, 3)
    assert can_show_a_winner(3, 1, 0) == ""
