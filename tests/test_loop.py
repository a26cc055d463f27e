"""Hindsight in a loop of one's own."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import adept

REWARDS = torch.tensor([1.0, 0.0, 0.0, 0.0])


class Softmax(nn.Module):
    """A policy over four actions, whatever the state."""

    def __init__(self):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(4))

    def forward(self):
        return torch.log_softmax(self.logits, -1)


def run(iterations, learning_rate, rewards=REWARDS, **options):
    """Train by plain policy gradients on a bandit; return the policy's J and the settings."""
    generator = torch.Generator().manual_seed(0)
    policy = Softmax()
    hindsight = adept.Hindsight(policy, epochs=4, **options)
    settings = []
    for _ in range(iterations):
        with torch.no_grad():
            actions = torch.multinomial(policy().exp(), 512, replacement=True, generator=generator)
        got = rewards[actions] + torch.randn(512, generator=generator)
        chosen = hindsight.step(lambda actions=actions: policy()[actions], got.view(32, 16))
        settings.append(chosen)
        advantages = got - got.mean()
        for epoch in range(1, chosen.epochs + 1):
            gradient = torch.autograd.grad((policy()[actions] * advantages).mean(), policy.logits)[0]
            policy.logits.data += learning_rate * chosen.lr_scale * gradient
            hindsight.mark(epoch)
    return float(policy().exp().detach() @ REWARDS), settings, hindsight


def test_steps_that_stop_short_get_longer():
    monitored, settings, hindsight = run(60, 0.02, control=False)
    assert {(each.epochs, each.lr_scale) for each in settings} == {(4, 1.0)}
    assert hindsight.feedback is not None
    controlled, settings, _ = run(60, 0.02)
    assert settings[-1].lr_scale > 2
    assert controlled > monitored + 0.1


def test_a_critic_that_lags_gets_a_rate_of_its_own():
    """Returns are 10 and the critic moves from 0 by 1 each time: it should go ten times as far at first."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.policy, self.value = Softmax(), nn.Parameter(torch.zeros(()))

    both, rng = Both(), np.random.default_rng(0)
    hindsight = adept.Hindsight(both, epochs=4)
    settings, slopes = [], []
    for _ in range(4):
        actions, noise = rng.integers(0, 4, (32, 16)), rng.normal(size=(32, 16))
        predicted = float(both.value.detach())
        advantages = 10 + noise - predicted
        settings.append(hindsight.step(
            lambda actions=actions: both.policy()[torch.from_numpy(actions)].ravel(), advantages,
            values=np.full((32, 16), predicted), critic=lambda: both.value.expand(512),
        ))  # fmt: skip
        slopes.append(None if hindsight.feedback is None else hindsight.feedback.critic_slope.value)
        both.value.data += 1.0
        both.policy.logits.data += torch.from_numpy(rng.normal(size=4)) * 1e-3
    assert slopes == [None, *(pytest.approx(expected, abs=0.2) for expected in (9, 8, 7))]
    assert settings[0].critic_lr_scale is None
    factors = [each.critic_lr_scale / each.lr_scale for each in settings[1:]]
    assert factors == pytest.approx([4, 4 * 4**0.99, 32], rel=0.05)
    assert settings[1].critic_rate(1e-4) == pytest.approx(1e-4 * settings[1].critic_lr_scale)
    assert settings[0].critic_rate(1e-4) == 1e-4


def test_a_critic_that_explains_nothing_keeps_the_distance():
    policy, rng = Softmax(), np.random.default_rng(0)
    blind, seeing = adept.Hindsight(policy, epochs=4), adept.Hindsight(policy, epochs=4)
    advantages, returns = rng.normal(size=(2, 32, 16))
    actions = torch.from_numpy((advantages.ravel() > 0).astype(np.int64))
    for _ in range(8):
        # Var[R - V]/Var[R] is that of the advantages over that of V + A: 1 where V is 0, small where V is large.
        for hindsight, values in ((blind, -advantages / 2), (seeing, 10 * returns)):
            hindsight.step(lambda: policy()[actions], advantages, values=values)
        policy.logits.data += 0.01 * torch.tensor([-1.0, 1.0, 0.0, 0.0])
    assert blind.rule.diagnostics()["distance"] == pytest.approx(0.01)
    assert seeing.rule.diagnostics()["distance"] > 0.01


def test_optimizing_for_compute():
    _, settings, hindsight = run(60, 0.2, optimize_for="compute")
    assert hindsight.rule.options["optimize_for"] == "compute"
    assert {each.epochs for each in settings} == {3}
    assert hindsight.stops(1.0)
    assert not hindsight.stops(0.01)


def test_gains_are_measured_now_and_then():
    _, _, hindsight = run(11, 0.02, gains_every=10)
    assert hindsight.feedback is not None
    assert list(hindsight.feedback.gain_by_epoch) == [1, 2, 4]
    assert hindsight.feedback.gain_by_epoch[4].value == pytest.approx(hindsight.feedback.update_gain.value)
    _, _, hindsight = run(12, 0.02, gains_every=10)
    assert not hindsight.feedback.gain_by_epoch
    _, _, hindsight = run(12, 0.02, gains_every=0)
    assert not hindsight.feedback.update_gain.known


def test_without_a_signal_the_preset_stays():
    policy = Softmax()
    hindsight = adept.Hindsight(policy, epochs=4)
    for advantages in (np.zeros((8, 8)), np.full((8, 8), np.nan), np.zeros((1, 1))):
        found = hindsight.step(lambda count=advantages.size: policy()[torch.zeros(count, dtype=int)], advantages)
        policy.logits.data += 0.1
        assert found == adept.Settings(4)


def test_the_state_is_json_and_comes_back():
    _, _, hindsight = run(20, 0.02)
    state = json.loads(json.dumps(hindsight.state_dict()))
    other = adept.Hindsight(Softmax(), epochs=4)
    other.load_state_dict(state)
    assert other.state_dict() == hindsight.state_dict()
    assert other.rule.step(None) == hindsight.rule.step(None)


def test_monitoring_never_stops_an_update():
    assert not adept.Hindsight(Softmax(), control=False).stops(9.0)
