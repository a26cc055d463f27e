"""What is measured, and the table and figure of results/hindsight."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from adept.report.figures import Drawing
from experiments.truth import agreement
from paper.measures import RESULTS

RECORDS = RESULTS / "hindsight"


@dataclass(frozen=True)
class Plan:
    """How a task is measured."""

    marks: tuple[int, ...]
    """epochs whose parameters are judged; the last ends the update"""
    stages: tuple[int, ...]
    repeats: int
    settle: int
    """rollouts before the one that the update is made on, so that the ages of episodes are mixed"""
    players: int
    """environments that play for the truth"""
    episodes: int
    """episodes that each of them plays"""


MINIGRID = Plan((1, 2, 8), (20, 40, 80, 160), repeats=6, settle=2, players=16, episodes=4)
PYBULLET = Plan((2, 10), (10, 30), repeats=6, settle=0, players=8, episodes=1)
CELLS = [
    ("minigrid/DoorKey-6x6", 3, MINIGRID),
    ("pybullet/Hopper", 1, PYBULLET),
    ("pybullet/HalfCheetah", 1, PYBULLET),
    ("pybullet/Walker2D", 1, PYBULLET),
    ("minigrid/LavaGapS7", 1, replace(MINIGRID, stages=(80, 160, 240))),
    ("minigrid/DoorKey-6x6", 4, replace(MINIGRID, stages=(80, 160))),
    ("minigrid/Empty-16x16", 1, replace(MINIGRID, stages=(40, 80))),
]
"""The runs of results/branches, at the stages where they meet rewards, and three of PyBullet."""


def result_path(task: str, seed: int) -> Path:
    """Return where the rows of a run are."""
    return RECORDS / f"{task.replace('/', '-')}-seed{seed}.csv"


def read(path: Path) -> list[dict[str, float]]:
    """Return the rows of a run."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


@cache
def stored() -> list[agreement.Run]:
    """Return the rows of the runs that were measured."""
    paths = {(task, seed): (plan.marks, result_path(task, seed)) for task, seed, plan in CELLS}
    return [agreement.Run(*cell, marks, read(path)) for cell, (marks, path) in paths.items() if path.exists()]


BLOCKS = {"truth": lambda: agreement.block(stored())}


def drawings() -> list[Drawing]:
    """Draw the figure of results/hindsight."""
    return [agreement.drawing(stored())]
