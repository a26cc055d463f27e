"""The ablations differ from the rule in the one part that they name."""

from __future__ import annotations

import math

import pytest

from adept.hindsight.estimates import Estimate
from adept.rules import Feedback, HindsightRule
from experiments.controller.trials import SETTINGS
from experiments.controller.variants import VARIANTS, recorded_slopes

SHORT = Feedback(slope=Estimate(9.0, 1.0), kl=0.0025, epochs_done=10, explained_variance=0.05)
BLIND = Feedback(slope=Estimate(9.0, 1.0), kl=0.0025, epochs_done=10, explained_variance=-1.0)


def moved(name, feedback):
    """Return the distance and the scale after one update."""
    rule = VARIANTS[name](10)
    scale = rule.step(feedback).lr_scale
    return rule.diagnostics()["distance"], scale


def test_every_setting_names_a_rule_or_a_variant():
    assert {rule for rule, _ in SETTINGS.values()} - VARIANTS.keys() == {
        "fixed", "kl-rate-minibatch", "hypergradient", "hindsight",
    }  # fmt: skip
    assert VARIANTS.keys() <= {rule for rule, _ in SETTINGS.values()}


def test_what_each_variant_leaves_out():
    longer = 0.01 * math.exp(0.5 * math.tanh(3.75))  # Z = 9, 7.5 beyond the deadband
    whole = HindsightRule(10)
    scale = whole.step(SHORT).lr_scale
    assert (whole.diagnostics()["distance"], scale) == (pytest.approx(longer), pytest.approx((longer / 0.0025) ** 0.35))
    assert moved("no-slopes", SHORT) == (pytest.approx(0.01), pytest.approx(4**0.35))
    assert moved("seeing-critic", SHORT) == (pytest.approx(0.01), pytest.approx(4**0.35))
    assert moved("critic-alone", SHORT) == (pytest.approx(longer), 1.0)
    assert moved("blind-holds", BLIND) == (pytest.approx(0.01), 1.0)
    assert moved("blind-holds", SHORT) == (pytest.approx(longer), pytest.approx(scale))


def test_repeats_epochs_and_ends():
    assert VARIANTS["no-repeats"](10).repeat(1e-6) is None
    assert VARIANTS["closer-repeats"](10).repeat(0.004) == pytest.approx(math.sqrt(0.01 / 0.004))
    assert HindsightRule(10).repeat(0.004) is None
    shares = [VARIANTS[name](10, optimize_for="compute").step(None).epochs for name in ("fewer-epochs", "half-epochs")]
    assert shares == [3, 5]


def test_other_slopes_are_those_of_a_recorded_run():
    slopes = recorded_slopes()
    assert len(slopes) == 72
    rule, told = VARIANTS["other-slopes"](10), HindsightRule(10)
    for slope in slopes[:5]:
        rule.step(SHORT)
        told.step(Feedback(slope=Estimate(slope, 1.0), kl=0.0025, epochs_done=10, explained_variance=0.05))
    assert rule.diagnostics() == told.diagnostics()
