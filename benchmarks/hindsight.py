"""Does hindsight tell the truth? Gains and slopes against the returns that came of the same parameters.

python benchmarks/hindsight.py run [--only pybullet]    measures what is missing in results/hindsight, a row at a time
python benchmarks/hindsight.py table                    prints agreement and correlations from the stored rows

A run is stopped at several stages. From each stage, and for each of several rollouts, one update of the baseline's K
epochs is made, and its parameters are kept after each of several epochs (θ_k) and at 0.75 and 1.25 of its length. The
next rollout, collected with θ_K, judges them: gain of each over θ₀, and slope. Then every one of them acts for many
rollouts from the same seeds, without learning. A row of the table holds, for one of these parameters,

- gain, gain_error: what hindsight says of them; slope, slope_z: of the update;
- reward: the mean GAE return of their first rollout, which is what the paper's bandit goes by;
- truth, truth_error: the mean return of the episodes that end in all their rollouts.
"""

from __future__ import annotations

import argparse
import copy
import csv
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "hindsight"
sys.path.insert(0, str(ROOT))

from adept.hindsight.estimates import time_groups  # noqa: E402
from adept.hindsight.judge import Judge  # noqa: E402
from adept.plan import preset_plan  # noqa: E402
from adept.presets import preset  # noqa: E402
from adept.probe.branches import with_generator  # noqa: E402
from adept.training import Trainer  # noqa: E402
from adept.watching import LearnerWeights  # noqa: E402

COLUMNS = (
    "stage", "step", "before", "repeat", "candidate", "gain", "gain_error", "slope", "slope_z", "reward", "truth",
    "truth_error", "episodes",
)  # fmt: skip
LENGTHS = (0.75, 1.25)


@dataclass(frozen=True)
class Plan:
    """How a task is measured."""

    marks: tuple[int, ...]
    """epochs whose parameters are judged; the last is the baseline's K"""
    stages: tuple[int, ...]
    repeats: int
    settle: int
    """rollouts before the one that the update is made on, so that the ages of episodes are mixed"""
    listen: int
    """rollouts that make up the truth"""


MINIGRID = Plan((1, 2, 4, 8), (20, 40, 80, 160), repeats=6, settle=2, listen=6)
PYBULLET = Plan((1, 5, 10), (10, 40, 100), repeats=6, settle=0, listen=3)
CELLS = [
    ("minigrid/DoorKey-6x6", 3, MINIGRID),
    ("pybullet/HalfCheetah", 1, PYBULLET),
    ("pybullet/Hopper", 1, PYBULLET),
    ("pybullet/Walker2D", 1, PYBULLET),
    ("minigrid/LavaGapS7", 1, MINIGRID),
    ("minigrid/DoorKey-6x6", 4, MINIGRID),
    ("minigrid/Empty-16x16", 1, MINIGRID),
]


def result_path(task: str, seed: int) -> Path:
    return RESULTS / f"{task.replace('/', '-')}-seed{seed}.csv"


def run(task: str, seed: int, plan: Plan) -> None:
    """Add the rows that are missing; a repeat is written as a whole."""
    path = result_path(task, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["stage"], row["repeat"]) for row in read(path)} if path.exists() else set()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for rows in measured(task, seed, plan, done):
            writer.writerows({name: f"{value:.7g}" for name, value in row.items()} for row in rows)
            file.flush()


def measured(
    task: str, seed: int, plan: Plan, done: set[tuple[float, float]]
) -> Iterator[list[dict[str, float]]]:  # fmt: skip
    """Train with the baseline's K, and at every stage yield the rows of each repeat that is missing."""
    config = replace(preset(task, scheduler="fixed"), seed=seed, arms=(plan.marks[-1],), watch=False)
    wanted = {(stage, repeat) for stage in plan.stages for repeat in range(plan.repeats)}
    if wanted <= done:
        return
    trainer = Trainer(config)
    records = iter(trainer)
    try:
        for stage in plan.stages:
            record = next(each for each in records if each["iteration"] == stage)
            missing = [repeat for repeat in range(plan.repeats) if (stage, repeat) not in done]
            if not missing:
                continue
            saved = copy.deepcopy(trainer.state())
            for repeat in missing:
                about = {"stage": stage, "step": record["step"], "before": record["score"], "repeat": repeat}
                rows = update_and_listen(trainer, plan, record["learning_rate"], repeat, saved)
                yield [about | row for row in rows]
            trainer.load(*copy.deepcopy(saved))
    finally:
        trainer.close()


def update_and_listen(
    trainer: Trainer, plan: Plan, rate: float, repeat: int, saved: tuple[dict[str, Any], dict[str, Any]]
) -> list[dict[str, float]]:
    """Make one update from the saved state, judge its parameters by the next rollout, and let all of them act."""
    collector, learner, config = trainer.collector, trainer.learner, trainer.config
    learner.load(*with_generator(part(saved, "learner"), 1, repeat))
    fresh(trainer, saved, 2, repeat)
    for _ in range(plan.settle):
        collector.collect()
    rollout = collector.collect()
    judge = Judge(LearnerWeights(learner), lengths=LENGTHS)
    judge.begin()
    for epoch in learner.epochs(rollout, preset_plan(config, plan.marks[-1], rate)):
        if epoch.index in plan.marks[:-1]:
            judge.mark(epoch.index)
    following = collector.collect()
    verdict = judge.judge(
        lambda: learner.log_probs(following), following.advantages.numpy(),
        time_groups(config.rollout_length, config.environments), deployed=following.log_probs.numpy(),
    )  # fmt: skip
    assert verdict is not None
    assert judge.start is not None
    start, last = judge.start, learner.parameters()
    candidates = {0.0: start, **judge.waypoints, plan.marks[-1]: last}
    gains = {0.0: (0.0, 0.0), plan.marks[-1]: (verdict.update_worth.value, verdict.update_worth.error)}
    gains |= {epoch: (each.value, each.error) for epoch, each in verdict.by_epoch.items()}
    for length in LENGTHS:  # as negative numbers, so that the column is one of numbers
        candidates[-length] = start + length * (last - start)
        gains[-length] = (verdict.by_length[length].value, verdict.by_length[length].error)
    rows = []
    for candidate, parameters in candidates.items():
        with learner.at(parameters):
            heard = listen(trainer, plan, repeat, saved)
        gain, error = gains[candidate]
        judged = {"candidate": candidate, "gain": gain, "gain_error": error}
        rows.append(judged | {"slope": verdict.slope.value, "slope_z": verdict.slope.z} | heard)
    return rows


def listen(trainer: Trainer, plan: Plan, repeat: int, saved: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, float]:
    """Act without learning, from the same seeds for every candidate of a repeat."""
    fresh(trainer, saved, 3, repeat)
    first = trainer.collector.collect()
    reward, returns = first.mean_return, list(first.episode_returns)
    for _ in range(plan.listen - 1):
        returns.extend(trainer.collector.collect().episode_returns)
    error = float(np.std(returns, ddof=1)) / math.sqrt(len(returns)) if len(returns) > 1 else math.nan
    truth = float(np.mean(returns)) if returns else math.nan
    return {"reward": reward, "truth": truth, "truth_error": error, "episodes": len(returns)}


def fresh(trainer: Trainer, saved: tuple[dict[str, Any], dict[str, Any]], stream: int, repeat: int) -> None:
    """Start all episodes from seeds of the repeat, with the normalisation of the stage."""
    values, arrays = with_generator(part(saved, "collector"), stream, repeat)
    values["restarted_at"] = 1_000_000 * stream + repeat
    arrays["taken"] = arrays["taken"][:0]
    for name in ("episode_return", "episode_length"):
        arrays[name] = np.zeros_like(arrays[name])
    trainer.collector.load(values, arrays)


def part(saved: tuple[dict[str, Any], dict[str, Any]], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a part of a trainer's state."""
    values, arrays = saved
    return values[name], {
        key.removeprefix(f"{name}/"): each for key, each in arrays.items() if key.startswith(f"{name}/")
    }


def read(path: Path) -> list[dict[str, float]]:
    with path.open(newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


# What the rows say.


@dataclass(frozen=True)
class Point:
    """One difference between two parameters of one state, in means over the repeats: what was said, and the truth."""

    state: str
    said: float
    reward: float
    truth: float
    truth_error: float


def points(task: str, seed: int, rows: list[dict[str, float]], pair: tuple[float, float]) -> list[Point]:
    """Return the difference of two candidates at each stage; the slope says that of 1.25 and 0.75 of the step."""
    found = []
    for stage in sorted({row["stage"] for row in rows}):
        by_repeat: dict[float, dict[float, dict[str, float]]] = {}
        for row in rows:
            if row["stage"] == stage:
                by_repeat.setdefault(row["repeat"], {})[row["candidate"]] = row
        whole = [each for each in by_repeat.values() if set(pair) <= each.keys()]
        slope = pair == (-1.25, -0.75)

        def differences(name: str, whole: list[Any] = whole) -> np.ndarray[Any, np.dtype[np.float64]]:
            return np.array([each[pair[0]][name] - each[pair[1]][name] for each in whole])

        truth = differences("truth")
        said = np.array([each[pair[0]]["slope"] for each in whole]) if slope else differences("gain")
        known = np.isfinite(truth) & np.isfinite(said)
        if known.sum() > 2:
            error = truth[known].std(ddof=1) / math.sqrt(known.sum())
            means = (float(values[known].mean()) for values in (said, differences("reward"), truth))
            found.append(Point(f"{task}-{seed}-{stage:g}", *means, float(error)))
    return found


def agreement(found: list[Point], name: str) -> tuple[float, float, float]:
    """Return the share of signs that agree, weighted by how sure the truth is, with a 95 % interval over states."""
    said, truth, error = (np.array([getattr(each, key) for each in found]) for key in (name, "truth", "truth_error"))
    weight = np.abs(truth) / np.maximum(error, 1e-12)
    agrees = (np.sign(said) == np.sign(truth)) * weight
    states = np.array([each.state for each in found])
    return bootstrapped(states, lambda rows: float(agrees[rows].sum() / weight[rows].sum()))


def correlation(found: list[Point], name: str) -> tuple[float, float, float]:
    """Return Spearman's correlation with the truth in units of its error, with a 95 % interval over states."""
    said = np.array([getattr(each, name) for each in found])
    truth = np.array([each.truth / max(each.truth_error, 1e-12) for each in found])
    states = np.array([each.state for each in found])
    return bootstrapped(states, lambda rows: float(np.corrcoef(ranks(said[rows]), ranks(truth[rows]))[0, 1]))


def ranks(values: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.argsort(np.argsort(values)).astype(np.float64)


def bootstrapped(states: np.ndarray[Any, Any], statistic: Any, draws: int = 2000) -> tuple[float, float, float]:
    """Return a statistic of all rows, and its 95 % interval when whole states are drawn again."""
    rng, names = np.random.default_rng(0), np.unique(states)
    rows = {name: np.flatnonzero(states == name) for name in names}
    drawn = [statistic(np.concatenate([rows[name] for name in rng.choice(names, len(names))])) for _ in range(draws)]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return statistic(np.arange(len(states))), float(low), float(high)


def table() -> str:
    """Return the agreement of hindsight and of the paper's reward with the truth, in Markdown."""
    lines = [
        "| tasks | question | states | signs that agree: hindsight | paper's reward | rank correlation: hindsight | "
        "paper's reward |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for family in ("minigrid", "pybullet", ""):
        cells = [(task, seed, plan) for task, seed, plan in CELLS if task.startswith(family)]
        stored = [(*cell, read(result_path(*cell[:2]))) for cell in cells if result_path(*cell[:2]).exists()]
        questions: dict[str, list[Point]] = {
            "whole update or none": [],
            "K or fewer epochs": [],
            "1.25 or 0.75 steps": [],
        }
        for task, seed, plan, rows in stored:
            *fewer, most = plan.marks
            questions["whole update or none"] += points(task, seed, rows, (most, 0.0))
            for mark in fewer:
                questions["K or fewer epochs"] += points(task, seed, rows, (most, mark))
            questions["1.25 or 0.75 steps"] += points(task, seed, rows, (-1.25, -0.75))
        for question, found in questions.items():
            if len({each.state for each in found}) < 3:
                continue
            numbers = [measure(found, name) for measure in (agreement, correlation) for name in ("said", "reward")]
            texts = [f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, low, high in numbers]
            states = len({each.state for each in found})
            lines.append(f"| {family or 'all'} | {question} | {states} | {' | '.join(texts)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--only", default="", help="tasks whose names begin so")
    options = parser.parse_args()
    if options.command == "table":
        print(table())
        return
    for task, seed, plan in CELLS:
        if task.startswith(options.only):
            run(task, seed, plan)
            print(result_path(task, seed).name, flush=True)


if __name__ == "__main__":
    main()
