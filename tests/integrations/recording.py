"""What the tests of all integrations share: a scheduler that remembers, and an environment with known rewards."""

from __future__ import annotations

import importlib.util

import gymnasium
import numpy as np
import pytest

from adept import RoundRobin
from adept.engine import marked_epochs
from adept.rules import Rule, Settings


class Recorder(RoundRobin):
    """The arms in turn, with a list of the choices and a list of the credits."""

    def __init__(self, arms, *, seed=0):
        super().__init__(arms, seed=seed)
        self.chosen = []
        self.credits = []

    def _choose(self):
        index = super()._choose()
        self.chosen.append(self.arms[index])
        return index

    def _credit(self, index, reward):
        self.credits.append((self.arms[index], reward))

    def assert_credits(self, rewards):
        """Check that the choice of each rollout was credited with the reward of the rollout after it."""
        expected = list(zip(self.chosen[:-1], rewards[1:], strict=True))
        assert [arm for arm, _ in self.credits] == [arm for arm, _ in expected]
        np.testing.assert_allclose(
            [reward for _, reward in self.credits], [reward for _, reward in expected], rtol=1e-5
        )


class Scripted(Rule):
    """Returns the settings it was given, one after the other and from the start again, and keeps the feedback."""

    needs_slope = True
    saved = ("made",)

    def __init__(self, settings, kl_stop=None):
        super().__init__(1)
        self.settings, self.kl_stop = [Settings(*each) for each in settings], kl_stop
        self.feedback, self._made = [], 0

    @property
    def options(self):
        return {} if self.kl_stop is None else {"kl_stop": self.kl_stop}

    def stops(self, kl):
        return self.kl_stop is not None and kl > self.kl_stop

    def step(self, feedback):
        self.feedback.append(feedback)
        self._made += 1
        return self.settings[(self._made - 1) % len(self.settings)]


class Counting(gymnasium.Env):
    """The n-th step of its life is rewarded with n, and `offset`; an episode lasts `episode` steps.

    With a discount of 0 the return of a step is its reward, so that the mean return of every rollout is known.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, episode=5, offset=0):
        self.episode = episode
        self.offset = offset
        self.life = 0
        self._np_random = np.random.default_rng(offset)  # the same observations in every run, also where nobody seeds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation(), {}

    def step(self, action):
        self.life += 1
        return self._observation(), float(self.offset + self.life), self.life % self.episode == 0, False, {}

    def action_masks(self):
        return np.array([True, self.life % 2 == 0])

    def _observation(self):
        return self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)


def counting_means(rollouts, steps):
    """Return the mean reward of each of so many rollouts of so many steps in `Counting`: 1..T, T+1..2T, …"""
    return [steps * rollout + (steps + 1) / 2 for rollout in range(rollouts)]


def assert_same_state(scheduler, twin):
    """Check that two schedulers are in the same state, up to the rounding of returns in single precision."""

    def numbers(state):
        if isinstance(state, dict):
            return [number for key in sorted(state) for number in numbers(state[key])]
        if isinstance(state, list):
            return [number for item in state for number in numbers(item)]
        return [state] if isinstance(state, float) else []

    def shape(state):
        if isinstance(state, dict):
            return {key: shape(value) for key, value in state.items()}
        if isinstance(state, list):
            return [shape(item) for item in state]
        return float if isinstance(state, float) else state

    assert shape(scheduler.state_dict()) == shape(twin.state_dict())
    np.testing.assert_allclose(numbers(scheduler.state_dict()), numbers(twin.state_dict()), rtol=1e-4)


def import_afresh(module):
    """Run a module's code once more, in an object of its own."""
    spec = importlib.util.find_spec(module)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def slope_by_hand(longer, shorter, advantages, epsilon=0.25):
    """Return mean[(ln π₁₊ε − ln π₁₋ε)/2ε · Â], written out."""
    advantages = np.asarray(advantages, np.float64).ravel()
    normal = (advantages - advantages.mean()) / advantages.std()
    difference = np.asarray(longer, np.float64).ravel() - np.asarray(shorter, np.float64).ravel()
    weights = difference / (2 * epsilon)
    return float(np.mean((weights - weights.mean()) * normal))


def gain_by_hand(candidate, start, deployed, advantages):
    """Return mean[(π_φ − π₀)/π_d · Â], written out, for ratios below the cut."""
    advantages = np.asarray(advantages, np.float64).ravel()
    normal = (advantages - advantages.mean()) / advantages.std()
    candidate, start, deployed = (np.asarray(each, np.float64).ravel() for each in (candidate, start, deployed))
    weights = np.exp(candidate - deployed) - np.exp(start - deployed)
    return float(np.mean((weights - weights.mean()) * normal))


class Lag:
    """How much further the critic should have gone in every update, by least squares, and what it then explains."""

    def __init__(self, parameters, values, returns):
        self._parameters, self._values, self._returns = list(parameters), values, returns
        self._start, self.found, self.explained = None, [], []

    def step(self):
        """Work it out for the last update, from the rollout at hand."""
        end = [parameter.detach().clone() for parameter in self._parameters]
        if self._start is not None:
            now, before = self._at(end), self._at(self._start)
            returns = _flat(self._returns())
            self._at(end)
            self.found.append(np.linalg.lstsq((now - before)[:, None], returns - before, rcond=None)[0][0] - 1)
            self.explained.append(1 - np.var(returns - now) / np.var(returns))
        self._start = end

    def _at(self, place):
        for parameter, value in zip(self._parameters, place, strict=True):
            parameter.data.copy_(value)
        return _flat(self._values())

    def assert_evaluations(self, evaluations, *, scaled):
        """Check the critic's slope after every update, and what it explains, in units that no scaling changes."""
        explained = [evaluation.explained_variance for evaluation in evaluations]
        assert scaled or explained == pytest.approx(self.explained, rel=2e-3, abs=1e-4)
        np.testing.assert_allclose(
            [evaluation.critic_slope.value for evaluation in evaluations], self.found, rtol=2e-3, atol=1e-4
        )
        assert max(map(abs, self.found)) > 1e-2, "a slope that says something"


CRITIC_ALONE = [(2, 1e-4, 2.0)]
"""A choice with a factor of 1/10000 on the learning rate of all parameters but the critic's own, which have 2."""


class Oracle:
    """Slope and gains of every update, and the critic's slope, worked out apart from the engine while a host trains."""

    def __init__(self, host):
        self._host, self._begin = host, host.engine.begin
        self._start, self.epochs, self._count = None, [], 0
        self.found = []
        self._critic = host.critic and Lag(host.critic, host.values, host.returns)
        host.engine.begin = self.begin
        host.after_steps(self._after)

    def _after(self, *_):
        self._count += 1
        if self._count % self._host.minibatches == 0:
            self.epochs.append(self._host.take())

    def _at(self, values):
        own = self._host.take()
        self._host.put(values)
        found = _flat(self._host.log_probs())
        self._host.put(own)
        return found

    def begin(self, *args, **kwargs):
        """Work out the estimates of the last update, from the rollout at hand, and begin the next."""
        end = self._host.take()
        if self._start is not None:
            advantages = _flat(self._host.advantages())
            *ends, twice = (
                [a + share * (b - a) for a, b in zip(self._start, end, strict=True)] for share in (1.25, 0.75, 2.0)
            )
            deployed, before = self._at(end), self._at(self._start)
            marked = [self.epochs[epoch - 1] for epoch in marked_epochs((len(self.epochs),))[:-1]]
            gains = [gain_by_hand(self._at(place), before, deployed, advantages) for place in (twice, *marked, end)]
            self.found.append([slope_by_hand(*map(self._at, ends), advantages), *gains])
        if self._critic:
            self._critic.step()
        self._start, self.epochs, self._count = end, [], 0
        return self._begin(*args, **kwargs)

    def assert_evaluations(self):
        """Check slope, gains by epoch and of every update but the first, which nothing was before."""
        evaluations = self._host.feedback
        assert evaluations[0] is None
        assert len(evaluations) >= 3
        for evaluation, expected in zip(evaluations[1:], self.found, strict=True):
            epochs = sorted(evaluation.gain_by_epoch)
            assert epochs == list(marked_epochs((self._host.epochs,)))
            assert evaluation.gain_by_epoch[epochs[-1]] == evaluation.update_gain
            gains = [evaluation.gain_by_length[2.0], *(evaluation.gain_by_epoch[epoch] for epoch in epochs)]
            judged = [evaluation.slope, *gains]
            np.testing.assert_allclose([each.value for each in judged], expected, rtol=2e-3, atol=2e-6)
        assert max(abs(values[0]) for values in self.found) > 1e-3, "a slope that says something"
        if self._critic:
            self._critic.assert_evaluations(evaluations[1:], scaled=self._host.variant == "scaled")
        else:
            assert not any(evaluation.critic_slope.known for evaluation in evaluations[1:])


def _flat(values):
    values = values.detach() if hasattr(values, "detach") else values
    return np.asarray(values, np.float64).ravel()


def assert_equal_bit_for_bit(states):
    """Check that two state dicts, or parts of them, hold the same tensors and numbers."""
    mine, own = states
    if hasattr(own, "keys"):
        assert mine.keys() == own.keys()
        for name in own:
            assert_equal_bit_for_bit((mine[name], own[name]))
    elif isinstance(own, list | tuple):
        assert len(mine) == len(own)
        for pair in zip(mine, own, strict=True):
            assert_equal_bit_for_bit(pair)
    else:
        np.testing.assert_array_equal(*(each.detach() if hasattr(each, "detach") else each for each in states))


SHORTENING = {"name": "hindsight", "distance": 1e-9}
"""A rule that shortens every update: each goes further than that."""
