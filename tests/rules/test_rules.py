"""Rules by hand: each rule's numbers, step by step."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from adept.hindsight.estimates import Estimate
from adept.rules import (
    RULES,
    AdamRel,
    BanditRule,
    Feedback,
    HindsightRule,
    Hypergradient,
    KLRate,
    KLRateMinibatch,
    Settings,
    make_rule,
    rule_options,
)
from adept.schedulers import UCB, Fixed, RoundRobin, StandardizedThompson, StandardizedUCB
from tests.rules.test_hindsight import lr_scales, seen

INF, NAN = math.inf, math.nan


def test_kl_rate_by_hand():
    rule = KLRate(3, target=0.01)
    kls = (0.021, 0.02, 0.005, 0.0049, 0.0049, 0.0, None, NAN, INF)
    expected = [1 / 1.5, 1 / 1.5, 1 / 1.5, 1.0, 1.5, 1.5, 1.5, 1.5, 1.0]
    assert lr_scales(rule, [seen(kl=kl) for kl in kls]) == pytest.approx(expected)
    assert rule.step(None).epochs == 3
    assert lr_scales(KLRate(3), [seen(kl=1e-4)] * 20)[-1] == 32
    assert lr_scales(KLRate(3), [seen(kl=1.0)] * 20)[-1] == 1 / 32


def adapted(rule, steps, rate=1e-3):
    """Return the learning rates of gradient steps, each given as (KL, gradient, direction of the step before)."""
    rates = []
    for kl, gradient, direction in steps:
        vector = None if direction is None else np.array(direction)
        rate = rule.adapt(rate, kl=kl, gradient=np.array(gradient), direction=vector)
        rates.append(rate)
    return rates


def by_kl(rule, *kls, rate=1e-3):
    return adapted(rule, [(kl, [1.0], None) for kl in kls], rate)


def test_kl_rate_by_minibatch_by_hand():
    rule = KLRateMinibatch(3, target=0.01)
    # Far below, within a factor 2 on both sides, above twice the target, not known, infinite.
    rates = by_kl(rule, 0.0, 0.005, 0.02, 0.0201, 0.0049, NAN, INF)
    assert rates == pytest.approx([1.5e-3, 1.5e-3, 1.5e-3, 1e-3, 1.5e-3, 1.5e-3, 1e-3])
    by_kl(rule, 0.001, 0.001)
    assert rule.step(Feedback(kl=9.0)) == Settings(3, pytest.approx(1.5**2))  # an update's KL does not count
    assert by_kl(KLRateMinibatch(3), *[1e-4] * 9)[-1] == 1e-2
    assert by_kl(KLRateMinibatch(3), *[1.0] * 20)[-1] == 1e-5
    # Beyond the bounds a step in the other direction comes back to them, as in rsl_rl.
    assert by_kl(KLRateMinibatch(3), 1e-4, rate=0.03) == [1e-2]
    assert by_kl(KLRateMinibatch(3), 1.0, rate=1e-6) == [1e-5]
    assert by_kl(KLRateMinibatch(3, target=0.02), 0.0201, 0.0401) == pytest.approx([1e-3, 1e-3 / 1.5])


def test_hypergradient_by_hand():
    # ⟨g, u⟩ = -3 with lengths 5 and 1, then 8 with 5 and 2, then 0; before the first step there is no direction.
    steps = [
        (0, [3.0, 4.0], None),
        (0, [3.0, 4.0], [-1.0, 0.0]),
        (0, [3.0, 4.0], [0.0, 2.0]),
        (0, [1.0, 0.0], [0.0, 1.0]),
    ]
    one, two = 1e-3 * (1 + 0.02 * 0.6), 1e-3 * (1 + 0.02 * 0.6) * (1 - 0.02 * 0.8)
    rule = Hypergradient(4)
    assert adapted(rule, steps) == pytest.approx([1e-3, one, two, two], rel=1e-12)
    assert rule.step(None) == Settings(4, pytest.approx(two / 1e-3))
    additive = Hypergradient(4, form="additive", beta=1e-5)
    assert adapted(additive, steps) == pytest.approx([1e-3, 1.03e-3, 0.95e-3, 0.95e-3])
    # A gradient of nothing and one that is not finite leave the rate; bounds hold.
    silent = [(0, [0.0, 0.0], [1.0, 0.0]), (0, [NAN, 0.0], [1.0, 0.0])]
    assert adapted(Hypergradient(4), silent) == [1e-3, 1e-3]
    back, on = [(0, [1.0], [1.0])] * 3, [(0, [1.0], [-1.0])] * 500
    assert adapted(Hypergradient(4, form="additive", beta=0.5), back)[-1] == 1e-8
    assert adapted(Hypergradient(4), on)[-1] == 0.1


def test_adam_rel_leaves_epochs_and_rate():
    rule = AdamRel(3)
    assert rule.resets_steps
    assert rule.step(Feedback(kl=1.0)) == Settings(3, 1.0)
    assert by_kl(rule, 1.0, 0.0) == [1e-3, 1e-3]


@pytest.fixture(params=sorted(RULES))
def name(request):
    return request.param


FEEDBACK = [
    seen(1.5, 0.4, 2.5, kl=0.004, clip_fraction=0.1, explained_variance=0.5),
    seen(slope_z=-0.3, kl=0.06),
    seen(kl=0.001),
]


def test_a_state_goes_through_json_and_continues(name):
    one, other = make_rule(name, epochs=5), make_rule(name, epochs=5)
    for each in FEEDBACK:
        one.step(each)
    other.load_state_dict(json.loads(json.dumps(one.state_dict(), allow_nan=False)))
    assert other.state_dict() == one.state_dict()
    assert [one.step(each) for each in FEEDBACK] == [other.step(each) for each in FEEDBACK]


def test_a_state_that_does_not_fit_changes_nothing(name):
    rule = make_rule(name, epochs=5)
    rule.step(FEEDBACK[0])
    good = rule.state_dict()
    old = {"controller": "Hindsight", **{key: good[key] for key in ("epochs", "options")}, "rule": good["state"]}
    foreign = [
        {},
        old,
        {**good, "epochs": 6},
        {**good, "rule": "Other"},
        {**good, "options": {**good["options"], "target": 9.0}},
        {**good, "state": {"unknown": 1.0}},
        {**good, "state": {**good["state"], "unknown": 1.0}},
        [],
        None,
    ]
    for state in foreign:
        with pytest.raises(ValueError, match="nothing was changed"):
            rule.load_state_dict(state)
        assert rule.state_dict() == good


def test_what_is_not_finite_counts_as_not_known(name):
    for bad in (NAN, INF, -INF):
        rule, silent = make_rule(name, epochs=5), make_rule(name, epochs=5)
        kl = NAN if bad == INF else bad
        strange = Estimate(bad, bad)
        known = Feedback(strange, strange, strange, {1: strange}, kl=kl, clip_fraction=bad, explained_variance=bad)
        assert (known.kl, known.clip_fraction, known.explained_variance) == (None, None, None)
        assert rule.step(known) == silent.step(Feedback())
        assert rule.state_dict() == silent.state_dict()
    assert Feedback(kl=INF).kl == INF


def test_nothing_known_is_the_start(name):
    rule = make_rule(name, epochs=5)
    assert {rule.step(None) for _ in range(3)} == {Settings(5, 1.0)}


def test_names_and_options():
    with pytest.raises(ValueError, match="epochs must be a whole number"):
        make_rule("hindsight", epochs=0)
    assert repr(KLRate(3)) == "KLRate(3, target=0.01, factor=1.5, band=2.0, furthest=32.0)"
    assert rule_options(KLRate) == ["target", "factor", "band", "furthest"]
    assert HindsightRule.needs_slope
    assert not KLRate.needs_slope


@pytest.mark.parametrize(
    ("given", "epochs", "shown"),
    [
        ("ucb", 10, "UCB([10, 5, 1], exploration=5.0, window=10)"),
        ("round-robin", 2, "RoundRobin([2, 1])"),
        ("thompson", 1, "GaussianThompson([1], step_size=1.0, window=50)"),
        ([5, 1], 10, "StandardizedUCB([5, 1], exploration=1.0, window=10)"),
        ((5, 1), 10, "StandardizedUCB([5, 1], exploration=1.0, window=10)"),
        ("standardized-ucb", 4, "StandardizedUCB([4, 2, 1], exploration=1.0, window=10)"),
        ({"arms": [3, 2], "window": 20, "seed": 1}, 4, "StandardizedUCB([3, 2], exploration=1.0, window=20)"),
        ({"name": "adept.schedulers.ucb:UCB"}, 2, "UCB([2, 1], exploration=5.0, window=10)"),
        ({"name": "kl-rate", "target": 0.05}, 4, "KLRate(4, target=0.05, factor=1.5, band=2.0, furthest=32.0)"),
        ({"name": "kl-rate", "epochs": 2}, 4, "KLRate(2, target=0.01, factor=1.5, band=2.0, furthest=32.0)"),
        (Fixed(3), 10, "Fixed(3)"),
        (KLRate(7), 10, "KLRate(7, target=0.01, factor=1.5, band=2.0, furthest=32.0)"),
    ],
    ids=str,
)  # fmt: skip
def test_rules_from_data(given, epochs, shown):
    assert repr(make_rule(given, epochs=epochs)) == shown


def test_arms_of_the_host_are_for_a_scheduler_that_names_none():
    assert make_rule("round-robin", epochs=4, arms=(3, 2)).scheduler.arms == (3, 2)
    assert make_rule({"name": "round-robin", "arms": [5, 1]}, epochs=4, arms=(3, 2)).scheduler.arms == (5, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("usb", "unknown scheduler or rule 'usb', .*did you mean 'ucb'"),
        ("hindsigt", "unknown scheduler or rule 'hindsigt'.*did you mean 'hindsight'"),
        ({"name": "kl-rate", "tarjet": 0.02}, "did you mean 'target'"),
        ({"name": "hindsight", "optimize_for": "time"}, "samples, compute"),
        ({"name": "hindsight", "critic": "mine"}, "own, shared"),
        ({"name": "hypergradient", "form": "other"}, "multiplicative, additive"),
        ({"name": "hindsight", "dare": "samples"}, "unknown option of rule 'hindsight': 'dare'"),
        ({"name": "ucb", "windo": 3}, "unknown option of scheduler 'ucb': 'windo'.*did you mean 'window'"),
        (UCB(["a", "b"]), "a number of epochs must be a whole number"),
        ({"name": "ucb", "arms": []}, "arms must be a list of one or more distinct"),
        (7, "a rule is a Rule, a Scheduler, a name"),
        (b"ucb", "a rule is a Rule, a Scheduler, a name"),
        ({1: 2}, "a rule is a Rule, a Scheduler, a name"),
        ({"name": 5}, "a scheduler's name must be text, got 5"),
        ({"name": "ucb", "seed": -1}, "seed must be a whole number"),
    ],
    ids=str,
)
def test_what_is_no_rule(given, message):
    with pytest.raises(ValueError, match=message):
        make_rule(given, epochs=4)


def test_a_bandit_is_credited_with_the_reward_and_sets_the_epochs():
    rule, twin = BanditRule(UCB([4, 2, 1], exploration=0.0)), UCB([4, 2, 1], exploration=0.0)
    rewards = [None, -1.0, 2.0, 3.0, None]
    feedback = [None if reward is None else Feedback(reward=reward, kl=9.0) for reward in rewards]
    assert [rule.step(each) for each in feedback] == [Settings(twin.step(reward)) for reward in rewards]
    assert rule.state_dict() == twin.state_dict()
    assert rule.columns(Settings(4)) == {f"arm_{name}": value for name, value in twin.diagnostics().items()}
    again = BanditRule(UCB([4, 2, 1], exploration=0.0))
    again.load_state_dict(json.loads(json.dumps(rule.state_dict())))
    assert again.state_dict() == rule.state_dict()
    with pytest.raises(ValueError, match="nothing was changed"):
        again.load_state_dict(KLRate(3).state_dict())
    with pytest.raises(ValueError, match="a reward must be a finite number"):
        rule.step(Feedback(reward=NAN))
    assert (rule.epochs, rule.needs_reward, rule.stops(9.0)) == (4, True, False)


def logged(scheduler):
    return BanditRule(scheduler).metrics(Settings(3))


def test_an_arm_that_was_never_tried_is_not_logged_and_shares_stand_beside_counts():
    scheduler = RoundRobin([3, 2, 1])
    for _ in range(4):
        scheduler.step(None)
    assert logged(scheduler) == {
        "arm_choices/3": 2.0, "arm_choices/2": 1.0, "arm_choices/1": 1.0,
        "arm_share/3": 0.5, "arm_share/2": 0.25, "arm_share/1": 0.25,
    }  # fmt: skip
    assert logged(RoundRobin([3, 2])) == {}
    stuck = UCB([3, 1], exploration=0.0)
    stuck.step(None)
    assert logged(stuck) == {"arm_choices/3": 1.0, "arm_share/3": 1.0}
    stuck.step(2.0)
    assert logged(stuck) == {"arm_choices/3": 2.0, "arm_value/3": 2.0, "arm_score/3": 2.0, "arm_share/3": 1.0}


@pytest.mark.parametrize("kind", [StandardizedUCB, StandardizedThompson])
def test_an_arm_without_a_reward_has_no_value_in_the_log(kind):
    scheduler = kind([3, 2, 1])
    scheduler.step(None)
    scheduler.step(5.0)  # of arm 3; arm 2 is chosen
    numbers = logged(scheduler)
    assert {name for name in numbers if name.endswith("/2")} == {"arm_choices/2", "arm_share/2"}
    assert numbers["arm_value/3"] == 0.0, "a single reward is the mean of all"
    assert "arm_score/3" in numbers
