"""What the measured rows say: how far hindsight and the paper's reward agree with true returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adept.hindsight.estimates import Estimate
from adept.report.figures import WIDTH, Drawing, legend, new_figure, our_style
from adept.report.tables import Block
from paper.words import table as markdown_table

Array = np.ndarray[Any, np.dtype[np.float64]]
Rows = np.ndarray[Any, np.dtype[np.int64]]
SLOPE = (-1.25, -0.75)
"""The pair of candidates, lengths as negative numbers, whose difference the slope foretells."""
NAMES = {"said": "hindsight", "reward": "the paper's reward"}
FEWEST = 3
"""Repeats, or states, without which nothing is said."""


@dataclass(frozen=True)
class Run:
    """The rows of one run."""

    task: str
    seed: int
    marks: tuple[int, ...]
    rows: list[dict[str, float]]


@dataclass(frozen=True)
class Point:
    """One difference between two parameters at one state: a number for each repeat."""

    state: str
    said: Array
    reward: Array
    truth: Array

    def z(self, name: str) -> float:
        """Return the mean over repeats as a standard normal deviate: in standard errors, less where repeats are few."""
        values: Array = getattr(self, name)
        error = float(values.std(ddof=1)) / math.sqrt(len(values))
        return Estimate(float(values.mean()), error, len(values) - 1).z

    @property
    def weight(self) -> float:
        """How sure the sign of the truth is: 2Φ(|z|) - 1, from 0 to 1."""
        return math.erf(abs(self.z("truth")) / math.sqrt(2))

    def agrees(self, name: str) -> float:
        """Return the share of repeats whose sign is that of the true difference, the mean of all repeats."""
        return float(np.mean(np.sign(getattr(self, name)) == np.sign(self.truth.mean())))


def points(run: Run, pair: tuple[float, float]) -> Iterator[Point]:
    """Yield the difference of two candidates at each stage; the slope says that of 1.25 and 0.75 of the step."""
    for stage in sorted({row["stage"] for row in run.rows}):
        repeats: dict[float, dict[float, dict[str, float]]] = {}
        for row in run.rows:
            if row["stage"] == stage:
                repeats.setdefault(row["repeat"], {})[row["candidate"]] = row
        whole = [each for each in repeats.values() if set(pair) <= each.keys()]

        def differences(name: str, whole: list[Any] = whole) -> Array:
            return np.array([each[pair[0]][name] - each[pair[1]][name] for each in whole])

        # A bandit compares the rewards of different rollouts: here those of one repeat and the next.
        rewards = np.array([each[pair[0]]["reward"] for each in whole])
        reward = rewards - np.roll([each[pair[1]]["reward"] for each in whole], 1)
        said = np.array([each[pair[0]]["slope"] for each in whole]) if pair == SLOPE else differences("gain")
        known = np.isfinite(said)
        if known.sum() >= FEWEST:
            state = f"{run.task}-{run.seed}-{stage:g}"
            yield Point(state, *(each[known] for each in (said, reward, differences("truth"))))


def questions(runs: Sequence[Run]) -> dict[str, list[Point]]:
    """Return the points of each question that hindsight answers."""
    found: dict[str, list[Point]] = {"whole update or none": [], "all epochs or fewer": [], "1.25 or 0.75 steps": []}
    for run in runs:
        *fewer, most = run.marks
        found["whole update or none"] += points(run, (most, 0.0))
        found["all epochs or fewer"] += [point for mark in fewer for point in points(run, (most, mark))]
        found["1.25 or 0.75 steps"] += points(run, SLOPE)
    return found


def agreement(found: Sequence[Point], name: str) -> Callable[[Rows], float]:
    """Return the share of signs that agree on some points, a state counting as much as its truth is sure."""
    weight = np.array([point.weight for point in found])
    agrees = np.array([point.agrees(name) for point in found])

    def share(rows: Rows) -> float:
        return float(agrees[rows] @ weight[rows] / weight[rows].sum()) if weight[rows].any() else math.nan

    return share


def correlation(found: Sequence[Point], name: str) -> Callable[[Rows], float]:
    """Return Spearman's correlation with the truth on some points, both as means over repeats in standard errors."""
    said, truth = (np.array([point.z(each) for point in found]) for each in (name, "truth"))

    def spearman(rows: Rows) -> float:
        one, other = ranks(said[rows]), ranks(truth[rows])
        return float(np.corrcoef(one, other)[0, 1]) if one.std() and other.std() else math.nan

    return spearman


def ranks(values: Array) -> Array:
    """Return ranks from 0; equal values share the mean of theirs."""
    return np.array((values[:, None] > values).sum(1) + ((values[:, None] == values).sum(1) - 1) / 2)


def interval(found: Sequence[Point], statistic: Callable[[Rows], float], draws: int = 1000) -> str:
    """Return a statistic and its 95 % interval when whole states are drawn again."""
    names = [point.state for point in found]
    by_state = [np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)]
    rng, drawn = np.random.default_rng(0), []
    for _ in range(draws):
        chosen = rng.integers(len(by_state), size=len(by_state))
        drawn.append(statistic(np.concatenate([by_state[index] for index in chosen])))
    known = [value for value in drawn if math.isfinite(value)]
    if not known:
        return "not known"
    low, high = np.quantile(known, [0.025, 0.975])
    return f"{statistic(np.arange(len(found))):.2f} [{low:.2f}, {high:.2f}]"


def table(runs: Sequence[Run]) -> str:
    """Return the agreement of hindsight and of the paper's reward with the truth, in Markdown."""
    rows = []
    for family in ("minigrid", "pybullet", ""):
        for question, found in questions([run for run in runs if run.task.startswith(family)]).items():
            states = len({point.state for point in found})
            if states >= FEWEST:
                cells = [
                    interval(found, measure(found, name)) for measure in (agreement, correlation) for name in NAMES
                ]
                rows.append([family or "all", question, f"{states}", *cells])
    header = ("tasks", "question", "states", "same sign, one update: hindsight", "paper's reward",
              "rank correlation: hindsight", "paper's reward")  # fmt: skip
    return markdown_table(header, rows)


def block(runs: Sequence[Run]) -> str:
    """Return the table, and what it was measured on."""
    tasks = ", ".join(f"{run.task} (seed {run.seed})" for run in runs)
    repeats = {len({row["repeat"] for row in run.rows if row["stage"] == stage})
               for run in runs for stage in {row["stage"] for row in run.rows}}  # fmt: skip
    span = f"{min(repeats)}" if len(repeats) == 1 else f"{min(repeats)} to {max(repeats)}"
    played = sum(len(run.rows) for run in runs)
    return f"{table(runs)}\n\n{tasks}; {span} updates per state, {played} policies played."


@our_style()
def drawing(runs: Sequence[Run]) -> Drawing:
    """Draw what was said against the truth, both in standard errors."""
    figure, (axes,) = new_figure(1, 2, WIDTH, 3.4, sharey=True)
    rows: list[Block] = []
    for axis, (name, label) in zip(axes, NAMES.items(), strict=True):
        for marker, (question, found) in zip("os^", questions(runs).items(), strict=True):
            said, truth = ([point.z(each) for point in found] for each in (name, "truth"))
            axis.scatter(said, truth, 18, marker=marker, label=question, alpha=0.75, linewidths=0)
            rows += [{"by": label, "question": question, "state": point.state, "said": round(one, 4),
                      "truth": round(other, 4)}
                     for point, one, other in zip(found, said, truth, strict=True)]  # fmt: skip
        axis.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        axis.axvline(0, color="0.7", linewidth=0.8, zorder=0)
        axis.set_xscale("symlog", linthresh=2)
        axis.set_xlabel(f"difference by {label}, standard errors")
    axes[0].set_ylabel("difference of true returns, standard errors")
    axes[0].set_yscale("symlog", linthresh=2)
    legend(figure)
    caption = "Each point is a difference between two parameters at one state: means over updates in standard errors."
    return Drawing("truth", "Estimates of updates against the true returns", caption, figure, rows)
