"""The table of experiments/stable_baselines3/learning.py, on records whose figures are known."""

from __future__ import annotations

from experiments.stable_baselines3 import learning


def test_shares_are_of_the_gain_over_the_untrained_policy(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(learning, "RECORDS", tmp_path)
    for library, starts, end in (("adept", (-110.0, -90.0), -20.0), ("sb3-envpool", (-130.0, -70.0), 0.0)):
        for seed, start in enumerate(starts, 1):
            text = f"step,score\n1,nan\n2,{start}\n3,{end}\n"
            learning.result_path(library, "envpool/CartPole-v1", seed).write_text(text)
    (row,) = learning.presets_table().splitlines()[2:]
    # Untrained -100 on average; 80 of 100 gained, by every run.
    cells = ["CartPole-v1, 100 k", "2", "-100", "-20 (-20 to -20)", "0 (0 to 0)", "80 % [80, 80]"]
    assert row == f"| {' | '.join(cells)} |"
