"""Every figure and table of the paper: the command that makes it here, what was run, and what running it costs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from adept import cost
from adept.studies.estimate import estimate
from adept.studies.grid import load_study
from adept.studies.results import results_of
from paper.measures import load, packed
from paper.words import table

PASS_FLOPS = 61_218_816
"""A forward pass of the Procgen network by PyTorch's counter (docs/studies.md)."""
GPU_FLOPS, ENVIRONMENT_STEPS = 10e12, 22_000
"""What the estimate for one GPU assumes: sustained floating-point operations, and environment steps, a second."""
SMALL = "procgen-small"
"""What a CPU can train of Procgen: smaller networks, fewer games and steps."""


@dataclass(frozen=True)
class Entry:
    """Figures of the paper that one command makes."""

    figures: str
    shows: str
    studies: tuple[str, ...] = ()
    """shipped studies; the command is `adept study NAME`, then `adept report`"""
    command: str = ""
    """where it is no study"""
    status: str = "declared, not run"


def entries() -> list[Entry]:
    """Return the inventory in the paper's order, with what the records say was run."""
    small, main = ran(SMALL, SMALL), ("procgen-ppo", "procgen-drac")
    return [
        Entry("1, 3, 22, 23", "Procgen: score and overhead", main, status=small),
        Entry("2 (a); overhead appendix", "compute by phase; FLOPs", (), "`adept flops procgen/bigfish`", "arithmetic"),
        Entry("4", "Procgen: test levels", main, status=f"{small}; PPO's scores from public records"),
        Entry("5, 24 to 27", "decisions of U and G", main, status=f"{small}; placebo from public records"),
        Entry("6, 32 to 37", "arm sets on Procgen", ("procgen-arms-ppo", "procgen-arms-drac")),
        Entry("7", "PyBullet", ("pybullet",), status=ran("pybullet")),
        Entry("8", "MiniGrid", ("minigrid",), status=ran("minigrid")),
        Entry("9 to 11", "screenshots", (), "`adept play RUN --video FILE`", "not drawn"),
        Entry("12, 17", "curves of R", main, status=small),
        Entry("13, 14, 28", "PPO+U: c and W", ("procgen-search-u-ppo",)),
        Entry("15, 16, 29", "PPO+G: η and W", ("procgen-search-g-ppo",)),
        Entry("18, 19, 30", "DrAC+U: c and W", ("procgen-search-u-drac",)),
        Entry("20, 21, 31", "DrAC+G: η and W", ("procgen-search-g-drac",)),
        Entry("no figure", "PyBullet: search", ("pybullet-search-u", "pybullet-search-g")),
        Entry("Tables 1 to 3", "hyperparameters, augmentations", (), "`adept train --env ENV --help`",
              "data in [presets.py](../src/adept/presets.py)"),
    ]  # fmt: skip


def ran(name: str, instead: str = "") -> str:
    """Say how much of a study's records are there; where it stands for another one, under which name."""
    if not packed(name):
        return f"`{name}`: declared"
    evidence = load(name)
    study = evidence.results.study
    task = study.tasks[0]
    steps, whole = evidence.comparison.budget[task], study.config(study.baseline, task, study.seeds[0]).steps
    done = f"{evidence.seeds} seeds"
    if instead:
        return f"`{instead}`: {steps / 1e6:.1g} M steps, {len(study.tasks)} tasks, {done}"
    return f"run at full scale: {done}" if steps > 0.9 * whole else (
        f"run reduced: {steps / 1e6:.1g} of {whole / 1e6:.0f} M steps, {done}"
    )  # fmt: skip


@cache
def hours(name: str) -> tuple[float, float | None]:
    """Return the hours of a whole study on one CPU core, as --dry-run estimates them, and roughly on one GPU.

    None where networks are too small for a GPU to help.
    """
    study = load_study(name)
    with tempfile.TemporaryDirectory() as empty:
        cells = estimate(results_of(study, Path(empty)))
    seconds = sum(cell.seconds for cell in cells)
    if not study.tasks[0].startswith("procgen/"):
        return seconds / 3600, None
    flops = sum(
        study.iterations(each.cell.task) * PASS_FLOPS * cost.iteration(each.cell.config, each.epochs) for each in cells
    )
    steps = sum(each.steps for each in cells)
    return seconds / 3600, (flops / GPU_FLOPS + steps / ENVIRONMENT_STEPS) / 3600


def figure_table(found: Sequence[Entry]) -> str:
    """Return the inventory as a table; hours of a study are given once."""
    rows, told = [], set[str]()
    for entry in found:
        commands = entry.command or ", ".join(f"`{name}`" for name in entry.studies)
        new = [name for name in entry.studies if name not in told]
        told.update(new)
        cpu = sum(hours(name)[0] for name in new)
        gpus = [hours(name)[1] for name in new]
        gpu = sum(value for value in gpus if value is not None)
        cells = (f"{cpu:,.0f}", f"{gpu:,.0f}" if gpu else "–") if new else ("", "")
        rows.append([entry.figures, entry.shows, commands, entry.status, *cells])
    header = ("figure", "shows", "study or command", "status", "CPU hours", "GPU hours")
    return table(header, rows, 2)
