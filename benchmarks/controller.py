"""Settings of the hindsight controller on its development tasks: every trial in one table, with its commit.

    adept study controller --out FOLDER              # the settings that adept/studies/data/controller.toml holds now
    python -m benchmarks.controller add FOLDER       # its finished runs into results/controller/trials.csv
    python -m benchmarks.controller table            # the table of docs/hindsight.md, from that file

A setting that was given up stays in trials.csv, with the commit that can run it.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from adept import cost
from adept.studies.results import Cell, StudyResults, load_results

TRIALS = Path(__file__).parents[1] / "results" / "controller" / "trials.csv"
PAGE = Path(__file__).parents[1] / "docs" / "hindsight.md"
BEGIN, END = "<!-- controller experiments -->", "<!-- end of controller experiments -->"
BASELINE = "preset"
Row = dict[str, str]


def row_of(results: StudyResults, cell: Cell) -> Row:
    """Return one finished run as a row: what it was, what it scored, what its updates cost."""
    curve, config = results.curve(cell), cell.config
    iterations = len(curve["score"])
    rows = float(curve["epochs_done"].sum()) * config.minibatches * config.minibatch_size
    return {
        "setting": cell.method,
        "options": json.dumps(dict(config.scheduler_options), sort_keys=True),
        "task": cell.task,
        "seed": str(cell.seed),
        "commit": results.starts(cell)[-1]["commit"][:7],
        "steps": str(iterations * config.batch_size),
        "mean_score": f"{np.nanmean(curve['score']):.6g}",
        "final_score": f"{curve['score'][-1]:.6g}",
        "epochs": f"{curve['epochs_done'].sum():.0f}",
        "flops": f"{curve['flops'][-1]:.6g}",
        "passes": f"{iterations * cost.sampling(config) + cost.update(config, int(rows)):.6g}",
        "sampling": f"{iterations * cost.sampling(config):.6g}",
        "last_stride": f"{curve['stride'][-1]:.4g}" if "stride" in curve else "",
    }


def read() -> list[Row]:
    """Return the trials on file."""
    if not TRIALS.exists():
        return []
    with TRIALS.open(newline="") as file:
        return list(csv.DictReader(file))


def add(folder: Path) -> None:
    """Put a study's finished runs on file; a run that is there already is replaced."""
    results = load_results(folder)
    key = ("setting", "options", "task", "seed", "commit")
    trials = {tuple(row[name] for name in key): row for row in read()}
    for cell in results.cells:
        if cell.state == "done":
            row = row_of(results, cell)
            trials[tuple(row[name] for name in key)] = row
    TRIALS.parent.mkdir(parents=True, exist_ok=True)
    with TRIALS.open("w", newline="") as file:
        writer = csv.DictWriter(file, next(iter(trials.values())), lineterminator="\n")
        writer.writeheader()
        writer.writerows(trials[key] for key in sorted(trials))
    print(f"{len(trials)} trials in {TRIALS.name}")


def update_flops(row: Row, preset: Row) -> float:
    """Return the FLOPs of a run's updates and measurements; without those the FLOPs are a forward pass each."""
    forward = float(preset["flops"]) / float(preset["passes"])
    return float(row["flops"]) - forward * float(row["sampling"])


def table(trials: list[Row]) -> str:
    """Return a row per setting: seeds, runs ahead of the preset's, differences by task, and the cost of updates."""
    presets = {(row["task"], row["seed"]): row for row in trials if row["setting"] == BASELINE}
    spread = defaultdict(list)
    for (task, _), row in presets.items():
        spread[task].append(float(row["mean_score"]))
    tasks = sorted(spread)
    settings = defaultdict(list)
    for row in trials:
        if row["setting"] != BASELINE and (row["task"], row["seed"]) in presets:
            settings[row["setting"], row["options"], row["commit"]].append(row)
    names = [task.partition("/")[2] for task in tasks]
    lines = [
        f"| setting | options | commit | ahead | {' | '.join(names)} | update FLOPs |",
        f"| --- | --- | --- | ---: | {' | '.join('---:' for _ in tasks)} | ---: |",
        f"| preset | | | | {' | '.join(_scores(spread[task]) for task in tasks)} | 100 % |",
    ]
    for (setting, options, commit), rows in sorted(settings.items()):
        ahead, costs, cells = 0, defaultdict(list), defaultdict(list)
        for row in rows:
            preset = presets[row["task"], row["seed"]]
            gained = float(row["mean_score"]) - float(preset["mean_score"])
            ahead += gained > 0
            cells[row["task"]].append(gained)
            costs[row["task"]].append(update_flops(row, preset) / update_flops(preset, preset))
        shown = ", ".join(f"{name} {value}" for name, value in json.loads(options).items())
        share = np.mean([np.mean(each) for each in costs.values()])
        differences = " | ".join(_difference(cells[task]) for task in tasks)
        lines.append(f"| {setting} | {shown} | {commit} | {ahead} of {len(rows)} | {differences} | {100 * share:.0f} % |")
    return "\n".join(lines)


def _scores(values: list[float]) -> str:
    return f"{np.mean(values):.3g}"


def _difference(values: list[float]) -> str:
    """Return the mean paired difference and its standard error."""
    if not values:
        return ""
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{np.mean(values):+.2g} ± {error:.1g}" if len(values) > 1 else f"{values[0]:+.2g}"


def write() -> None:
    """Put the table between the page's markers."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(read())}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["add", "table", "write"])
    parser.add_argument("folder", nargs="?", type=Path)
    given = parser.parse_args()
    if given.what == "add":
        add(given.folder)
    elif given.what == "table":
        print(table(read()))
    else:
        write()


if __name__ == "__main__":
    main()
