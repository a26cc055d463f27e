"""Run the demo's study with other seeds and count those in which its order holds.

    python -m experiments.demo.seeds runs/demo-seeds     # 100 runs; resumable; writes seeds.csv and README.md here

The order: hindsight has the higher mean score over the run from learning rates that are too small (÷ 30, ÷ 10), and its
lowest start is above the lowest one of fixed.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from pathlib import Path

import numpy as np

from adept.report.statistics import area_under_curve
from adept.runs.safe_io import write_aside
from adept.studies.driver import run_study
from adept.studies.engines.local import LocalEngine
from adept.studies.grid import Study, load_study, parse_study
from adept.studies.results import StudyResults

HERE = Path(__file__).parent
SEEDS = tuple(range(101, 111))
STARTS = ("div30", "div10", "x1", "x10", "x30")
SMALL = ("div30", "div10")
Scores = dict[int, dict[str, dict[str, float]]]
"""Mean scores over the run by seed, method and start."""


def with_other_seeds(seeds: tuple[int, ...] = SEEDS) -> Study:
    """Return the demo's study with other seeds, without the bandit, which the order does not name."""
    text, count = re.subn(r"^seeds = .*$", f"seeds = {list(seeds)}", load_study("demo").text, flags=re.MULTILINE)
    head, *methods = text.split("[[methods]]")
    kept = [method for method in methods if 'scheduler = "ucb"' not in method]
    assert count == 1
    return parse_study("[[methods]]".join([head, *kept]), "the demo's study with other seeds")


def scores_of(results: StudyResults) -> Scores:
    """Return the mean scores of the seeds of which every run is done."""
    found: Scores = {}
    open_seeds = {cell.seed for cell in results.cells if cell.state != "done"}
    for cell in (cell for cell in results.cells if cell.seed not in open_seeds):
        method, start = cell.method.rsplit(".", 1)
        curve = results.curve(cell)
        score = area_under_curve(curve["step"], curve["score"], float(curve["step"][-1]))
        found.setdefault(cell.seed, {}).setdefault(method, {})[start] = score
    return found


def read(path: Path = HERE / "seeds.csv") -> Scores:
    """Return the stored scores."""
    found: Scores = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            by_method = found.setdefault(int(row["seed"]), {})
            by_method[row["method"]] = {start: float(row[start]) for start in STARTS}
    return found


def table(scores: Scores) -> str:
    """Return the scores as CSV: a row per seed and method."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("seed", "method", *STARTS))
    for seed, methods in scores.items():
        for method, by_start in methods.items():
            writer.writerow((seed, method, *(f"{by_start[start]:.1f}" for start in STARTS)))
    return text.getvalue()


def holds(methods: dict[str, dict[str, float]]) -> dict[str, bool]:
    """Return by statement whether it holds for one seed."""
    fixed, hindsight = methods["fixed"], methods["hindsight"]
    ahead = {f"hindsight above fixed at {start}": hindsight[start] > fixed[start] for start in STARTS}
    worst = min(hindsight.values()) > min(fixed.values())
    whole = worst and all(hindsight[start] > fixed[start] for start in SMALL)
    return {**ahead, "lowest start of hindsight above that of fixed": worst, "**the order**": whole}


def page(scores: Scores) -> str:
    """Return the counts and the means as Markdown."""
    found = [holds(methods) for methods in scores.values()]
    lines = [
        "# Does the demo depend on its seeds?", "",
        "Written by `python -m experiments.demo.seeds`, which says what the order is; scores: [seeds.csv](seeds.csv).",
        "",
        f"| statement | holds for, of {len(found)} other seeds |", "| --- | ---: |",
        *(f"| {statement} | {sum(each[statement] for each in found)} |" for statement in found[0]), "",
        f"| mean score over the run (lowest to highest seed) | {' | '.join(STARTS)} |",
        "| --- |" + " ---: |" * len(STARTS),
    ]  # fmt: skip
    for method in next(iter(scores.values())):
        values = np.array([[methods[method][start] for start in STARTS] for methods in scores.values()])
        cells = (f"{own.mean():.0f} ({own.min():.0f} to {own.max():.0f})" for own in values.T)
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not done yet, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    scores = scores_of(run_study(with_other_seeds(), options.folder, LocalEngine(options.workers)))
    write_aside(HERE / "seeds.csv", table(scores))
    write_aside(HERE / "README.md", page(read()))


if __name__ == "__main__":
    main()
