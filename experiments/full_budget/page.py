"""The table of the study full-budget, from its records.

adept study full-budget --out results/full-budget     resumable; then: adept study pack results/full-budget
python -m experiments results/full-budget/README.md   writes the table
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from adept.studies.results import StudyResults, load_results
from experiments.stable_baselines3.starts import mean
from experiments.start_anywhere.analysis import update_flops
from paper.measures import RESULTS
from paper.words import table

Array = npt.NDArray[np.float64]
FOLDER = RESULTS / "full-budget"
PUBLISHED = {
    "envpool/HalfCheetah-v4": "1443 ± 46",
    "envpool/Hopper-v4": "2383 ± 272",
    "envpool/Walker2d-v4": "2288 ± 572",
}
"""CleanRL's final scores of ppo_continuous_action.py, whose settings the preset has (docs.cleanrl.dev, 3 seeds)."""


@dataclass(frozen=True)
class Numbers:
    """One number of every run: of its method on a task, NaN for seeds that are missing."""

    final: Array
    mean: Array
    flops: Array
    seconds: Array


def read(results: StudyResults) -> dict[tuple[str, str], Numbers]:
    """Return the numbers of the runs that are done, by task and method."""
    names = [method.name for method in results.study.methods]
    seeds = results.study.seeds
    found = {(task, name): Numbers(*(np.full(len(seeds), math.nan) for _ in range(4)))
             for task in results.study.tasks for name in names}  # fmt: skip
    for cell in results.cells:
        if cell.state == "done":
            numbers, place, curve = found[cell.task, cell.method], seeds.index(cell.seed), results.curve(cell)
            numbers.final[place] = curve["score"][-1]
            numbers.mean[place] = np.nanmean(curve["score"])
            numbers.flops[place] = update_flops(cell.config, curve)
            numbers.seconds[place] = curve["processor_seconds"][-1]
    return found


def rows(found: Mapping[tuple[str, str], Numbers], baseline: str, label: Callable[[str], str]) -> list[list[str]]:
    """Return a row for each task and method that has a run; costs are relative to the baseline's on the same task."""
    lines = []
    for (task, method), numbers in found.items():
        done = int(np.isfinite(numbers.final).sum())
        if done:
            base = found[task, baseline]
            costs = (np.nanmean(own) / np.nanmean(theirs) if np.isfinite(theirs).any() else math.nan
                     for own, theirs in ((numbers.flops, base.flops), (numbers.seconds, base.seconds)))  # fmt: skip
            shares = ("" if math.isnan(share) else f"{100 * share:.0f} %" for share in costs)
            lines.append([task.split("/")[1], label(method), mean(numbers.final), mean(numbers.mean), *shares])
    return lines


def block() -> str:
    """Return the table of all finished runs, with CleanRL's published scores."""
    results = load_results(FOLDER)
    study = results.study
    done = sum(cell.state == "done" for cell in results.cells)
    labels = {method.name: method.label for method in study.methods}
    published = ", ".join(f"{task.split('/')[1]} {score}" for task, score in PUBLISHED.items())
    header = ("task", "method", "final score", "mean score over the run", "update FLOPs", "processor time")
    return (
        f"{done} of {len(results.cells)} runs are done. Means over seeds with Student's 95 % interval; costs in per "
        f"cent of the preset's on the same task. CleanRL publishes for the preset: {published}.\n\n"
        f"{table(header, rows(read(results), study.baseline, labels.__getitem__), 4)}"
    )


BLOCKS = {"full-budget": block}
