"""Environments that misbehave: their errors name them, and their end is not waited for for ever."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from adept.envs import guarded
from adept.envs.guarded import EnvironmentFailure, Guarded


def environments(**methods):
    return SimpleNamespace(count=1, observation_shape=(1,), observation_dtype=np.float32, actions=None, **methods)


def raising(message):
    def method(*_):
        raise RuntimeError(message)

    return method


def test_errors_name_the_environment_and_the_step():
    guard = Guarded(environments(step=raising("no fuel"), restart=raising("no map"), render=raising("no screen")), "a/b")
    with pytest.raises(EnvironmentFailure, match=r"a/b raised RuntimeError in reset: no map"):
        guard.restart(1)
    with pytest.raises(EnvironmentFailure, match=r"a/b raised RuntimeError in step 1 after the last restart: no fuel"):
        guard.step(np.zeros(1))
    with pytest.raises(EnvironmentFailure, match=r"a/b raised RuntimeError in render: no screen"):
        guard.render()


def test_a_hang_in_close_is_left_behind(monkeypatch, caplog):
    monkeypatch.setattr(guarded, "CLOSE_SECONDS", 0.05)
    forever = threading.Event()
    with caplog.at_level(logging.WARNING, "adept"):
        Guarded(environments(close=forever.wait), "a/b").close()
    assert "a/b does not close within 0.05 seconds" in caplog.text
    forever.set()


def test_an_error_in_close_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "adept"):
        Guarded(environments(close=raising("busy")), "a/b").close()
    assert "a/b raised RuntimeError: busy as it was closed" in caplog.text
