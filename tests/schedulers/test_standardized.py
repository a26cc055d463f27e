"""The standardised bandits: values by hand, choices that no unit of reward changes; and when the paper's warn."""

from __future__ import annotations

import json
import math
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

from adept import UCB, Fixed, GaussianThompson, RoundRobin, StandardizedThompson, StandardizedUCB, make_scheduler
from adept.schedulers.base import PATIENCE

from .conftest import numbers

BANDITS = [StandardizedUCB, StandardizedThompson]

# c = 1, W = 2. Each row: the reward of the previous choice, the values of arms 3, 2, 1, their scores, the choice.
BY_HAND = [
    # Nothing held: every value 0. The arms come in order until each was chosen once.
    (None, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 3),
    # One reward has no deviation: values stay 0. N(3)=2, t=2: √(0.693147/2)=0.588705; √0.693147=0.832555
    (10.0, (0.0, 0.0, 0.0), (0.588705, 0.832555, 0.832555), 2),
    # Held 10, 20: mean 15, deviation 5. Values −1, +1, and 0 for the arm without a reward. t=3, N=2,2,1:
    # √(1.098612/2)=0.741152; √1.098612=1.048147
    (20.0, (-1.0, 1.0, 0.0), (-0.258848, 1.741152, 1.048147), 1),
    # Held 10, 20, 30: mean 20, deviation √(200/3)=8.164966; 10/8.164966=1.224745. t=4, N=2: √(1.386294/2)=0.832555
    (30.0, (-1.224745, 0.0, 1.224745), (-0.392190, 0.832555, 2.057300), 1),
    # 1 gets 0: its window is 30, 0. Held 10, 20, 30, 0: mean 15, deviation √125=11.180340; Q=10, 20, 15. t=5, N=2,2,3:
    # −5/11.180340=−0.447214; √(1.609438/2)=0.897061; √(1.609438/3)=0.732447
    (0.0, (-0.447214, 0.447214, 0.0), (0.449847, 1.344275, 0.732447), 2),
]


def test_values_and_scores_by_hand():
    scheduler = StandardizedUCB([3, 2, 1], exploration=1.0, window=2)
    for reward, values, scores, choice in BY_HAND:
        assert scheduler.step(reward) == choice
        assert numbers(scheduler, "value") == pytest.approx(values, abs=1e-6)
        assert numbers(scheduler, "score") == pytest.approx(scores, abs=1e-6)


def test_belief_by_hand():
    scheduler = StandardizedThompson([3, 2], step_size=0.5, window=2)
    scheduler.observe(3, 10.0)  # Q = 0: σ² = (1·1 + 0)/2 = 0.5, μ = 0
    scheduler.observe(2, 20.0)  # Q = +1: σ² = (1·1 + 1)/2 = 1, μ = 0.5·1/2 = 0.25
    assert numbers(scheduler, "std") == pytest.approx([0.5**0.5, 1.0])
    assert numbers(scheduler, "mean") == pytest.approx([0.0, 0.25])


def choices(scheduler: Any, size: float, offset: float) -> list[int]:
    rng = np.random.default_rng(3)
    arm, chosen = scheduler.step(None), []
    for noise in rng.normal(size=300):
        arm = scheduler.step(offset + size * (0.3 * arm + float(noise)))
        chosen.append(arm)
    return chosen


@pytest.mark.parametrize("bandit", BANDITS)
@pytest.mark.parametrize(("size", "offset"), [(2.0**-20, 0.0), (2.0**20, 0.0), (1.0, 4096.0), (1024.0, -(2.0**20))])
def test_neither_size_nor_offset_of_the_rewards_changes_a_choice(bandit, size, offset):
    # Powers of two, so that the rewards themselves are rounded little; ties within rounding do not come up here.
    assert choices(bandit([3, 2, 1]), size, offset) == choices(bandit([3, 2, 1]), 1.0, 0.0)


@pytest.mark.parametrize("bandit", BANDITS)
@pytest.mark.parametrize("arms", [[3, 2, 1], [1, 2, 3], [10, 5, 1]])
def test_every_arm_is_tried_once_before_the_rule_decides(bandit, arms):
    scheduler = bandit(arms)
    assert [scheduler.step(reward) for reward in (None, 50.0, 51.0)] == arms


def test_the_papers_rule_never_leaves_the_first_arm_at_cartpoles_returns_and_the_standardised_one_does():
    paper, standardized = UCB([3, 2, 1]), StandardizedUCB([3, 2, 1])
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="has not tried"):
        assert {paper.step(50.0 + float(noise)) for noise in rng.normal(size=200)} == {3}
    tried = [standardized.step(50.0 + float(noise)) for noise in rng.normal(size=200)]
    assert min(tried.count(arm) for arm in (3, 2, 1)) > 20


def test_an_arm_that_was_credited_without_being_chosen_counts_as_tried():
    scheduler = StandardizedUCB([3, 2, 1])
    scheduler.observe(3, 1.0)
    scheduler.observe(1, 2.0)
    assert [scheduler.select(), scheduler.select()] == [2, 1]  # 2 first; then 1 is the best: Q = −1, 0, +1


def test_equal_rewards_have_no_deviation_whatever_their_rounding():
    scheduler = StandardizedUCB([3, 2, 1])
    for _ in range(30):
        scheduler.step(0.1)
    assert numbers(scheduler, "value") == [0.0, 0.0, 0.0]
    assert max(numbers(scheduler, "choices")) == 10.0


def test_large_rewards_stay_finite():
    scheduler = StandardizedUCB([3, 2, 1])
    for reward in (1e100, -1e100, 1e100, 1e-100, 0.0):
        scheduler.step(reward)
    assert all(math.isfinite(value) for value in scheduler.diagnostics().values())


# What state_dict of earlier versions returned, of UCB([3, 1], window=2) after four steps.
OLD_STATE = json.loads(
    '{"scheduler": "UCB", "arms": ["3", "1"], "options": {"exploration": 5.0, "window": 2}, "choices": [2, 2], '
    '"pending": 1, "generator": {"name": "PCG64", "state": "35399562948360463058890781895381311971", '
    '"inc": "87136372517582989555478159403783844777", "has_uint32": 0, "uinteger": 0}, '
    '"rule": {"rewards": [[1.0, -2.0], [0.5]], "counts": [3, 2]}}'
)


def test_a_state_saved_by_earlier_versions_is_of_the_papers_rule():
    scheduler = UCB([3, 1], window=2)
    scheduler.load_state_dict(OLD_STATE)
    assert scheduler.state_dict() == OLD_STATE
    with pytest.raises(ValueError, match="it is of a scheduler with scheduler 'UCB'"):
        StandardizedUCB([3, 1], exploration=5.0, window=2).load_state_dict(OLD_STATE)


@pytest.mark.parametrize(
    ("scheduler", "shown"),
    [
        (UCB([3, 2, 1]), "UCB([3, 2, 1], exploration=5.0, window=10)"),
        (StandardizedUCB([3, 2, 1]), "StandardizedUCB([3, 2, 1], exploration=1.0, window=10)"),
        (GaussianThompson(["a"]), "GaussianThompson(['a'], step_size=1.0, window=50)"),
        (StandardizedThompson(["a"]), "StandardizedThompson(['a'], step_size=1.0, window=50)"),
        (RoundRobin((2, 1)), "RoundRobin([2, 1])"),
        (Fixed(3), "Fixed(3)"),
    ],
)
def test_repr_says_what_builds_an_equal_one_and_has_the_papers_constants(scheduler, shown):
    assert repr(scheduler) == shown
    assert eval(shown).state_dict() == scheduler.state_dict()


def steps(scheduler: Any, count: int) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(count):
            scheduler.step(97.0)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("stuck", "shown", "other"),
    [
        (partial(UCB, [3, 2, 1]), "UCB([3, 2, 1], exploration=5.0, window=10)", "adept.StandardizedUCB"),
        (
            partial(GaussianThompson, [3, 2, 1], seed=1),
            "GaussianThompson([3, 2, 1], step_size=1.0, window=50)",
            "adept.StandardizedThompson",
        ),
    ],
)
def test_an_arm_left_untried_for_long_is_said_once_and_the_other_class_named(stuck, shown, other):
    scheduler = stuck()
    if isinstance(scheduler, GaussianThompson):
        scheduler.observe(3, 97.0)  # σ² = 97², a draw per arm; then σ² falls with every equal reward
        for _ in range(400):
            scheduler.observe(3, 97.0)
    assert steps(scheduler, PATIENCE - 1) == []
    (message,) = steps(scheduler, 1)
    assert message.startswith(f"{shown} has not tried 2, 1 in its first 50")
    assert f"{other} ('standardized-" in message
    assert steps(scheduler, 500) == []
    resumed = stuck()
    resumed.load_state_dict(scheduler.state_dict())
    assert steps(resumed, 500) == []


def test_nothing_is_said_where_every_arm_was_tried():
    for name in ("standardized-ucb", "standardized-thompson", "round-robin", "fixed"):
        assert steps(make_scheduler(name, [3] if name == "fixed" else [3, 2, 1]), 2 * PATIENCE) == []
