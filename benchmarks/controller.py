"""Settings of the hindsight controller on its development tasks: every trial in one table, with its commit.

    adept study controller --out FOLDER              # the settings that adept/studies/data/controller.toml holds now
    python -m benchmarks.controller add FOLDER       # its finished runs into results/controller/trials.csv
    python -m benchmarks.controller table            # what all of them came to
    python -m benchmarks.controller write            # the same into results/controller, a part into docs/hindsight.md

A setting that was given up stays in trials.csv, with the commit that can run it.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from adept import cost
from adept.studies.results import Cell, StudyResults, load_results

TRIALS = Path(__file__).parents[1] / "results" / "controller" / "trials.csv"
ALL = TRIALS.with_name("README.md")
EXPLAINED = """Differences of the mean score over the run from the preset's with the same seed, with standard errors
where there is more than one seed. "Ahead" counts runs. `trials.csv` has each run with its commit. Written by
`python -m benchmarks.controller write`."""
PAGE = Path(__file__).parents[1] / "docs" / "hindsight.md"
BEGIN, END = "<!-- controller experiments -->", "<!-- end of controller experiments -->"
BASELINE = "preset"
SETTINGS = {
    "critic": "the default",
    "trade": "the default of `compute`; differs from the next only where the learning rate is below 0.001",
    "critic-compute": "`compute`, nothing traded at once",
    "kl-0.025": "the default, a KL above 0.025 counts as overshooting",
    "kl-0.025-gain-1": "the same, gain 1",
    "samples": "one scale for actor and critic (`critic` = `shared`), as in the first tournament",
    "compute": "`compute` so",
    "blind-at-0": "`samples`, slopes not counted at an explained variance ≤ 0",
    "blind-at-0-compute": "`compute` so",
    "critic-1": "`blind-at-0`, the critic's slope added, within ±1",
    "critic-2": "`blind-at-0`, the critic's slope added, within ±2",
    "soft-guard": "`blind-at-0`, only a KL above 0.1 counts as overshooting",
    "soft-guard-gain-0.8": "the same, gain 0.8, deadband 1.75",
    "soft-guard-limit-0.1": "the same as `soft-guard`, growing up to a KL of 0.1",
    "soft-guard-limit-0.1-gain-0.8": "the same, gain 0.8, deadband 1.75",
    "gain-0.1": "gain 0.1",
    "gain-1": "gain 1, deadband 2",
    "gain-1-undamped": "the same, growing also near the KL limit",
    "deadband-1": "deadband 1, leak 0.02",
    "no-guard": "no limit on the KL",
    "actor-alone": "the scale for the actor alone, the critic at the preset's rate",
    "per-rollout": "the update's advantages normalised per rollout, not per minibatch",
    "epochs-1": "`samples` with 1 epoch from the start",
    "epochs-2": "`samples` with 2 epochs from the start",
    "epochs-3": "`samples` with 3 epochs from the start",
    "epochs-5": "`samples` with 5 epochs from the start",
    "always": "`compute`: epochs come down whatever the slope says",
    "always-pace-0.05": "the same at half the pace",
    "pace-0.25": "`compute`: epochs come down faster",
    "gain-1-pace-0.25": "the same with gain 1, deadband 2",
    "compute-beta-0.5": "`compute`: scale eˣ·√(K/K')",
    "compute-beta-0": "`compute`: scale eˣ, nothing made up for",
    "look-ahead": "the cheapest epochs within 90 % of the best gain, averaged over updates, at least 2",
    "look-ahead-back": "the same, going back to an earlier epoch that is better by two errors",
    "share-0.5": "`compute`: to half of the epochs",
    "share-0.5-pace-0.05": "the same at half the pace",
    "share-0.5-pace-0.25": "the same faster",
    "share-0.7-pace-0.25": "`compute`: to 70 % of the epochs, faster",
    "one-slope": "each slope by itself, gain 0.3, deadband 1, leak 0.02",
    "one-slope-smoothing-4": "`one-slope`, averaged over 4 updates",
    "one-slope-leak-0.1": "the same, no deadband, leak 0.1",
    "sequential": "slopes added up to 2 standard errors, then × or ÷ 1.5",
    "one-slope-compute": "`one-slope`, epochs coming down at pace 0.25",
    "one-slope-share-0.5": "the same to half of the epochs",
    "one-slope-compute-root": "the same, scale eˣ·√(K/K')",
    "one-slope-trade": "K' = K·exp(−\\|x\\|), at least √K: epochs for scale at once",
    "fixed-rate-2": "no controller: learning rate × 2",
    "fixed-rate-4": "learning rate × 4",
    "fixed-half-rate-2": "half of the epochs, learning rate × 2",
    "fixed-half-rate-4": "half of the epochs, learning rate × 4",
    "fixed-third": "a third of the epochs",
    "fixed-third-rate-3": "a third of the epochs, learning rate × 3",
    "fixed-third-rate-6": "a third of the epochs, learning rate × 6",
    "fixed-third-rate-10": "a third of the epochs, learning rate × 10",
}
"""What each setting in the file of trials is, in the order of the table."""
FOUR = "preset-4"
SETTINGS_OF_FOUR = {
    "compute-4": "`compute`",
    "floor-1": "`compute`, down to 1 epoch instead of 2",
}
"""Settings that were tried with 4 epochs, at twice the preset's learning rate where its epochs are more."""
TURNED = "preset-turned"
SETTINGS_TURNED = {"samples-turned": "`samples`"}
"""The default where the learning rate falls if the preset's is constant, and is constant if the preset's falls."""
TABLES = (
    (BASELINE, SETTINGS, ""),
    (FOUR, SETTINGS_OF_FOUR, "With 4 epochs instead of the preset's"),
    (TURNED, SETTINGS_TURNED, "With a learning rate that falls on Pendulum and DoorKey, and does not on the others"),
)
"""Baseline, settings and heading of each table."""
SHOWN = (
    "critic", "trade", "critic-compute", "kl-0.025", "kl-0.025-gain-1", "samples", "compute", "gain-0.1", "gain-1",
    "no-guard", "blind-at-0", "actor-alone", "per-rollout", "epochs-1", "epochs-2", "epochs-3", "epochs-5",
    "pace-0.25", "always", "compute-beta-0.5", "compute-beta-0", "look-ahead", "look-ahead-back", "one-slope",
    "one-slope-smoothing-4", "sequential", "critic-2", "fixed-rate-2", "fixed-half-rate-2", "fixed-third-rate-3",
)  # fmt: skip
"""The settings in docs/hindsight.md: each answers a question."""
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
        "last_lr_scale": f"{curve['lr_scale'][-1]:.4g}" if "lr_scale" in curve else "",
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


def table(trials: list[Row], shown: Iterable[str] = SETTINGS, baseline: str = BASELINE) -> str:
    """Return a row per setting: what it is, runs ahead of the baseline's, differences by task, cost of updates."""
    presets = {(row["task"], row["seed"]): row for row in trials if row["setting"] == baseline}
    spread = defaultdict(list)
    for (task, _), row in presets.items():
        spread[task].append(float(row["mean_score"]))
    tasks = sorted(spread)
    settings: dict[str, dict[tuple[str, str], list[Row]]] = {name: {} for name in shown}
    for row in trials:
        if row["setting"] in settings and (row["task"], row["seed"]) in presets:
            settings[row["setting"]].setdefault((row["task"], row["seed"]), []).append(row)
    names = [task.partition("/")[2] for task in tasks]
    lines = [
        f"| setting | | ahead | {' | '.join(names)} | update FLOPs |",
        f"| --- | --- | ---: | {' | '.join('---:' for _ in tasks)} | ---: |",
        f"| {baseline} | | | {' | '.join(_scores(spread[task]) for task in tasks)} | 100 % |",
    ]
    for setting, rows in settings.items():
        if not rows:
            continue
        ahead, costs, cells = 0, defaultdict(list), defaultdict(list)
        for (task, seed), same in rows.items():  # of several commits: their mean
            preset = presets[task, seed]
            gained = float(np.mean([float(row["mean_score"]) for row in same])) - float(preset["mean_score"])
            ahead += gained > 0
            cells[task].append(gained)
            costs[task].append(np.mean([update_flops(row, preset) for row in same]) / update_flops(preset, preset))
        share = np.mean([np.mean(each) for each in costs.values()])
        differences = " | ".join(_difference(cells[task]) for task in tasks)
        lead = f"`{setting}` | {(SETTINGS | SETTINGS_OF_FOUR | SETTINGS_TURNED)[setting]} | {ahead} of {len(rows)}"
        lines.append(f"| {lead} | {differences} | {100 * share:.0f} % |")
    return "\n".join(lines)


def tables(trials: list[Row]) -> str:
    """Return all tables, each under its heading."""
    return "\n\n".join(
        f"## {heading}\n\n{table(trials, settings, baseline)}" if heading else table(trials, settings, baseline)
        for baseline, settings, heading in TABLES
    )


def _scores(values: list[float]) -> str:
    mean = float(np.mean(values))
    return f"{mean:.0f}" if abs(mean) >= 100 else f"{mean:.3g}"


def _difference(values: list[float]) -> str:
    """Return the mean paired difference, and its standard error where there is more than one seed."""
    if not values:
        return ""
    largest = max(abs(value) for value in values)
    digits = 0 if largest >= 10 else 1 if largest >= 1 else 3
    if len(values) == 1:
        return f"{values[0]:+.{digits}f}"
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return f"{np.mean(values):+.{digits}f} ± {error:.{digits}f}"


def write() -> None:
    """Write all settings beside the trials, and a part of them between the page's markers."""
    trials = read()
    title = "# Every setting of the hindsight controller that was tried"
    ALL.write_text(f"{title}\n\n{EXPLAINED}\n\n{tables(trials)}\n")
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(trials, SHOWN)}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["add", "table", "write"])
    parser.add_argument("folder", nargs="?", type=Path)
    given = parser.parse_args()
    if given.what == "add":
        add(given.folder)
    elif given.what == "table":
        print(tables(read()))
    else:
        write()


if __name__ == "__main__":
    main()
