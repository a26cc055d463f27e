"""Branches of a run: equal where the arm is equal, and without a trace in the run."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from adept.config import Config
from adept.probe.branches import Branching, branches
from adept.training import train

CONFIG = Config(env="gymnasium/CartPole-v1", scheduler="fixed", epochs=4, steps=4 * 256, environments=4,
                rollout_length=64, minibatch_size=64, seed=1)  # fmt: skip


def test_branches_of_one_arm_are_equal_and_leave_the_run_as_it_was():
    plans = [Branching(arms=arms, stages=(2, 3), repeats=2, settle=1, listen=2) for arms in ((2, 3), (2,))]
    rows, again = (list(branches(CONFIG, plan)) for plan in plans)
    assert len(rows) == 2 * 2 * 2
    for first, other, twin in zip(rows[::2], rows[1::2], again, strict=True):
        assert first == twin, "same parameters, rollout and shuffles: same outcome, whatever was tried beside it"
        assert first["reward"] != other["reward"]
        assert first["episodes"] > 0
    assert rows[0]["reward"] != rows[2]["reward"], "another repeat is another rollout"
    scores = {record["iteration"]: record["score"] for record in train(CONFIG)}
    assert [rows[0]["before"], rows[4]["before"]] == [scores[2], scores[3]], "branching does not disturb the run"


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="stage 9 is beyond the run's 4 iterations"):
        list(branches(CONFIG, Branching((2,), (9,), repeats=2, settle=0, listen=1)))
    for wrong in ({"arms": ()}, {"stages": (3, 1, 2)}, {"repeats": 1}, {"listen": 0}):
        with pytest.raises(ValueError, match="must be"):
            Branching(**({"arms": (2, 1), "stages": (1, 2), "repeats": 2, "settle": 0, "listen": 1} | wrong))
