"""Monitoring: every few iterations the next rollout judges the last update. It changes no number of the run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from adept.algorithms.learner import Learner, load_network
from adept.config import Config
from adept.envs.base import Array
from adept.hindsight.estimates import time_groups
from adept.hindsight.judge import Judge
from adept.hindsight.verdict import LENGTHS, Verdict
from adept.rollout import Rollout
from adept.seeding import stream_seed


class LearnerWeights:
    """A learner's parameters, one flat vector, as the judge takes and exchanges them."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def take(self) -> Tensor:
        """Return a copy of the present parameters."""
        return self._learner.parameters()

    def present(self) -> AbstractContextManager[None]:
        """Leave the present parameters in place: a learner's forward passes change nothing."""
        return nullcontext()

    def at(self, taken: Tensor) -> AbstractContextManager[None]:
        """Put other parameters in place for a while."""
        return self._learner.at(taken)

    def along(self, start: Tensor, share: float) -> AbstractContextManager[None]:
        """Put start + share·(present - start) in place for a while."""
        return self._learner.at(start + share * (self._learner.parameters() - start))


class Monitor:
    """Hold what the next rollout needs to judge an update, and let it judge.

    An iteration is *due* where its rollout judges the gains of the update before it: every `monitor_interval` of them.
    The slope comes with the gains, and whenever it is asked for where a controller goes by slopes.
    """

    def __init__(self, config: Config, learner: Learner, *, slopes: bool) -> None:
        self._config, self._learner, self._slopes = config, learner, slopes
        self._judge: Judge[Tensor] = Judge(LearnerWeights(learner))
        self._done = 0
        self.marks = marked_epochs(config.choices)
        self.passes = 0
        """forward passes of the policy over the rows judged, in the last call of `judge`"""
        self.values_passes = 0
        """the same of the critic"""

    @property
    def on(self) -> bool:
        """Whether there is anything to record."""
        return self._config.monitor or self._slopes

    @property
    def rows(self) -> int:
        """Rows that are judged: all of a rollout, or so many of a large one.

        Where every update is judged, at most as many as cost a twelfth of the preset's update: the slope's two passes
        are two thirds of an epoch, so that is K/8 of a rollout.
        """
        rows = min(self._config.monitor_rows, self._config.batch_size)
        return min(rows, max(1, self._config.batch_size * max(self._config.choices) // 8)) if self._slopes else rows

    def due(self, iteration: int) -> bool:
        """Whether the rollout of this iteration judges gains."""
        return self._config.monitor and iteration > 0 and iteration % self._config.monitor_interval == 0

    def judge(self, iteration: int, rollout: Rollout, *, slope: bool = False) -> Verdict | None:
        """Return what this rollout says of the update before it; None where nothing is due and no slope asked for."""
        self.passes = self.values_passes = 0
        due = self.due(iteration)
        if self._judge.start is None or not (due or slope):
            return None
        groups = time_groups(self._config.rollout_length, self._config.environments)
        rows: slice | npt.NDArray[np.int64] = slice(None)
        chosen = None
        if self.rows < len(groups):
            rng = np.random.default_rng(stream_seed(self._config.seed, "monitor", iteration))
            rows = np.sort(rng.choice(len(groups), self.rows, replace=False))
            chosen = torch.from_numpy(rows).to(rollout.returns.device)
        marked = self._judge.waypoints.pop(self._done, None)  # the deployed parameters, which need no pass

        def log_probs() -> Tensor:
            self.passes += 1
            return self._learner.log_probs(rollout, chosen)

        advantages = rollout.advantages.cpu().numpy()[rows]
        verdict = self._judge.judge(
            log_probs,
            advantages,
            groups[rows],
            deployed=rollout.log_probs.cpu().numpy()[rows],
            gains_too=due,
        )
        assert verdict is not None

        def values() -> Tensor:
            self.values_passes += 1
            return self._learner.values(rollout, chosen)

        critic = self._judge.judge_critic(values, rollout.values.cpu().numpy()[rows], advantages, groups[rows])
        verdict = replace(verdict, critic=critic)
        if due and (marked is not None or self._done in self.marks):
            by_epoch = {**verdict.by_epoch, self._done: verdict.update_gain}
            verdict = replace(verdict, by_epoch=by_epoch)
        return verdict

    def begin(self, iteration: int) -> None:
        """Take the parameters before the update of this iteration, if the next one judges it."""
        self._done = 0
        if self._slopes or self.due(iteration + 1):
            self._judge.begin()
        else:
            self._judge.clear()

    def mark(self, iteration: int, epoch: int, planned: int) -> None:
        """Take the parameters after an epoch, if the next iteration judges it; the last needs no copy."""
        self._done = epoch
        if epoch in self.marks and epoch < planned and self.due(iteration + 1):
            self._judge.mark(epoch)

    def columns(self, verdict: Verdict | None) -> dict[str, float]:
        """Return a verdict as columns, always the same ones; NaN where nothing was measured."""
        gains = (*(f"gain/{epoch}" for epoch in self.marks), *(f"gain/x{length:g}" for length in LENGTHS))
        names = ("slope", "slope_z", "critic_slope", "critic_slope_z", "update_gain", *gains)
        empty = dict.fromkeys(names, math.nan)
        return empty if verdict is None else empty | verdict.columns()

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the parameters that the next rollout is to judge, by the names of the network's."""
        arrays: dict[str, Array] = {}
        for key, taken in self._taken():
            with self._learner.at(taken):
                for name, parameter in self._learner.network.named_parameters():
                    arrays[f"{key}/network/{name}"] = parameter.detach().cpu().numpy().copy()
        return {"done": self._done, "taken": [key for key, _ in self._taken()]}, arrays

    def load(self, values: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Continue from a saved state, of whichever learner."""
        self._judge.clear()
        self._done = values["done"]
        for key in values["taken"]:
            own = {name.removeprefix(f"{key}/"): each for name, each in arrays.items() if name.startswith(f"{key}/")}
            with self._learner.at(self._learner.parameters()):
                load_network(self._learner.network, own)
                taken = self._learner.parameters()
            if key == "start":
                self._judge.start = taken
            else:
                self._judge.waypoints[int(key)] = taken

    def _taken(self) -> Iterator[tuple[str, Tensor]]:
        if self._judge.start is not None:
            yield "start", self._judge.start
        yield from ((str(epoch), taken) for epoch, taken in self._judge.waypoints.items())


def marked_epochs(arms: tuple[int, ...]) -> tuple[int, ...]:
    """Return the epochs whose gain is judged: the powers of two up to the largest arm, and the arms."""
    powers = (2**power for power in range(max(arms).bit_length()))
    return tuple(sorted({*powers, *arms}))
