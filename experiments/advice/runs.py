"""One run of an experiment on advice, stored as the columns that the advice reads."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np

from adept.config import Config, Execution
from adept.runs.records import Columns
from adept.training import train

RESULTS = Path(__file__).resolve().parent.parent.parent / "results" / "advice"
KEPT = (
    "iteration", "step", "score", "epochs", "epochs_done", "learning_rate", "flops", "update_seconds",
    "approx_kl_last_epoch", "explained_variance", "lr_scale", "slope", "critic_slope", "update_gain", "gain/",
)  # fmt: skip
"""Columns, or their beginnings, that are stored."""


def make(path: Path, config: Config) -> bool:
    """Train a run and store its columns; return False where they are stored already."""
    if path.exists():
        return False
    records = list(train(config, Execution(device="cpu")))
    names = [name for name in records[0] if name.startswith(KEPT)]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: f"{record[name]:.6g}" for name in names} for record in records)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    aside.rename(path)  # a run that was interrupted leaves no record
    return True


def read(path: Path) -> Columns:
    """Return the stored columns of a run."""
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    return Columns({name: np.array([float(row[name]) for row in rows]) for name in rows[0]}, str(path))
