"""Monitoring: it changes no number of a run, resumes exactly, and is counted."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from adept.config import Config, Execution
from adept.hindsight.estimates import critic_slope, gain, slope, time_groups
from adept.monitoring import marked_epochs
from adept.training import Record, Trainer

CASES = {
    "discrete": {"env": "gymnasium/tiny/Identity-v0"},
    "continuous": {"env": "gymnasium/tiny/Follow-v0", "entropy_coefficient": 0.0},
    "drac": {
        "env": "gymnasium/tiny/Picture-v0",
        "algo": "drac",
        "environments": 2,
        "rollout_length": 16,
        "steps": 96,
        "minibatch_size": 16,
    },
}


def config(case: str, **settings: Any) -> Config:
    base: dict[str, Any] = {
        "environments": 8, "rollout_length": 32, "minibatch_size": 64, "steps": 1792, "scheduler": "fixed",
        "epochs": 3, "learning_rate": 3e-3, "monitor_every": 2,
    }  # fmt: skip
    return Config(**base | CASES[case] | settings)


def run(settings: Config, fast: bool = False) -> list[Record]:
    trainer = Trainer(settings, Execution(fast=fast))
    records = list(trainer)
    trainer.close()
    return records


def columns(records: list[Record], *, without: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """The columns as text, which compares NaN, but the clock's."""
    names = [name for name in records[0] if "seconds" not in name and name not in without]
    return {name: [repr(record[name]) for record in records] for name in names}


@pytest.mark.parametrize(
    ("case", "fast"),
    [("discrete", True), ("discrete", False), ("continuous", True), ("continuous", False), ("drac", False)],
)
def test_monitoring_changes_no_other_number(case: str, fast: bool) -> None:
    monitored, plain = run(config(case), fast), run(config(case, monitor=False), fast)
    assert list(plain[0]) == [name for name in monitored[0] if name in plain[0]]
    gains = {"gain/1", "gain/2", "gain/3", "gain/x0.5", "gain/x1.5", "gain/x2"}
    added = {"slope", "slope_z", "critic_slope", "critic_slope_z", "update_gain", *gains}
    assert monitored[0].keys() - plain[0].keys() == added | {"monitor_seconds"}
    here = columns(monitored, without=("flops", *added))
    assert here == columns(plain, without=("flops",))
    measured = [math.isfinite(record["update_gain"]) for record in monitored]
    assert measured == [index > 0 and index % 2 == 0 for index in range(len(monitored))]
    assert any(measured)
    for record in monitored[2::2]:
        assert all(math.isfinite(record[name]) for name in added)
        assert record["gain/3"] == record["update_gain"]


def test_the_columns_are_those_of_the_estimates() -> None:
    trainer = Trainer(config("discrete", monitor_every=1), Execution(fast=False))
    parameters, rollouts = [], []
    collect = trainer.collector.collect

    def remember() -> Any:
        parameters.append(trainer.learner.parameters())
        rollouts.append(copy.deepcopy(collect()))
        return rollouts[-1]

    trainer.collector.collect = remember  # type: ignore[method-assign]
    records = list(trainer)
    start, now, rollout = parameters[3], parameters[4], rollouts[4]
    groups = time_groups(32, 8)

    def at(length: float) -> torch.Tensor:
        with trainer.learner.at(start + length * (now - start)):
            return trainer.learner.log_probs(rollout).double()

    advantages = rollout.advantages
    found = slope(at(1.25), at(0.75), advantages, groups)
    assert records[4]["slope"] == pytest.approx(found.value, rel=1e-6)
    assert records[4]["slope_z"] == pytest.approx(found.z, rel=1e-6)
    with trainer.learner.at(start):
        before = trainer.learner.values(rollout).double()
    critic = critic_slope(before, rollout.values, rollout.returns - rollout.values, groups)
    assert records[4]["critic_slope"] == pytest.approx(critic.value, rel=1e-4)
    assert records[4]["critic_slope_z"] == pytest.approx(critic.z, rel=1e-4)
    for name, length in (("update_gain", 1.0), ("gain/x0.5", 0.5), ("gain/x2", 2.0)):
        expected = gain(at(length), at(1.0), advantages, groups, over=at(0.0)).value
        assert records[4][name] == pytest.approx(expected, rel=1e-3, abs=1e-6)


RULES: tuple[dict[str, Any], ...] = ({}, {"scheduler": "hindsight"}, {"scheduler": "kl-epochs"})


@pytest.mark.parametrize(
    ("case", "fast", "settings"),
    [*(("continuous", fast, rule) for fast in (True, False) for rule in RULES), ("drac", False, {"steps": 160})],
    ids=str,
)
@pytest.mark.parametrize("stop", [3, 4])
def test_resumes_exactly(case: str, fast: bool, settings: dict[str, Any], stop: int) -> None:
    wanted = config(case, monitor_rows=100, **settings)
    whole = columns(run(wanted, fast))
    first = Trainer(wanted, Execution(fast=fast))
    records = []
    for record in first:
        records.append(record)
        if record["iteration"] == stop:
            break
    saved = copy.deepcopy(first.state())
    second = Trainer(wanted, Execution(fast=fast))
    second.load(*saved)
    records.extend(second)
    assert columns(records) == whole


def test_a_checkpoint_of_the_fast_path_is_judged_alike_by_the_reference() -> None:
    wanted = config("discrete")
    fast = Trainer(wanted, Execution(fast=True))
    for record in fast:
        if record["iteration"] == 4:
            break
    saved = copy.deepcopy(fast.state())
    reference = Trainer(wanted, Execution(fast=False))
    reference.load(*saved)
    here, there = next(iter(fast)), next(iter(reference))
    for name in ("slope", "update_gain", "gain/1", "gain/x2"):
        assert here[name] == pytest.approx(there[name], rel=1e-3, abs=1e-5)


def test_flops_are_counted() -> None:
    monitored, plain = run(config("discrete")), run(config("discrete", monitor=False))
    trainer = Trainer(config("discrete"))
    # Of 7 iterations 3 are measured: slope 2, before 1, two of three epochs, three lengths = 8 passes over 256 rows,
    # and one of the critic.
    one = 8 * trainer.policy_flops + trainer.values_flops
    assert monitored[-1]["flops"] - plain[-1]["flops"] == 3 * 256 * one
    assert trainer.policy_flops + trainer.values_flops == trainer.forward_flops
    few = run(config("discrete", monitor_rows=64))
    assert few[-1]["flops"] - plain[-1]["flops"] == 3 * 64 * one


def test_a_controller_gets_the_slope_also_without_monitoring_but_not_while_its_critic_is_blind() -> None:
    options = {"kl_limit": 1e-30}  # every update counts as too far, so that the scale falls each time
    settings = config("discrete", scheduler="hindsight", scheduler_options=options, monitor=False)
    records = run(settings)
    expected, average = [False], None
    for record in records[1:]:
        expected.append(average is None or average >= -0.25)
        seen = max(-1.0, record["explained_variance"])
        average = seen if average is None else average + 0.2 * (seen - average)
    assert [math.isfinite(record["slope_z"]) for record in records] == expected
    trainer, plain = Trainer(settings), run(replace(settings, scheduler="fixed", scheduler_options={}))
    # Three epochs: 3/8 of 256 rows, two passes of the policy and one of the critic.
    spent = sum(expected) * 96 * (2 * trainer.policy_flops + trainer.values_flops)
    assert records[-1]["flops"] - plain[-1]["flops"] == spent
    assert all(math.isnan(record["update_gain"]) for record in records)
    assert records[0]["lr_scale"] == 1.0
    assert len({record["lr_scale"] for record in records}) == 7
    base = records[0]["learning_rate"]
    assert [record["learning_rate"] for record in records] == pytest.approx([base * r["lr_scale"] for r in records])
    compute = run(config("discrete", scheduler="hindsight", scheduler_options={"optimize_for": "compute"}, epochs=6))
    assert (compute[0]["epochs"], compute[0]["lr_scale"]) == (6, 1.0)


def test_the_guard_ends_an_update() -> None:
    records = run(config("discrete", scheduler="hindsight", learning_rate=0.3, epochs=8))
    assert min(record["epochs_done"] for record in records) < 8
    assert min(record["lr_scale"] for record in records) < 0.8


def test_an_epoch_that_goes_too_far_is_undone() -> None:
    """With a limit that every epoch passes, each update ends with its first epoch and leaves nothing behind."""
    trainer = Trainer(config("discrete", scheduler="hindsight", scheduler_options={"kl_stop": 1e-30}, epochs=8))
    start = trainer.learner.snapshot()
    records = list(trainer)
    assert [record["epochs_done"] for record in records] == [1] * 7
    assert torch.equal(trainer.learner.parameters(), start.parameters)
    assert all(record["approx_kl_last_epoch"] > 0 for record in records)


def test_marked_epochs() -> None:
    assert marked_epochs((1,)) == (1,)
    assert marked_epochs((10,)) == (1, 2, 4, 8, 10)
    assert marked_epochs((4, 2, 1)) == (1, 2, 4)
    assert marked_epochs((5, 3)) == (1, 2, 3, 4, 5)


def test_short_runs_are_judged_more_often() -> None:
    """About 40 updates of a run, or all of fewer; at most every 5th unless told."""
    rows = 8 * 32
    for iterations, every in ((7, 1), (79, 1), (80, 2), (199, 4), (200, 5), (5000, 5)):
        assert config("discrete", steps=iterations * rows, monitor_every=0).monitor_interval == every
        assert config("discrete", steps=iterations * rows, monitor_every=25).monitor_interval == 25
    judged = [math.isfinite(record["update_gain"]) for record in run(config("discrete", monitor_every=0))]
    assert judged == [False, *[True] * 6]


def test_a_part_of_the_rows_is_drawn_without_touching_another_stream() -> None:
    every, part = run(config("discrete")), run(config("discrete", monitor_rows=64))
    assert np.isfinite([record["slope"] for record in part[2::2]]).all()
    assert [record["policy_loss"] for record in every] == [record["policy_loss"] for record in part]
    assert [record["slope"] for record in every[2::2]] != [record["slope"] for record in part[2::2]]
