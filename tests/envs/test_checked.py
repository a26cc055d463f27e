"""Environments that misbehave: their errors name them, and their end is not waited for for ever."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from adept.config import Config
from adept.envs import guarded, make_environments
from adept.envs.checked import EnvironmentFailure, Guarded


def environments(**methods):
    return SimpleNamespace(count=1, observation_shape=(1,), observation_dtype=np.float32, actions=None, **methods)


def raising(message):
    def method(*_):
        raise RuntimeError(message)

    return method


def test_errors_name_the_environment_and_the_step():
    guard = Guarded(
        environments(step=raising("no fuel"), restart=raising("no map"), render=raising("no screen")), "a/b"
    )
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


SMALL, NONE = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (0,))


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        (NONE, SMALL, "hold no number; there is nothing to act on"),
        (SMALL, NONE, "hold no number; there is nothing to choose"),
        (spaces.Dict({}), SMALL, "cannot make the Gymnasium environment 'Faulty-v0': An empty Dict"),
        (None, SMALL, "cannot make the Gymnasium environment 'Faulty-v0': broken"),
    ],
)
def test_spaces_without_a_number_and_broken_constructors_are_one_clear_error(observations, actions, message):
    class Faulty(gymnasium.Env):
        observation_space, action_space = observations, actions

        def __init__(self, render_mode=None):
            if observations is None:
                raise RuntimeError("broken")

    gymnasium.register("Faulty-v0", Faulty)
    try:
        with pytest.raises(ValueError, match=message):
            make_environments(Config(env="gymnasium/Faulty-v0", network="mlp"), count=1)
    finally:
        del gymnasium.registry["Faulty-v0"]
