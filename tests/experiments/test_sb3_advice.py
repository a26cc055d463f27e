"""The table of experiments/stable_baselines3/advice.py, on records whose figures are known."""

from __future__ import annotations

from pathlib import Path

from experiments.stable_baselines3 import advice as sb3_advice

HEADER = ",".join([*sb3_advice.COLUMNS, "made_with"])


def record(out: Path, method: str, seed: int, returns: tuple[float, float], steps: int, seconds: float) -> None:
    path = sb3_advice.record_path(out, "CartPole-v1", method, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"2048,0,{returns[0]},1,0.5,10,1,it", f"4096,{steps},{returns[1]},9,{seconds},10,2,"]
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")


def rows(out: Path) -> list[list[str]]:
    lines = sb3_advice.table(sb3_advice.records(out)).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_a_run_is_read_by_hand(tmp_path: Path) -> None:
    record(tmp_path, "default", 1, (10.0, 30.0), 640, 4.0)
    path = sb3_advice.record_path(tmp_path, "CartPole-v1", "default", 1)
    figures = {"final": 30.0, "mean": 20.0, "gradient_steps": 640.0, "cpu_seconds": 4.0, "lr_scale": 2.0}
    assert sb3_advice.read(path) == figures


def test_the_best_cell_is_named_once_the_grid_is_complete(tmp_path: Path) -> None:
    for seed in sb3_advice.SEEDS:
        for number, method in enumerate(sb3_advice.CELLS):  # the default, fifth of nine, has a mean return of 40 + seed
            record(tmp_path, method, seed, (0.0, 20.0 * number + 2 * seed), 640, 4.0)
        record(tmp_path, "hindsight", seed, (0.0, 126.0), 320, 3.0)  # a mean of 63, behind the cells with 73 and 83
        record(tmp_path, "shared", seed, (0.0, 20.0), 320, 3.0)  # a mean of 10, behind all but the first cell's 3
    default, hindsight, shared, best, _, note = rows(tmp_path)
    # The seeds' means are 41 to 45: their standard deviation is √2.5, and its error √0.5.
    assert default[1:] == ["default: K = 10, learning rate 0.0003", "86 ± 1", "43 ± 1", "4 of 9", "100 %", "100 %"]
    assert hindsight[1:] == ['`"hindsight"`', "126 ± 0", "63 ± 0", "2 of 9", "50 %", ""]
    assert shared[1:] == ['`"hindsight"`, `"critic": "shared"`', "20 ± 0", "10 ± 0", "8 of 9", "50 %", "75 %"]
    assert best[1:4] == ["best of the grid: K = 20, learning rate 0.001", "166 ± 1", "83 ± 1"]
    assert best[4:] == ["0 of 9", "100 %", ""]  # the grid's processor time is that of other machines
    assert note == ["205 of 260 runs are missing."]  # those of the two others, and of three other tasks


def test_missing_runs_are_said_and_no_best_cell_is_named(tmp_path: Path) -> None:
    record(tmp_path, "default", 1, (10.0, 30.0), 640, 4.0)
    default, _, note = rows(tmp_path)
    assert default[1:] == ["default: K = 10, learning rate 0.0003 (1 of 5 seeds)", "30", "20", "", "100 %", "100 %"]
    assert note == ["259 of 260 runs are missing."]
