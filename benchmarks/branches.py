"""What was each arm worth? One policy, one rollout, an update with every K, and what came of each.

python benchmarks/branches.py [--workers 2]    runs what is missing in results/branches

A run with the baseline's K is stopped at several stages. From each stage, and for each of several rollouts, the update
is made with every K in turn, from the same parameters and the same data, and then nothing is learnt any more. A row of
the table holds, for one branch,

- reward: the mean GAE return of the next rollout, which is what the paper's bandit would have been credited with;
- critic_shift: by how much the update alone moved the mean value of the states it was made on;
- truth: the mean return of the episodes that end in many rollouts of the new policy.

An arm's worth is its truth; whether a bandit could see it is a matter of reward.
"""

from __future__ import annotations

import argparse
import copy
import csv
import gzip
import io
import math
import multiprocessing
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "branches"
sys.path.insert(0, str(ROOT))

from adept.presets import BASELINE_EPOCHS, preset  # noqa: E402
from adept.runs.records import write_aside  # noqa: E402
from adept.seeding import generator_state  # noqa: E402
from adept.training import Trainer  # noqa: E402

COLUMNS = ("stage", "step", "repeat", "epochs", "before", "reward", "critic_shift", "truth", "episodes")


@dataclass(frozen=True)
class Plan:
    """How a task is branched."""

    arms: tuple[int, ...]
    stages: tuple[int, ...]
    """iterations after which the run is stopped"""
    repeats: int
    settle: int
    """rollouts of the old policy from the start of all episodes, so that their ages are mixed"""
    listen: int
    """rollouts of the new policy that make up its truth"""


MINIGRID = Plan((1, 2, 4, 8), (10, 20, 40, 80, 160, 240), repeats=12, settle=3, listen=10)
PYBULLET = Plan((1, 5, 10), (10, 40, 100, 200), repeats=12, settle=1, listen=8)
CELLS = [
    ("minigrid/DoorKey-6x6", 3, MINIGRID),  # seeds 1 and 2 meet no reward (docs/training.md): no arm is worth anything
    ("minigrid/DoorKey-6x6", 4, MINIGRID),
    ("minigrid/LavaGapS7", 1, MINIGRID),
    ("minigrid/Empty-16x16", 1, MINIGRID),
    ("pybullet/HalfCheetah", 1, PYBULLET),
    ("pybullet/Hopper", 1, PYBULLET),
]


def result_path(task: str, seed: int) -> Path:
    return RESULTS / f"{task.replace('/', '-')}-seed{seed}.csv.gz"


def run(cell: tuple[str, int, Plan]) -> str:
    task, seed, plan = cell
    path = result_path(task, seed)
    if not path.exists():
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: f"{value:.7g}" for key, value in row.items()} for row in branches(task, seed, plan))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, lambda file: file.write(gzip.compress(text.getvalue().encode(), mtime=0)))
    return path.name


def branches(task: str, seed: int, plan: Plan) -> Iterator[dict[str, float]]:
    """Train, and at every stage yield a row for each repeat and arm."""
    config = replace(preset(task, scheduler="fixed"), seed=seed)
    assert config.arms == (BASELINE_EPOCHS[config.backend],)
    trainer = Trainer(config)
    records = iter(trainer)
    try:
        for stage in plan.stages:
            for record in records:
                if record["iteration"] == stage:
                    break
            saved = copy.deepcopy(trainer.state())
            for row in branch(trainer, plan, record["learning_rate"]):
                yield {"stage": stage, "step": record["step"], "before": record["score"], **row}
            trainer.load(*saved)
    finally:
        trainer.close()


def branch(trainer: Trainer, plan: Plan, rate: float) -> Iterator[dict[str, float]]:
    """Yield, for each repeat and arm, what came of an update with so many epochs from the trainer's present state."""
    collector, learner = trainer.collector, trainer.learner
    learned, acted = copy.deepcopy(learner.state()), copy.deepcopy(collector.state())
    for repeat in range(plan.repeats):
        for epochs in plan.arms:
            # The same parameters, environments, actions and shuffles for every arm of a repeat.
            learner.load(*with_generator(learned, 1, repeat))
            start = with_generator(acted, 2, repeat)
            start[0]["restarted_at"] = 1_000_000 + repeat
            start[1]["taken"] = start[1]["taken"][:0]
            for name in ("episode_return", "episode_length"):
                start[1][name] = np.zeros_like(start[1][name])
            collector.load(*start)
            for _ in range(plan.settle):
                collector.collect()
            rollout = collector.collect()
            learner.update(rollout, epochs, learning_rate=rate)
            shift = float((trainer.network.values(rollout.observations).detach() - rollout.values).mean())
            following = collector.collect()
            reward, returns = following.mean_return, list(following.episode_returns)
            for _ in range(plan.listen - 1):
                returns.extend(collector.collect().episode_returns)
            truth = math.fsum(returns) / len(returns) if returns else math.nan
            yield {
                "repeat": repeat,
                "epochs": epochs,
                "reward": reward,
                "critic_shift": shift,
                "truth": truth,
                "episodes": len(returns),
            }


def with_generator(state: tuple[dict[str, Any], dict[str, Any]], *seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a copy of a part's state with a generator of another seed."""
    values, arrays = copy.deepcopy(state)
    return {**values, "rng": generator_state(np.random.default_rng(seed))}, arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="tasks whose names begin so")
    options = parser.parse_args()
    chosen = [cell for cell in CELLS if cell[0].startswith(options.only)]
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        for name in pool.imap_unordered(run, chosen):
            print(name, flush=True)


if __name__ == "__main__":
    main()
