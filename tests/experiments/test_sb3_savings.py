"""The table of experiments/stable_baselines3/savings.py, on records whose figures are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.stable_baselines3 import savings

T4 = 2.7764
"""The 97.5 % point of Student's distribution with four degrees of freedom."""


def test_differences_are_between_runs_of_one_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "OUT", tmp_path)
    monkeypatch.setattr(savings, "TASKS", {"CartPole-v1": 1})
    ends = {"fixed-10": (0, 100, 200, 300, 400), "ucb": (0, 100, 200, 300, 400), "fixed-1": (1, 102, 203, 304, 405)}
    for method, returns in ends.items():
        steps, seconds = (10, 4) if method == "fixed-1" else (100, 8)
        for seed, value in enumerate(returns, 1):
            text = f"{','.join(savings.COLUMNS)}\n1,1,-9,1,1,0\n2,{steps},{value},1,{seconds},0\n"
            savings.record_path(("CartPole-v1", method, seed)).write_text(text)
    default, ucb, one = savings.savings_table().splitlines()[2:]
    assert default == "| CartPole-v1 | K = 10, SB3's default | 200 |  | 100 % | 100 % |"
    assert ucb == "| CartPole-v1 | UCB on {10, 5, 1} | 200 |  | 100 % | 100 % |"
    # Differences of 1 to 5: mean 3, standard deviation √2.5, error √0.5; runs themselves differ by hundreds.
    half = T4 * 0.5**0.5
    assert one == f"| CartPole-v1 | K = 1 | 203 | +3 [{3 - half:+.3g}, {3 + half:+.3g}] | 10 % | 50 % |"
