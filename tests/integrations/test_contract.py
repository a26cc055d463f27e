"""What every integration does before it begins, without any framework."""

import sys

import pytest

from adept import RoundRobin
from adept.integrations import contract


def test_versions_are_compared_by_their_numbers(monkeypatch):
    bounds = {"package": "json", "at_least": "2.4", "below": "2.10", "extra": "sb3"}
    for version in ("2.4", "2.4.0", "2.9.2", "2.9.2+cpu", "2.9.0rc1"):
        monkeypatch.setattr("importlib.metadata.version", lambda package, version=version: version)
        contract.require_framework("json", **bounds)
    for version in ("2.3.9", "2.10", "2.10.1", "10.0"):
        monkeypatch.setattr("importlib.metadata.version", lambda package, version=version: version)
        with pytest.raises(ImportError, match=rf"json {version} .*json>=2.4,<2.10: pip install 'adept-rl\[sb3\]'"):
            contract.require_framework("json", **bounds)


def test_a_framework_that_cannot_be_imported_names_the_extra(monkeypatch, tmp_path):
    (tmp_path / "half_installed.py").write_text("raise ImportError('some dependencies are missing')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"some dependencies are missing.*pip install 'adept-rl\[rllib\]'"):
        contract.require_framework("half_installed", package="ray", at_least="1", below="2", extra="rllib")
    monkeypatch.setitem(sys.modules, "half_installed", None)
    with pytest.raises(ImportError, match=r"half_installed is not installed.*pip install 'adept-rl\[rllib\]'"):
        contract.require_framework("half_installed", package="ray", at_least="1", below="2", extra="rllib")


def test_metrics_are_named_alike_everywhere():
    scheduler = RoundRobin([3, 1])
    scheduler.step(None)
    assert contract.metrics(scheduler, epochs=3, epochs_done=2.5, reward=0.5) == {
        "adept/epochs": 3.0,
        "adept/epochs_done": 2.5,
        "adept/reward": 0.5,
        "adept/choices/3": 1.0,
        "adept/choices/1": 0.0,
    }
    assert "adept/reward" not in contract.metrics(scheduler, epochs=3)


class Schedule:
    def __init__(self):
        self.steps = 0

    def step(self):
        self.steps += 1


def test_held_steps_are_noted_and_not_made():
    schedule = Schedule()
    with contract.held_steps(schedule) as asked:
        schedule.step(0.1)
        schedule.step()
    assert (schedule.steps, asked) == (0, [(0.1,), ()])
    schedule.step()
    assert schedule.steps == 1


def test_held_steps_give_back_a_step_of_the_instance_even_after_an_error():
    schedule = Schedule()
    own = schedule.step = lambda: "own"
    with pytest.raises(RuntimeError), contract.held_steps(schedule):
        raise RuntimeError
    assert schedule.step is own
