"""The page of experiments/stable_baselines3/starts.py, on rows whose figures are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.stable_baselines3 import starts

ROW = dict.fromkeys(starts.COLUMNS[4:-1], 0.0)


def test_the_declaration_is_of_72_runs_in_pairs() -> None:
    declared = starts.load()
    cells = [cell for pair in declared.cells() for cell in pair]
    assert len(cells) == len(set(cells)) == 4 * 3 * 2 * 3
    assert [declared.learning_rate * factor for factor in declared.factors] == pytest.approx([3e-5, 3e-4, 3e-3])
    assert [cell[2] for cell in declared.cells()[0]] == ["fixed", "hindsight"], "a pair has one of each method"
    halves = [{cell for pair in declared.cells()[part::2] for cell in pair} for part in (0, 1)]
    assert halves[0] | halves[1] == set(cells)


def test_scores_differences_and_shares_by_hand() -> None:
    """Untrained 0; fixed 10, 100, 40 ± 1, 2, 3 by seed; hindsight twice, once and half of it."""
    declared = replace(starts.load(), tasks={"A": 1})
    rows = {}
    for (factor, base), times in zip(((0.1, 10.0), (1.0, 100.0), (10.0, 40.0)), (2.0, 1.0, 0.5), strict=True):
        for seed in (1, 2, 3):
            rows["A", factor, "fixed", seed] = ROW | {"mean": base + seed}
            rows["A", factor, "hindsight", seed] = ROW | {"mean": times * (base + seed)}
    page = starts.tables(declared, rows)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "×" in line]
    # Seeds spread by a standard deviation of 1: ± 4.303/√3 = 2.48; two of them by √2: ± 12.706.
    assert cells[0] == ["A", "× 0.1", "12 [10, 14]", "24 [19, 29]", "+12 [+10, +14]", "3 of 3"]
    assert cells[1] == ["A", "× 1", "102 [100, 104]", "102 [100, 104]", "+0.00 [+0.00, +0.00]", "0 of 3"]
    assert cells[2][4:] == ["-21 [-22, -20]", "0 of 3"]
    shares = {row[0]: [cell.split(" %")[0] for cell in row[1:]] for row in cells[3:]}
    assert shares == {"× 0.1": ["12", "24", "12"], "× 1": ["100", "100", "0"], "× 10": ["41", "21", "-21"]}
    assert page.startswith("18 of 18 runs are done.")
    del rows["A", 1.0, "fixed", 2]
    page = starts.tables(declared, rows)
    assert page.startswith("17 of 18 runs are done.")
    assert "102 [89, 115] (n = 2)" in page
    assert "\n| × 1 |" not in page, "no shares of an unfinished experiment"


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    for seed in (1, 2):
        starts.append(tmp_path / "runs.csv", ["A", 0.1, "fixed", seed, *range(6), "made, with"])
    found = starts.rows_of(tmp_path)
    assert list(found) == [("A", 0.1, "fixed", 1), ("A", 0.1, "fixed", 2)]
    assert list(found["A", 0.1, "fixed", 1].values()) == [0, 1, 2, 3, 4, 5]
