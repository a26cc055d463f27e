"""Is the advice right? It is followed: second runs with the recommended settings, compared with the first ones.

python -m experiments.advice.followed run [--only NAME]    makes the runs that are missing; it resumes
python -m experiments.advice.followed table                prints the table, from the records
python -m experiments results/advice/README.md             writes it to the page

`followed.toml` declares the runs: 20 settings, most of them wrong on purpose, with what counts as right. The advice is
read on the run of the first seed. Its settings (`adept.runs.advice.follow`) and the first ones are then run with every
seed, and compared by the mean score over the run, in shares of the progress: (second - first) / (best of both -
untrained). Untrained is a policy that does not learn; where neither setting scores more, there is no progress to share,
and the advice is not right.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomllib

from adept.config import Config
from adept.hindsight.advice import Advice
from adept.presets import preset
from adept.report.statistics import area_under_curve
from adept.runs.advice import advice_of, follow
from adept.runs.records import Columns
from adept.runs.safe_io import write_aside
from experiments.advice.directions import shortened
from experiments.advice.runs import RESULTS, make, read
from experiments.start_anywhere.analysis import return_without_learning

DECLARATION = Path(__file__).with_suffix(".toml")
UNTRAINED = "untrained.csv"
"""Beside the records: by environment, the mean return without learning."""
EXPECTED = ("better", "better-or-cheaper", "not-worse")


@dataclass(frozen=True)
class Cell:
    """One setting of the declaration."""

    name: str
    kind: str
    expected: str
    """better: the second runs score higher; better-or-cheaper: or not lower with less compute; not-worse: not lower"""
    config: Config


@dataclass(frozen=True)
class Declaration:
    """The whole experiment as data."""

    seeds: tuple[int, ...]
    margin: float
    """share of the progress that counts as a difference"""
    cheaper: float
    """share of the first runs' update epochs below which the second ones are cheaper"""
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of following the advice on one cell."""

    cell: Cell
    advice: Advice
    first: float
    """mean score of the runs with the first settings"""
    second: float
    """mean score of the runs that followed the advice"""
    progress: float
    """difference of the scores, as a share of the progress; NaN where there is none"""
    epochs: float
    """update epochs of the second runs, as a share of those of the first"""
    right: bool


def load(path: Path = DECLARATION) -> Declaration:
    """Return the declaration; unknown keys and kinds are refused."""
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    cells = tuple(_cell(values["kinds"], **each) for each in values["run"])
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        raise ValueError(f"{path.name}: the runs {sorted(names)} have names in common; give each its own")
    return Declaration(tuple(values["seeds"]), values["margin"], values["cheaper"], cells)


def _cell(kinds: Mapping[str, Mapping[str, Any]], *, kind: str, env: str, steps: int) -> Cell:
    settings = dict(kinds[kind])
    expected, factor = settings.pop("expected"), settings.pop("learning_rate_factor", 1.0)
    if expected not in EXPECTED:
        raise ValueError(f"kind {kind!r} expects {expected!r}; choose one of {', '.join(EXPECTED)}")
    base = preset(env, scheduler="fixed")
    config = replace(base, steps=steps, learning_rate=base.learning_rate * factor, **settings)
    return Cell(f"{kind}-{env.partition('/')[2]}", kind, expected, config)


def run(declared: Declaration, folder: Path, only: str = "") -> None:
    """Make the runs that are missing: the first ones, then those that follow the advice on the first seed's."""
    for cell in declared.cells:
        if not cell.name.startswith(only):
            continue
        for seed in declared.seeds:
            _make(folder, cell, "first", replace(cell.config, seed=seed))
        advice = advice_of(cell.config, read(_path(folder, cell, "first", declared.seeds[0])))
        followed = follow(cell.config, advice)
        for seed in declared.seeds if followed != cell.config else ():
            _make(folder, cell, "second", replace(followed, seed=seed))


def _make(folder: Path, cell: Cell, turn: str, config: Config) -> None:
    path = _path(folder, cell, turn, config.seed)
    if make(path, config):
        print(path.name, flush=True)


def _path(folder: Path, cell: Cell, turn: str, seed: int) -> Path:
    return folder / f"{cell.name}-{turn}-{seed}.csv.gz"


def outcome(declared: Declaration, folder: Path, cell: Cell) -> Outcome | None:
    """Return what came of the advice on one cell; None where runs are missing."""
    paths = {turn: [_path(folder, cell, turn, seed) for seed in declared.seeds] for turn in ("first", "second")}
    if not all(path.exists() for path in paths["first"]):
        return None
    first = [read(path) for path in paths["first"]]
    advice = advice_of(cell.config, first[0])
    unchanged = follow(cell.config, advice) == cell.config
    if not unchanged and not all(path.exists() for path in paths["second"]):
        return None
    second = first if unchanged else [read(path) for path in paths["second"]]
    means = _mean_score(first), _mean_score(second)
    progress = max(means) - untrained_scores(declared, folder)[cell.config.env]
    gained = (means[1] - means[0]) / progress if progress > 0 else math.nan
    epochs = _epochs(second) / _epochs(first)
    return Outcome(cell, advice, *means, gained, epochs, right(declared, cell, gained, epochs, unchanged=unchanged))


def right(declared: Declaration, cell: Cell, progress: float, epochs: float, *, unchanged: bool) -> bool:
    """Return whether the advice was right, by what improved."""
    if cell.expected == "not-worse":
        return progress >= -declared.margin
    cheaper = cell.expected == "better-or-cheaper" and epochs <= declared.cheaper and progress >= -declared.margin
    return not unchanged and (progress > declared.margin or cheaper)


def _mean_score(runs: Sequence[Columns]) -> float:
    """Return the mean score over the run, averaged over runs."""
    return float(np.mean([area_under_curve(each["step"], each["score"], float(each["step"][-1])) for each in runs]))


def untrained_scores(declared: Declaration, folder: Path) -> dict[str, float]:
    """Return the mean return without learning by environment; measured once."""
    path = folder / UNTRAINED
    if not path.exists():
        lines = ["env,without_learning"]
        for env, config in {cell.config.env: cell.config for cell in declared.cells}.items():
            found = [return_without_learning(replace(config, seed=seed)) for seed in declared.seeds]
            lines.append(f"{env},{np.mean(found):.6g}")
        write_aside(path, "\n".join(lines) + "\n")
    _, *rows = path.read_text(encoding="utf-8").splitlines()
    return {env: float(score) for env, score in (row.split(",") for row in rows)}


def _epochs(runs: Sequence[Columns]) -> float:
    return float(np.sum([np.nansum(each["epochs_done"]) for each in runs]))


def table(declared: Declaration, folder: Path) -> str:
    """Return the table of all cells whose runs are there, in Markdown."""
    found = [each for cell in declared.cells if (each := outcome(declared, folder, cell)) is not None]
    lines = [
        f"The advice is right on {sum(each.right for each in found)} of {len(found)} settings"
        f" ({len(declared.cells)} declared, {len(declared.seeds)} seeds each).",
        "",
        "| setting | expected | advice | first score | second score | progress | epochs | right |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for each in found:
        cells = (
            each.cell.name, each.cell.expected, shortened(each.advice), f"{each.first:.4g}", f"{each.second:.4g}",
            _share(each.progress), f"{100 * each.epochs:.0f} %", "yes" if each.right else "no",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _share(progress: float) -> str:
    return "none" if math.isnan(progress) else f"{100 * progress:+.0f} %"


def block() -> str:
    """Return the table for the page beside the records."""
    return table(load(), RESULTS / "followed")


def main() -> None:
    """Carry out a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--only", default="", help="settings whose names begin so")
    parser.add_argument("--declaration", type=Path, default=DECLARATION)
    parser.add_argument("--out", type=Path, default=RESULTS / "followed")
    options = parser.parse_args()
    declared = load(options.declaration)
    if options.command == "run":
        run(declared, options.out, options.only)
    else:
        print(table(declared, options.out), end="")


if __name__ == "__main__":
    main()
