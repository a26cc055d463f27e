"""Record gains.csv from one run and draw gains.png from it: what each epoch of an update is worth.

`python docs/images/gains.py` draws; `--record` runs the run again first (about a minute on one core).
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from adept.presets import preset

HERE = Path(__file__).parent
RECORD = HERE / "gains.csv"
ENV, EPOCHS, STEPS, SEED = "minigrid/DoorKey-6x6", 8, 400_000, 3
SOLVED = 0.9
STAGES = (("while the return rises", "#0072b2"), ("after the task is solved", "#d55e00"))


def record() -> None:
    """Run with every update judged, and keep the columns that the figure needs."""
    from adept.training import train

    config = replace(preset(ENV, scheduler="fixed"), arms=(EPOCHS,), steps=STEPS, seed=SEED, monitor_every=1)
    names = ["step", "score", "gain/1", "gain/2", "gain/4", "update_gain"]
    with RECORD.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(names)
        for found in train(config):
            values = [found.get(name, math.nan) for name in names]
            if all(math.isfinite(value) for value in values):
                rows.writerow([f"{value:.6g}" for value in values])


def stages(table: dict[str, np.ndarray]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield each stage with its colour and the rows that belong to it."""
    solved = np.maximum.accumulate(table["score"]) >= SOLVED
    rising = ~solved & (table["score"] > 0.1)
    for (name, colour), rows in zip(STAGES, (rising, solved), strict=True):
        yield name, colour, rows


def draw() -> None:
    """Draw the mean gain after each epoch with its standard error, by stage."""
    import matplotlib

    matplotlib.use("agg")
    from adept.report.figures import STYLE

    with RECORD.open() as file:
        lines = list(csv.DictReader(file))
    table = {name: np.array([float(line[name]) for line in lines]) for name in lines[0]}
    columns = {1: "gain/1", 2: "gain/2", 4: "gain/4", EPOCHS: "update_gain"}
    with matplotlib.rc_context({**STYLE, "font.size": 10}):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 3.1), layout="constrained")
        axes = figure.add_subplot()
        axes.axhline(0, color="#4a4f57", linewidth=0.9)
        for name, colour, rows in stages(table):
            found = [100 * table[column][rows] for column in columns.values()]
            means = [float(values.mean()) for values in found]
            errors = [float(values.std(ddof=1)) / math.sqrt(len(values)) for values in found]
            axes.errorbar([0, *columns], [0, *means], [0, *errors], color=colour, marker="o", linewidth=2, capsize=3)
            axes.annotate(
                f"{name}\n({rows.sum()} updates)", (EPOCHS, means[-1]), xytext=(10, 0), textcoords="offset points",
                color=colour, va="center", annotation_clip=False,
            )  # fmt: skip
            print(
                name, rows.sum(), *(f"{k}: {m:.2f} ± {e:.2f}" for k, m, e in zip(columns, means, errors, strict=True))
            )
        axes.set_xlim(-0.1, EPOCHS + 0.1)
        axes.set_xticks([0, *columns])
        axes.set_xlabel("epochs of the update")
        axes.set_ylabel("gain, % of a standard\ndeviation of the advantage")
        axes.set_title(f"What each epoch was worth: one PPO run, {ENV.partition('/')[2]}, K = {EPOCHS}")
        figure.savefig(HERE / "gains.png", dpi=160, metadata={"Software": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="run the run again first")
    if parser.parse_args().record:
        record()
    draw()
