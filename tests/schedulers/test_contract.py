"""What every scheduler promises, tried on each one of the table and on one from outside."""

from __future__ import annotations

import copy
import json
import math
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adept import Scheduler, make_scheduler

from .conftest import numbers

arm_values = st.one_of(
    st.integers(-5, 5), st.text(max_size=3), st.tuples(st.integers(0, 3), st.text(max_size=2)), st.none()
)
arm_lists = st.lists(arm_values, min_size=1, max_size=5, unique=True)
rewards = st.floats(-1e100, 1e100) | st.floats(-100, 100) | st.integers(-1000, 1000)
seeds = st.integers(0, 2**64)
# A life: `step` with a reward or None, `select`, or `observe` of the arm with this index.
moves = st.one_of(
    st.tuples(st.just("step"), st.none() | rewards),
    st.tuples(st.just("select"), st.none()),
    st.tuples(st.integers(0, 4), rewards),
)
lives = st.lists(moves, max_size=60)


def live(scheduler: Scheduler[Any], life: list[tuple[Any, Any]]) -> list[Any]:
    """Make the moves and return the choices."""
    choices = []
    for move, reward in life:
        if move == "step":
            choices.append(scheduler.step(reward))
        elif move == "select":
            choices.append(scheduler.select())
        else:
            scheduler.observe(scheduler.arms[move % len(scheduler.arms)], reward)
    return choices


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(state, allow_nan=False))


@given(arms=arm_lists, seed=seeds, life=lives)
def test_choices_are_arms_that_are_counted_and_diagnostics_finite_numbers_for_each(make, arms, seed, life):
    scheduler = make(arms, seed)
    choices = live(scheduler, life)
    assert all(choice in scheduler.arms for choice in choices)
    assert numbers(scheduler, "choices") == [choices.count(arm) for arm in scheduler.arms]
    diagnostics = scheduler.diagnostics()
    assert all(type(value) is float and math.isfinite(value) for value in diagnostics.values())
    assert len(diagnostics) % len(scheduler.arms) == 0, "an arm's number was lost"
    json.dumps(diagnostics, allow_nan=False)


@given(arms=arm_lists, seed=seeds, before=lives, after=lives)
def test_restored_through_json_it_goes_on_as_if_nothing_had_happened(make, arms, seed, before, after):
    kept = make(arms, seed)
    live(kept, before)
    state = through_json(kept.state_dict())
    restored = make(arms, seed + 1)
    live(restored, after)  # whatever it was, it becomes the saved one
    restored.load_state_dict(state)
    assert restored.state_dict() == kept.state_dict() == state
    assert live(restored, after) == live(kept, after)
    assert restored.diagnostics() == kept.diagnostics()


@given(arms=arm_lists, seed=seeds, life=lives)
def test_step_is_observe_of_the_previous_choice_then_select(make, arms, seed, life):
    stepped, by_hand = make(arms, seed), make(arms, seed)
    previous = None
    for place, (_, reward) in enumerate(life):
        if reward is not None and place > 0:
            by_hand.observe(previous, reward)
        previous = by_hand.select()
        assert stepped.step(reward) == previous
    assert stepped.state_dict()["rule"] == by_hand.state_dict()["rule"]


@given(
    life=lives,
    reward=st.sampled_from(
        [math.nan, math.inf, -math.inf, np.float32("nan"), np.nan, 1e101, -1e300, 10**400, "1", b"1", [1.0], {}, 1j]
    ),
    arm=st.integers(0, 2),
)
def test_bad_reward_is_refused_and_changes_nothing(make, life, reward, arm):
    scheduler = make([3, 2, 1])
    live(scheduler, life)
    before = scheduler.state_dict()
    with pytest.raises(ValueError, match=r"a reward must be a finite number.*got .*; pass None to `step`"):
        scheduler.step(reward)
    for wrong in (reward, None):  # None is for `step` alone
        with pytest.raises(ValueError, match="a reward must be a finite number"):
            scheduler.observe(scheduler.arms[arm % len(scheduler.arms)], wrong)
    assert scheduler.state_dict() == before


@pytest.mark.parametrize("arm", [4, "3", None, (), [3], {}])
def test_unknown_arm_is_refused_and_changes_nothing(used, arm):
    before = used.state_dict()
    with pytest.raises(ValueError, match=r"unknown arm .*; the arms are \(3"):
        used.observe(arm, 1.0)
    assert used.state_dict() == before


@pytest.mark.parametrize(
    "reward", [np.float32(1.5), np.float64(1.5), np.int64(2), np.array(1.5), True, 3], ids=lambda reward: repr(reward)
)
def test_what_float_takes_is_a_reward(make, reward):
    plain, other = make([3, 2, 1]), make([3, 2, 1])
    for _ in range(5):
        assert other.step(reward) == plain.step(float(reward))
    assert other.state_dict() == plain.state_dict()


def test_a_saved_state_is_a_snapshot(used):
    state = used.state_dict()
    text = json.dumps(state)
    for _ in range(20):
        used.step(3.0)
    assert json.dumps(state) == text
    used.load_state_dict(state)
    for _ in range(20):
        used.step(3.0)
    assert json.dumps(state) == text, "a loaded state must not be written to"


def test_global_randomness_is_neither_read_nor_written(make):
    def run() -> list[int]:
        scheduler = make([3, 2, 1], seed=4)
        choices = [scheduler.step(float(iteration % 7)) for iteration in range(200)]
        scheduler.load_state_dict(scheduler.state_dict())
        scheduler.diagnostics()
        return choices

    np.random.seed(1)  # noqa: NPY002 - the global generator is what this is about
    random.seed(1)
    numpy_before, python_before = np.random.get_state(), random.getstate()  # noqa: NPY002
    first = run()
    numpy_after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(one, other) for one, other in zip(numpy_before, numpy_after, strict=True))
    assert random.getstate() == python_before
    np.random.seed(2)  # noqa: NPY002
    random.seed(2)
    assert run() == first


def test_memory_does_not_grow_with_the_number_of_steps(make):
    scheduler = make([3, 2, 1])
    rng = random.Random(3)

    def size_after(steps: int) -> int:
        for _ in range(steps):
            scheduler.step(rng.gauss(0, 1))
        return len(pickle.dumps(scheduler))

    filled = size_after(3_000)
    assert size_after(30_000) <= filled + 64  # counters may need a few more bytes


def test_pickled_or_restored_it_goes_on_the_same(used, make):
    small = {"window": 4} if "window" in used.options else {}
    restored = make([3, 2, 1], seed=9, **small)
    restored.load_state_dict(through_json(used.state_dict()))
    noise = random.Random(1)
    for twin in (pickle.loads(pickle.dumps(used)), restored):
        own = copy.deepcopy(used)
        for iteration in range(2_000):
            reward = noise.gauss(math.sin(iteration / 100), 1.0)
            assert twin.step(reward) == own.step(reward)
        assert twin.state_dict() == own.state_dict()


NO_ARMS = [[], (), [3, 3], [1, True], [2, 2.0], [[1]], [{}], 3, None, {3, 2, 1}, "321", b"321", np.array(1), {3: 1}]


@pytest.mark.parametrize("arms", NO_ARMS)
def test_arms_are_distinct_hashable_values_in_an_order(name, arms):
    with pytest.raises(ValueError, match=r"arms must be .*got .*; for example \[3, 2, 1\]"):
        make_scheduler(name, arms)


@pytest.mark.parametrize("seed", [-1, 1.0, "0", None, True])
def test_a_seed_is_a_whole_number(make, seed):
    with pytest.raises(ValueError, match="seed must be a whole number ≥ 0, got "):
        make([3, 2, 1], seed=seed)


@settings(max_examples=25)
@given(arms=arm_lists, seed=seeds)
def test_arms_may_be_any_iterable_in_an_order(make, arms, seed):
    assert make(tuple(arms), seed).arms == make(arms, seed).arms == tuple(arms[: len(make(arms, seed).arms)])
