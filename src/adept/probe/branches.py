"""The true return of each arm: one policy, one rollout, an update with every K, and the returns after each.

A run is stopped at several stages. From each stage, and for each of several rollouts, the
update is made with every K in turn, from the same parameters and the same data, and then nothing is learnt any more. A
row of the table holds, for one branch,

- reward: the mean GAE return of the next rollout, which is what the paper's bandit would have been credited with;
- critic_shift: by how much the update alone moved the mean value of the states it was made on;
- truth: the mean return of the episodes that end in many rollouts of the new policy.

An arm's worth is its truth; whether a bandit could see it is a matter of reward.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from adept.config import Config
from adept.trainer_engine import preset_settings
from adept.training import Trainer


@dataclass(frozen=True)
class Branching:
    """How a task is branched."""

    arms: tuple[int, ...]
    stages: tuple[int, ...]
    """iterations after which the run is stopped"""
    repeats: int
    settle: int
    """rollouts of the old policy from the start of all episodes, so that their ages are mixed"""
    listen: int
    """rollouts of the new policy that make up its truth"""

    def __post_init__(self) -> None:
        for name in ("arms", "stages"):
            values = getattr(self, name)
            if not values or min(values) < 1 or list(values) != sorted(set(values), reverse=values[0] > values[-1]):
                raise ValueError(f"{name} must be distinct whole numbers ≥ 1 in order, got {values}; for example 1 2 4")
        for name, least in (("repeats", 2), ("settle", 0), ("listen", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be a whole number ≥ {least}, got {getattr(self, name)}; for example 12")


def branches(config: Config, branching: Branching) -> Iterator[dict[str, float]]:
    """Train, and at every stage yield a row for each repeat and arm."""
    trainer = Trainer(config)
    records = iter(trainer)
    try:
        for stage in branching.stages:
            for record in records:
                if record["iteration"] == stage:
                    break
            else:
                last = config.iterations
                raise ValueError(f"stage {stage} is beyond the run's {last} iterations; choose stages up to {last}")
            saved = copy.deepcopy(trainer.state())
            for row in branch(trainer, branching, record["learning_rate"]):
                yield {"stage": stage, "step": record["step"], "before": record["score"], **row}
            trainer.load(*saved)
    finally:
        trainer.close()


def branch(trainer: Trainer, branching: Branching, rate: float) -> Iterator[dict[str, float]]:
    """Yield, for each repeat and arm, the outcome of an update with K = arm from the trainer's present state."""
    collector, learner = trainer.collector, trainer.learner
    learned, acted = copy.deepcopy(learner.state()), copy.deepcopy(collector.state())
    for repeat in range(branching.repeats):
        for epochs in branching.arms:
            # The same parameters, environments, actions and shuffles for every arm of a repeat.
            learner.load(*with_generator(learned, 1, repeat))
            start = with_generator(acted, 2, repeat)
            start[0]["restarted_at"] = 1_000_000 + repeat
            start[1]["taken"] = start[1]["taken"][:0]
            for name in ("episode_return", "episode_length"):
                start[1][name] = np.zeros_like(start[1][name])
            collector.load(*start)
            for _ in range(branching.settle):
                collector.collect()
            rollout = collector.collect()
            deque(learner.epochs(rollout, preset_settings(trainer.config, epochs, rate)), maxlen=0)
            shift = float((trainer.network.values(rollout.observations).detach() - rollout.values).mean())
            following = collector.collect()
            reward, returns = following.mean_return, list(following.episode_returns)
            for _ in range(branching.listen - 1):
                returns.extend(collector.collect().episode_returns)
            truth = math.fsum(returns) / len(returns) if returns else math.nan
            yield {"repeat": repeat, "epochs": epochs, "reward": reward, "critic_shift": shift, "truth": truth,
                   "episodes": len(returns)}  # fmt: skip


def with_generator(state: tuple[dict[str, Any], dict[str, Any]], *seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a copy of a part's state with a generator of another seed."""
    values, arrays = copy.deepcopy(state)
    return {**values, "rng": np.random.default_rng(seed).bit_generator.state}, arrays
