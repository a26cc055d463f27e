"""Stopping rules against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from adept.algorithms.stopping import STOPPING, HeldOut, held_out_rows, make_rules
from adept.algorithms.stopping.held_out import clipped_objective
from adept.config import Execution
from adept.rollout import Rollout
from adept.rules import Settings
from adept.training import Trainer
from tests.fast.cases import make_config

PLAN = Settings(epochs=4, learning_rate=1e-3, clip_range=0.2, entropy_coefficient=0.0)


@pytest.mark.parametrize(("name", "metric"), [("target-kl", "approx_kl"), ("ratio-deviation", "ratio_deviation")])
def test_a_limit_on_a_metric_stops_above_it(name: str, metric: str) -> None:
    (rule,) = make_rules({name: 0.25})
    assert [rule.stop({metric: value}) for value in (0.0, 0.25, 0.2500001)] == [False, False, True]


def test_held_out_rows_are_whole_environments_or_blocks_of_time() -> None:
    # 4 steps of 8 environments, a quarter: the rows of 2 environments, row = step · 8 + environment.
    held = held_out_rows(32, 8, 0.25, seed=3).reshape(4, 8)
    assert held.sum(1).tolist() == [2, 2, 2, 2]
    assert (held == held[0]).all()
    # 64 steps of one environment in 32 blocks of 2 steps; an eighth are 4 blocks.
    blocks = held_out_rows(64, 1, 0.125, seed=3).reshape(32, 2)
    assert blocks.sum() == 8
    assert (blocks[:, 0] == blocks[:, 1]).all()
    assert (held_out_rows(64, 1, 0.125, seed=3) == blocks.ravel()).all()
    assert (held_out_rows(64, 1, 0.125, seed=4) != blocks.ravel()).any()
    assert held_out_rows(32, 2, 0.01, seed=0).sum() == 16  # at least one environment


def test_the_objective_by_hand() -> None:
    # min(1.5·1, 1.2·1) = 1.2; min(0.5·1, 0.8·1) = 0.5; min(1.5·-1, 1.2·-1) = -1.5; min(0.5·-1, 0.8·-1) = -0.8.
    ratio, advantages = torch.tensor([1.5, 0.5, 1.5, 0.5]), torch.tensor([1.0, 1.0, -1.0, -1.0])
    assert clipped_objective(ratio, advantages, 0.2) == pytest.approx((1.2 + 0.5 - 1.5 - 0.8) / 4)


class Scripted:
    """A learner whose ratio of the rows with a positive advantage takes given values, one per epoch."""

    def __init__(self, ratios: list[float]) -> None:
        self._ratios = iter(ratios)

    def log_probs(self, rollout: Rollout, rows: Any = None) -> torch.Tensor:
        ratio = next(self._ratios)
        return torch.where(rollout.advantages > 0, np.log(ratio), 0.0)


def alternating(rows: int, environments: int) -> Rollout:
    advantages = torch.tensor([1.0, -1.0]).repeat_interleave(environments).repeat(rows // (2 * environments))
    zeros = torch.zeros(rows)
    columns = (torch.zeros(rows, 1), zeros.long(), zeros, zeros, advantages, advantages)
    return Rollout(*columns, 0.0, (), (), 0.0, 0.0, environments)


def test_held_out_stops_when_its_rows_no_longer_gain() -> None:
    rule, rollout = HeldOut(0.25), alternating(32, 4)
    left = rule.start(Scripted([1.1, 1.15, 1.15, 1.3]), rollout, PLAN, seed=1)  # type: ignore[arg-type]
    assert len(left) == 24
    # Half the held-out rows have A > 0; L = ½(ρ - 1)·A up to clipping: better, better, equal.
    assert [rule.stop({}) for _ in range(3)] == [False, False, True]
    assert rule.forward_rows == 3 * 8
    rule.start(Scripted([0.9]), rollout, PLAN, seed=2)  # type: ignore[arg-type]
    assert rule.stop({})  # worse than the policy that made the rollout
    assert rule.forward_rows == 8


def test_names_and_numbers_are_checked_by_the_configuration() -> None:
    with pytest.raises(ValueError, match="did you mean 'target-kl'"):
        make_config(stopping={"target-lk": 0.1})
    with pytest.raises(ValueError, match="'target-kl': got -1, allowed is a number > 0; for example"):
        make_config(stopping={"target-kl": -1})
    with pytest.raises(ValueError, match=r"'held-out': got 0\.6, allowed is a share"):
        make_config(stopping={"held-out": 0.6})
    with pytest.raises(ValueError, match="leaves 1 of 2 rows to train on, at least 2 are needed; collect longer"):
        make_config(environments=2, rollout_length=1, minibatch_size=2, stopping={"held-out": 0.1})


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", STOPPING)
def test_every_rule_ends_updates_of_a_run_early_and_resumes_exactly(name: str, fast: bool) -> None:
    limit = {"target-kl": 1e-3, "ratio-deviation": 0.02, "held-out": 0.25}[name]
    settings = {"scheduler": "fixed", "epochs": 6, "learning_rate": 1e-2, "steps": 128 * 8, "restart_every": 5}
    config = make_config(env="gymnasium/CartPole-v1", stopping={name: limit}, **settings)
    execution = Execution(device="cpu", fast=fast)
    trainer = Trainer(config, execution)
    records = []
    for record in trainer:
        records.append(record)
        if record["iteration"] == 3:
            state = [{**part} for part in trainer.state()]
            state[1] = {key: array.copy() for key, array in state[1].items()}
    done = [record["epochs_done"] for record in records]
    assert {record["epochs"] for record in records} == {6}
    assert min(done) < 6
    steps = 3 if name == "held-out" else 4  # minibatches of 32 rows; 3 of 4 environments are trained on
    assert records[-1]["gradient_steps"] == steps * sum(done)
    assert ("ratio_deviation" in records[0]) == (name == "ratio-deviation")
    forward = trainer.forward_flops
    first = 33 * 4 + 3 * 32 * steps * done[0] + (32 * done[0] if name == "held-out" else 0)
    assert records[0]["flops"] == forward * first
    again = Trainer(config, execution)
    again.load(*state)
    for one, other in zip(again, records[3:], strict=True):
        same = {key for key in one if "seconds" not in key}
        assert [str(one[key]) for key in same] == [str(other[key]) for key in same]
