"""Rules on feedback without a signal: the band by hand, and rules that must pass or fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from adept import RULES, Feedback, Rule, Settings, make_rule
from adept.probe.distances import NOISES, LRScales, course, lr_scales, permuted_rollouts


class Wanderer(Rule):
    """An early rule without a leak: it adds up noise."""

    needs_slope = True
    saved = ("x",)
    _x = 0.0

    def step(self, feedback: Feedback | None) -> Settings:
        if feedback is not None:
            assert feedback.slope.known
            self._x += 0.3 * math.tanh(feedback.slope.z / 2)
        return Settings(self.epochs, math.exp(self._x))


def test_a_run_is_inside_only_if_it_never_left_the_band():
    found = LRScales(np.array([[1.0, 2.9, 0.34], [1.0, 3.1, 1.0], [0.3, 1.0, 1.0], [1.0, 1.0, 1.0]]))
    assert found.inside == 0.5
    assert not found.passed
    assert LRScales(np.array([[3.0, 1 / 3]])).passed


@pytest.mark.parametrize("noise", NOISES)
def test_slopes_without_a_signal_have_mean_zero_and_variance_one(noise: str):
    z = permuted_rollouts() if noise == "permuted" else NOISES[noise](np.random.default_rng(1), 2000)
    assert abs(z.mean()) < 4 / math.sqrt(2000)
    assert z.var() == pytest.approx(1, abs=0.15)


def test_a_rule_that_adds_up_noise_fails(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(RULES, "wanderer", Wanderer)
    assert not lr_scales("wanderer", 10, {}, "normal", runs=40).passed


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("options", [{"optimize_for": "samples"}, {"optimize_for": "compute"}], ids=str)
def test_hindsight_passes(noise: str, options: dict[str, Any]):
    assert lr_scales("hindsight", 10, options, noise).passed


def test_a_rule_that_goes_by_the_kl_passes():
    assert lr_scales("kl-rate", 10, {}, "normal", runs=40).passed


def test_a_course_is_relative_to_its_start():
    rng = np.random.default_rng(1)
    found = course(
        make_rule({"name": "hindsight", "optimize_for": "compute"}, epochs=10), NOISES["normal"](rng, 1), rng
    )
    assert 0.5 < found[0] < 2, "the scale itself starts above 3"
