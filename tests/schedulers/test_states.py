"""A state that was saved loads exactly; one of another scheduler or version is refused, and changes nothing."""

from __future__ import annotations

import copy
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from adept import UCB, Fixed, GaussianThompson, RoundRobin
from adept.schedulers.saved import label


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in a state, at every level."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inside:
        yield (*path, key)
        yield from paths(child, (*path, key))


def parent_of(state: Any, path: tuple[Any, ...]) -> Any:
    return functools.reduce(lambda value, key: value[key], path[:-1], state)


def refused(scheduler: Any, state: Any) -> bool:
    """Try to load, and check that a refusal is clear and changes nothing."""
    before = scheduler.state_dict()
    message = ""
    try:
        scheduler.load_state_dict(state)
    except ValueError as error:
        message = str(error)
    if not message:
        return False
    assert message.startswith(f"cannot load this state into {type(scheduler).__name__}: ")
    assert "; nothing was changed, load what `state_dict`" in message
    assert scheduler.state_dict() == before
    return True


@pytest.fixture
def state(used: Any) -> dict[str, Any]:
    return json.loads(json.dumps(used.state_dict()))


def test_every_key_is_needed(used, state):
    for path in [path for path in paths(state) if isinstance(path[-1], str)]:
        damaged = copy.deepcopy(state)
        del parent_of(damaged, path)[path[-1]]
        assert refused(used, damaged), path


def test_more_than_was_saved_is_refused_too(used, state):
    for path in [(), *paths(state)]:
        damaged = copy.deepcopy(state)
        value = functools.reduce(lambda inner, key: inner[key], path, damaged)
        if isinstance(value, dict):
            value["unknown"] = 1
            assert refused(used, damaged), path
    assert refused(used, {**state, "choices": [*state["choices"], 1]})


@pytest.mark.parametrize("nonsense", [None, 3, "state", [], {}, [1, 2], object()])
def test_what_is_no_state_at_all_is_refused(used, nonsense):
    assert refused(used, nonsense)


SAVED = [
    *(
        (UCB(arms), UCB([3, 2, 1]), "arms")
        for arms in ([3, 2], [1, 2, 3], [3, 2, 1, 0], ["3", "2", "1"], [3.0, 2.0, 1.0])
    ),
    (Fixed(2), Fixed(3), "arms"),
    (RoundRobin([3, 2, 1]), UCB([3, 2, 1]), "scheduler 'RoundRobin', this one has 'UCB'"),
    (UCB([2, 1], exploration=1.0), UCB([2, 1], exploration=5.0), "options"),
    (UCB([2, 1], window=5), UCB([2, 1], window=10), "options"),
    (GaussianThompson([2, 1], step_size=0.1), GaussianThompson([2, 1], step_size=1.0), "options"),
    (GaussianThompson([2, 1], window=5), GaussianThompson([2, 1], window=10), "options"),
]


@pytest.mark.parametrize(("saved", "mine", "differs"), SAVED)
def test_a_state_of_another_scheduler_is_refused(saved, mine, differs):
    with pytest.raises(ValueError, match=f"it is of a scheduler with {differs}"):
        mine.load_state_dict(saved.state_dict())


class Plain:
    """An arm that is itself and nothing else: no equality, no representation of its own."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError("an arm is the user's; it is not copied")


def test_loading_keeps_the_arms_themselves():
    arms = [Plain(), Plain()]
    scheduler = UCB(arms)
    scheduler.step(1.0)
    scheduler.load_state_dict(scheduler.state_dict())
    assert scheduler.step(1.0) in arms
    scheduler.observe(arms[1], 1.0)


def test_a_state_fits_the_same_arms_of_another_process():
    # Addresses and the hash seed differ between processes; the names of the arms in the state must not.
    program = (
        "import functools, json\n"
        "from adept import UCB\n"
        "class Thing: pass\n"
        "def crop(): pass\n"
        "arms = [crop, Thing, Thing(), frozenset('abcdef'), (1, frozenset('xyz')), 'a', 2]\n"
        "arms.append(functools.partial(crop, 1))\n"
        "print(json.dumps(UCB(arms).state_dict()['arms']))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", f"padding = list(range({padding}))\n{program}"],
            env={"PYTHONHASHSEED": str(padding)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for padding in (1, 2, 100_000)
    }
    assert len(outputs) == 1
    assert "0x" not in outputs.pop()


def test_labels_tell_apart_what_is_not_equal():
    arms = [1, 1.5, "1", (1,), ("1",), None, frozenset({1}), frozenset({2}), len, dict]
    assert len({label(arm) for arm in arms}) == len(arms)


def test_arms_that_look_alike_keep_their_own_diagnostics():
    diagnostics = UCB([1, "1", 2]).diagnostics()
    assert [key for key in diagnostics if key.startswith("choices/")] == ["choices/1#0", "choices/1#1", "choices/2"]


def test_a_numpy_arm_is_the_number_it_holds():
    import numpy as np

    scheduler = UCB(np.array([3, 2, 1]))
    scheduler.load_state_dict(UCB([3, 2, 1]).state_dict())
    assert "choices/3" in scheduler.diagnostics()


def test_the_error_shows_the_cause(used):
    with pytest.raises(ValueError, match=r"must be a mapping with the keys scheduler, arms, .*, got \{\}; nothing was"):
        used.load_state_dict({})
