"""Reads the published records and makes the small tables that are committed: placebo, epochs by game, PPO by game."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adept.probe.placebo import feed
from adept.probe.records import shares

Array = npt.NDArray[np.float64]
Row = dict[str, str | int | float]
PPO_FILE, PPG_FILE = "ppo-easy-200.csv", "ppg-hard-epochs.csv"
ARMS = (3, 2, 1)
SCHEDULERS = {"ucb": {"exploration": 5.0, "window": 10}, "thompson": {"step_size": 1.0, "window": 50}}
"""The paper's best settings on Procgen with PPO."""
SIZES = (1.0, 0.3, 0.1)
"""Factors on the recorded returns: the paper's rewards are normalised, and c = 5 is in their unit. In our runs of PPO
at this size (results/procgen-watch) the mean GAE return is 0.3 to 0.7 of the mean return of episodes."""
LAST = 0.05
"""Share of a run that its end is averaged over."""

# (return of a random policy, highest possible or nearly so) in hard and easy mode: openai/train-procgen, constants.py.
RANGES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "bigfish": ((0, 40), (1, 40)), "bossfight": ((0.5, 13), (0.5, 13)), "caveflyer": ((2, 13.4), (3.5, 12)),
    "chaser": ((0.5, 14.2), (0.5, 13)), "climber": ((1, 12.6), (2, 12.6)), "coinrun": ((5, 10), (5, 10)),
    "dodgeball": ((1.5, 19), (1.5, 19)), "fruitbot": ((-0.5, 27.2), (-1.5, 32.4)), "heist": ((2, 10), (3.5, 10)),
    "jumper": ((1, 10), (1, 10)), "leaper": ((1.5, 10), (1.5, 10)), "maze": ((4, 10), (5, 10)),
    "miner": ((1.5, 20), (1.5, 13)), "ninja": ((2, 10), (3.5, 10)), "plunder": ((3, 30), (4.5, 30)),
    "starpilot": ((1.5, 35), (2.5, 64)),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class PPORun:
    """One run of PPO with K=3 on 200 levels: the mean return of episodes at each update."""

    game: str
    run: int
    train: Array
    test: Array


def read_ppo(folder: Path) -> list[PPORun]:
    """Read the runs of PPO in the order of the file."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in _rows(folder / PPO_FILE, ("game", "run", "train_return", "test_return")):
        pair = (float(row["train_return"]), float(row["test_return"]))
        found.setdefault((row["game"], int(row["run"])), []).append(pair)
    return [PPORun(game, run, *np.array(pairs).T) for (game, run), pairs in found.items()]


def read_ppg(folder: Path) -> dict[tuple[str, str], Array]:
    """Read the returns of PPG by setting and game."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in _rows(folder / PPG_FILE, ("game", "setting", "return")):
        found.setdefault((row["setting"], row["game"]), []).append(float(row["return"]))
    return {key: np.array(values) for key, values in found.items()}


def _rows(path: Path, columns: Sequence[str]) -> Iterable[dict[str, str]]:
    if not path.is_file():
        raise ValueError(f"{path} is not there; --data must be a folder with {PPO_FILE} and {PPG_FILE}")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise ValueError(f"{path} has no column {', '.join(missing)}; it has {', '.join(reader.fieldnames or ())}")
        yield from reader


def normalised(game: str, values: npt.ArrayLike, *, easy: bool) -> Array:
    """Return scores on the game's range: 0 is a random policy, 1 the highest possible score or nearly so."""
    low, high = RANGES[game][easy]
    return (np.asarray(values, np.float64) - low) / (high - low)


def end(values: Array) -> float:
    """Return the mean over the end of a run."""
    return float(values[-max(1, round(LAST * len(values))) :].mean())


def placebo_table(runs: Sequence[PPORun]) -> list[Row]:
    """Feed the paper's bandits the recorded returns, which no choice can have changed: a row per run.

    The share of updates that each arm gets, with the returns in the order in which they came and in random order.
    """
    rows: list[Row] = []
    for name, options in SCHEDULERS.items():
        for size in SIZES:
            for number, run in enumerate(runs, 1):
                for order in ("recorded", "random"):
                    returns = size * run.train
                    if order == "random":
                        returns = np.random.default_rng(number).permutation(returns)
                    (found,) = shares([feed(name, ARMS, options, returns, number)], ARMS)
                    rows.append({
                        "scheduler": name, "size": size, "order": order, "game": run.game, "run": run.run,
                        **{f"share_{arm}": round(float(value), 4) for arm, value in zip(ARMS, found, strict=True)},
                        "most": round(float(found.max()), 4), "favourite": ARMS[int(found.argmax())],
                    })  # fmt: skip
    return rows


def epochs_table(records: Mapping[tuple[str, str], Array]) -> list[Row]:
    """Return PPG's normalised scores, over the run and at its end: a row per setting and game."""
    return [
        {
            "setting": setting, "game": game,
            "over_the_run": round(float(normalised(game, values, easy=False).mean()), 4),
            "at_the_end": round(end(normalised(game, values, easy=False)), 4),
        }
        for (setting, game), values in sorted(records.items())
    ]  # fmt: skip


def ppo_table(runs: Sequence[PPORun]) -> list[Row]:
    """Return PPO's scores at the end on training and test levels, plain and normalised: a row per run."""
    rows: list[Row] = []
    for run in runs:
        row: Row = {"game": run.game, "run": run.run}
        for levels, values in (("train", run.train), ("test", run.test)):
            row[levels] = round(end(values), 3)
            row[f"{levels}_normalised"] = round(end(normalised(run.game, values, easy=True)), 4)
        rows.append(row)
    return rows


def csv_of(rows: Sequence[Row]) -> str:
    """Return a table as CSV."""
    lines = [",".join(rows[0])] + [",".join(str(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def read_table(path: Path) -> list[Row]:
    """Read a committed table; numbers come back as numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def by_game(rows: Iterable[Row], column: str) -> dict[str, float]:
    """Return the mean of a column over the runs of each game, in the order of names."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(str(row["game"]), []).append(float(row[column]))
    return {game: float(np.mean(found[game])) for game in sorted(found)}
