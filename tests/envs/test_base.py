"""Environments that misbehave: their errors name them, and their end is not waited for for ever."""

from __future__ import annotations

import logging
import threading
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from adept.config import Config
from adept.envs import base, make_environments, single
from adept.envs.base import Continuous, Discrete, EnvironmentFailure, Environments


class Failing(Environments):
    """Raises in every method."""

    name, count, observation_shape, observation_dtype, actions = "a/b", 1, (1,), np.float32, Discrete(2)

    def _restart(self, seed):
        raise RuntimeError("no map")

    def _step(self, actions):
        raise RuntimeError("no fuel")

    def _render(self):
        raise RuntimeError("no screen")

    def _close(self):
        raise RuntimeError("busy")


def test_errors_name_the_environment_and_the_step():
    failing = Failing()
    with pytest.raises(EnvironmentFailure, match=r"a/b raised RuntimeError in reset: no map"):
        failing.restart(1)
    with pytest.raises(EnvironmentFailure, match=r"a/b raised RuntimeError in step 1 after the last restart: no fuel"):
        failing.step(np.zeros(1))
    with pytest.raises(EnvironmentFailure, match=r"a/b raised RuntimeError in render: no screen"):
        failing.render()


def test_a_hang_in_close_is_left_behind(monkeypatch, caplog):
    monkeypatch.setattr(base, "CLOSE_SECONDS", 0.05)
    forever = threading.Event()
    monkeypatch.setattr(Failing, "_close", lambda self: forever.wait())
    with caplog.at_level(logging.WARNING, "adept"):
        Failing().close()
    assert "a/b does not close within 0.05 seconds" in caplog.text
    forever.set()


def test_an_error_in_close_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "adept"):
        Failing().close()
    assert "a/b raised RuntimeError: busy as it was closed" in caplog.text


SMALL, NONE = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (0,))


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        (NONE, SMALL, "hold no number; there is nothing to act on"),
        (SMALL, NONE, "hold no number; there is nothing to choose"),
        (SMALL, spaces.MultiDiscrete([2, 2]), "only one discrete choice or a vector"),
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


class Odd(gymnasium.Env):
    """Gives what it is told to, in the place of what it declares."""

    observation_space, action_space = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)
    given: ClassVar[dict[str, object]] = {}

    def __init__(self, render_mode=None):
        if "spaces" in self.given:
            self.observation_space = spaces.Box(-1, 1, (3 + self.given["spaces"].pop(),))

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        told = {"observation": np.zeros(3), "reward": 1.0, "terminated": False, "truncated": False} | self.given
        return told["observation"], told["reward"], told["terminated"], told["truncated"], {}


@pytest.fixture
def odd(monkeypatch):
    monkeypatch.setitem(gymnasium.registry, "Odd-v0", gymnasium.envs.registration.EnvSpec("Odd-v0", entry_point=Odd,
                        disable_env_checker=True, order_enforce=False))  # fmt: skip

    def make(**given):
        monkeypatch.setattr(Odd, "given", given)
        config = Config(env="gymnasium/Odd-v0", network="mlp")
        made = make_environments(config, count=2)
        made.restart(1)
        return made

    return make


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"observation": np.zeros(1)}, r"an observation of shape \(1,\), where \(3,\) is declared"),
        ({"observation": 0.5}, r"an observation of shape \(\), where \(3,\)"),
        ({"observation": np.array(["a", "b", "c"])}, "an observation of <U1, where float32 is declared"),
        ({"observation": np.zeros(3, complex)}, "an observation of complex128"),
        ({"terminated": "no"}, "terminated is 'no' and truncated False; both must be true or false"),
        ({"terminated": float("nan")}, "terminated is nan"),
        ({"truncated": None}, "truncated None"),
        ({"reward": "1.5"}, "the reward '1.5' is no number"),
    ],
)
def test_what_was_not_declared_is_a_failure_and_no_number(odd, given, message):
    made = odd(**given)
    with pytest.raises(EnvironmentFailure, match=f"gymnasium/Odd-v0 raised ValueError in step 1 .*{message}"):
        made.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("given", [{"terminated": np.True_}, {"truncated": 1}, {"observation": [0, 1, 0]}])
def test_what_means_the_same_is_taken(odd, given):
    step = odd(**given).step(np.zeros(2, np.int64))
    assert step.observations.dtype == np.float32
    assert (step.terminated | step.truncated).all() == ("observation" not in given)


def test_pixels_are_whole_numbers_below_256():
    row = np.dtype(np.uint8)
    assert single._fits(np.array([0, 255]), row)
    assert not single._fits(np.array([0, 256]), row)
    assert not single._fits(np.array([-1, 0]), row)
    assert not single._fits(np.array([0.5]), row)


def test_spaces_that_change_from_one_to_the_next_are_refused(odd):
    with pytest.raises(ValueError, match="Odd-v0 has other spaces each time that it is made"):
        odd(spaces=[0, 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observation_shape": (0,)}, "observations of 0 numbers"),
        ({"observation_shape": (2**20, 2**20)}, "observations of 1,099,511,627,776 numbers; there must be 1 to"),
        ({"actions": Discrete(2**40)}, "1,099,511,627,776 actions"),
        ({"actions": Continuous((), ())}, "0 actions"),
        ({"actions": Continuous((1.0,), (0.0,))}, "lower bounds are not below"),
        ({"actions": Continuous((float("nan"),), (1.0,))}, "lower bounds are not below"),
    ],
)
def test_spaces_that_no_network_fits_are_refused(changes, message):
    faulty = Failing()
    vars(faulty).update(changes)
    with pytest.raises(ValueError, match=f"a/b has {message}|a/b has actions whose {message}"):
        faulty.check_spaces()


def test_an_environment_without_spaces_is_one_line(monkeypatch):
    class Bare(gymnasium.Env):
        @property
        def observation_space(self):
            raise KeyError("no file")

    spec = gymnasium.envs.registration.EnvSpec("Bare-v0", entry_point=Bare, disable_env_checker=True)
    monkeypatch.setitem(gymnasium.registry, "Bare-v0", spec)
    with pytest.raises(ValueError, match="cannot make gymnasium/Bare-v0: KeyError: 'no file'"):
        make_environments(Config(env="gymnasium/Bare-v0", network="mlp"), count=1)
