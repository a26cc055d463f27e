"""Gains and slopes against the returns that came of the same parameters.

python -m experiments.truth.measure [--only pybullet]    measures what is missing in results/hindsight, by repeats

A run of the preset is stopped at several stages. From each stage, and for each of several rollouts, one update is made,
and its parameters are kept before it (θ₀), after several epochs (θ_k) and at 0.75 and 1.25 of its length. The next
rollout, collected with the parameters at its end, judges them: gain of each over θ₀, and slope. Then every one of them
plays many episodes, from the same seeds, without learning. A row of the table holds, for one of these parameters,

- gain, gain_error: what hindsight says of them; slope, slope_z: of the update;
- reward: the mean GAE return of a rollout of theirs, which is what the paper's bandit goes by;
- truth, truth_error: the mean return of the episodes, none of which hindsight or the reward has seen.
"""

from __future__ import annotations

import argparse
import copy
import csv
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from adept.envs import Array, make_environments
from adept.envs.base import Continuous
from adept.fast.actors import make_actor
from adept.hindsight.estimates import time_groups
from adept.hindsight.evaluation import Evaluator, Rows
from adept.presets import preset
from adept.probe.branches import with_generator
from adept.seeding import stream_seed
from adept.trainer_engine import preset_settings
from adept.training import Trainer
from experiments.truth.page import CELLS, Plan, read, result_path

State = tuple[dict[str, Any], dict[str, Any]]

COLUMNS = (
    "stage", "step", "before", "repeat", "candidate", "gain", "gain_error", "slope", "slope_z", "reward", "truth",
    "truth_error", "episodes",
)  # fmt: skip
LENGTHS = (0.75, 1.25)


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
    """Train with the preset, and at every stage yield the rows of each repeat that is missing."""
    config = replace(preset(task, scheduler="fixed"), seed=seed, monitor=False)
    wanted = {(stage, repeat) for stage in plan.stages for repeat in range(plan.repeats)}
    if wanted <= done:
        return
    trainer = Trainer(config)
    player = Player(trainer, plan)
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
                rows = update_and_play(trainer, player, plan, record["learning_rate"], repeat, saved)
                yield [about | row for row in rows]
            trainer.load(*copy.deepcopy(saved))
    finally:
        player.close()
        trainer.close()


def update_and_play(
    trainer: Trainer, player: Player, plan: Plan, rate: float, repeat: int, saved: State
) -> list[dict[str, float]]:  # fmt: skip
    """Make one update from the saved state, evaluate its parameters on the next rollout, and let all of them play."""
    collector, learner, config = trainer.collector, trainer.learner, trainer.config
    learner.load(*with_generator(part(saved, "learner"), 1, repeat))
    fresh(trainer, plan, saved, 2, repeat)
    rollout = collector.collect()
    evaluator = Evaluator(learner, lengths=LENGTHS)
    evaluator.begin()
    for epoch, _ in enumerate(learner.epochs(rollout, preset_settings(config, plan.marks[-1], rate)), 1):
        if epoch in plan.marks[:-1]:
            evaluator.mark(epoch)
    following = collector.collect()
    groups = time_groups(config.rollout_length, config.environments)
    deployed = following.log_probs.numpy()
    rows = Rows(lambda: learner.log_probs(following), following.advantages.numpy(), groups, deployed)
    found = evaluator.evaluate(rows)
    assert found is not None
    assert evaluator.start is not None
    start, last = evaluator.start, learner.parameters()
    candidates: dict[Any, torch.Tensor] = {0.0: start, **evaluator.marked, plan.marks[-1]: last}
    gains = {0.0: (0.0, 0.0), plan.marks[-1]: (found.update_gain.value, found.update_gain.error)}
    gains |= {epoch: (each.value, each.error) for epoch, each in found.gain_by_epoch.items()}
    for length in LENGTHS:  # as negative numbers, so that the column is one of numbers
        candidates[-length] = start + length * (last - start)
        gains[-length] = (found.gain_by_length[length].value, found.gain_by_length[length].error)
    told = []
    for candidate, parameters in candidates.items():
        with learner.at(parameters):
            fresh(trainer, plan, saved, 3, repeat)
            heard = {"reward": collector.collect().mean_return, **player.play(repeat)}
        gain, error = gains[candidate]
        judged = {"candidate": candidate, "gain": gain, "gain_error": error}
        told.append(judged | {"slope": found.slope.value, "slope_z": found.slope.z} | heard)
    return told


def fresh(trainer: Trainer, plan: Plan, saved: State, stream: int, repeat: int) -> None:
    """Start all episodes from seeds of the repeat, with the normalisation of the stage, and let them come of age."""
    values, arrays = with_generator(part(saved, "collector"), stream, repeat)
    values["restarted_at"] = 1_000_000 * stream + repeat
    arrays["taken"] = arrays["taken"][:0]
    for name in ("episode_return", "episode_length"):
        arrays[name] = np.zeros_like(arrays[name])
    trainer.collector.load(values, arrays)
    for _ in range(plan.settle):
        trainer.collector.collect()


class Player:
    """Play episodes with a trainer's present parameters, in environments of its own."""

    def __init__(self, trainer: Trainer, plan: Plan) -> None:
        self._trainer, self._plan = trainer, plan
        config = replace(trainer.config, environments=plan.players)
        self._environments = make_environments(config, count=plan.players)
        self._actor = make_actor(trainer.network, trainer.device, trainer.execution)
        bounds = self._environments.actions
        self._bounds = (bounds.low, bounds.high) if isinstance(bounds, Continuous) else None

    @torch.inference_mode()
    def play(self, repeat: int) -> dict[str, float]:
        """Return the mean return of the first episodes of every environment, so that short ones count no more."""
        plan, rng = self._plan, np.random.default_rng([4, repeat])
        self._actor.refresh()
        observations = self._environments.restart(stream_seed(self._trainer.config.seed, "evaluation", repeat))
        remaining, current = np.full(plan.players, plan.episodes), np.zeros(plan.players)
        returns: list[float] = []
        while remaining.any():
            noise = self._trainer.network.distribution.noise(rng, plan.players)
            result = self._environments.step(self._actions(observations, noise))
            observations = result.observations
            current += result.rewards
            for index in np.flatnonzero(result.terminated | result.truncated):
                if remaining[index]:
                    returns.append(float(current[index]))
                    remaining[index] -= 1
                current[index] = 0.0
        error = float(np.std(returns, ddof=1)) / math.sqrt(len(returns))
        return {"truth": float(np.mean(returns)), "truth_error": error, "episodes": len(returns)}

    def _actions(self, observations: Array, noise: Any) -> Array:
        normalize = self._trainer.collector.normalize_observations
        rows = observations if normalize is None else normalize(observations).astype(np.float32)
        actions = self._actor.act(torch.from_numpy(np.ascontiguousarray(rows)), noise).actions
        return actions if self._bounds is None else np.clip(actions, *self._bounds).astype(np.float32)

    def close(self) -> None:
        """Free the environments."""
        self._environments.close()


def part(saved: State, name: str) -> State:
    """Return a part of a trainer's state."""
    values, arrays = saved
    return values[name], {
        key.removeprefix(f"{name}/"): each for key, each in arrays.items() if key.startswith(f"{name}/")
    }


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="tasks whose names begin so")
    parser.add_argument("--stages", type=int, nargs="+", help="these stages alone")
    parser.add_argument("--repeats", type=int, help="repeats at each stage, to begin with fewer")
    options = parser.parse_args()
    for task, seed, plan in CELLS:
        stages = tuple(stage for stage in plan.stages if stage in (options.stages or plan.stages))
        if task.startswith(options.only) and stages:
            run(task, seed, replace(plan, stages=stages, repeats=options.repeats or plan.repeats))
            print(result_path(task, seed).name, flush=True)


if __name__ == "__main__":
    main()
