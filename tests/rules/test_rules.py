"""Rules by hand: each rule's numbers, step by step."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from adept.hindsight.estimates import UNKNOWN, Estimate
from adept.rules import (
    RULES,
    AdamRel,
    BanditRule,
    Feedback,
    HindsightRule,
    Hypergradient,
    KLRate,
    KLRateMinibatch,
    Rule,
    Settings,
    make_rule,
    rule_options,
)
from adept.schedulers import UCB, Fixed, GaussianThompson, RoundRobin

INF, NAN = math.inf, math.nan


def seen(slope_z=None, critic_slope=None, critic_slope_z=None, **known):
    """Feedback with slopes of these z."""
    slope = UNKNOWN if slope_z is None else Estimate(slope_z, 1.0)
    critic = UNKNOWN if critic_slope is None else Estimate(critic_slope, abs(critic_slope / critic_slope_z))
    return Feedback(slope=slope, critic_slope=critic, **known)


def lr_scales(rule, feedback):
    return [rule.step(each).lr_scale for each in feedback]


def test_hindsight_by_hand():
    rule = HindsightRule(10, gain=0.5, leak=0.1, deadband=1)
    assert rule.step(None) == Settings(10, 1.0)
    moved = math.tanh(1.0)  # Z = 3, two standard errors beyond the deadband
    x = 0.5 * moved
    assert rule.step(seen(slope_z=3.0)) == Settings(10, pytest.approx(math.exp(x)))
    # What moved x is spent: a sum of 3·(1 - t) of (1 - t) slopes is left, to which the next one is added.
    left = 1 - moved
    z = (3 * left - 0.5) / math.sqrt(left + 1)
    assert abs(z) < 1
    assert rule.step(seen(slope_z=-0.5)).lr_scale == pytest.approx(math.exp(0.9 * x))
    assert rule.diagnostics()["z"] == pytest.approx(z)


def test_a_step_that_the_loops_own_stop_ended_does_not_grow():
    rule = HindsightRule(10, gain=0.5, leak=0, deadband=1)
    assert lr_scales(rule, [seen(slope_z=5.0, stopped=True)] * 3) == [1.0] * 3
    assert lr_scales(rule, [seen(slope_z=-5.0, stopped=True)])[0] < 1
    # The slopes of 0 count: (0 + 0 + 0 - 5)/√4 = -2.5.
    assert rule.diagnostics()["z"] == -2.5


def test_faint_slopes_that_agree_add_up():
    rule = HindsightRule(10, gain=0.5, leak=0, deadband=1.5)
    # 0.6·√n is above 1.5 from n = 7 on: 0.6·√7 = 1.587.
    assert lr_scales(rule, [seen(slope_z=0.6)] * 6) == [1.0] * 6
    assert lr_scales(rule, [seen(slope_z=0.6)]) == pytest.approx([math.exp(0.5 * math.tanh(0.0875 / 2))], rel=1e-4)
    down = HindsightRule(10, gain=0.5, leak=0, deadband=1.5)
    assert lr_scales(down, [seen(slope_z=-0.6)] * 6) == [1.0] * 6
    assert lr_scales(down, [seen(slope_z=-0.6)])[0] < 1


def test_a_step_grows_the_less_the_nearer_its_kl_is_to_the_limit():
    full = 0.5 * math.tanh(1.0)
    for kl, share in ((None, 1.0), (0.0, 1.0), (0.02, 0.6), (0.05, 0.0)):
        rule = HindsightRule(10, gain=0.5, leak=0, deadband=1, kl_limit=0.05)
        assert lr_scales(rule, [seen(slope_z=3.0, kl=kl)]) == pytest.approx([math.exp(share * full)])
    shrinks = HindsightRule(10, gain=0.5, leak=0, deadband=1, kl_limit=0.05)
    assert lr_scales(shrinks, [seen(slope_z=-3.0, kl=0.04)]) == pytest.approx([math.exp(-full)])


def test_optimizing_for_compute_epochs_come_down_where_the_update_did_not_stop_short():
    rule = HindsightRule(10, optimize_for="compute", gain=0.4, leak=0, deadband=1, share=0.3, pace=0.5)
    assert rule.step(None) == Settings(10, 1.0)
    # Stopped short: x rises to 0.4, no epoch is saved.
    assert rule.step(seen(slope_z=50.0)) == Settings(10, pytest.approx(math.exp(0.4)))
    # 10·exp(-0.5) = 6.07, 10·exp(-1) = 3.7, 10·exp(-1.5) = 2.2, but 3 are the fewest. x stays within the deadband.
    for epochs in (6, 4, 3, 3):
        assert rule.step(seen(slope_z=0.0)) == Settings(epochs, pytest.approx(math.exp(0.4) * 10 / epochs))
    # Overshot: x falls, the epochs saved stay saved.
    assert rule.step(seen(slope_z=-50.0)) == Settings(3, pytest.approx(10 / 3))
    fewest = [_fewest(epochs) for epochs in (1, 2, 3, 4, 5, 8, 9, 10, 20)]
    assert fewest == [1, 2, 2, 2, 2, 2, 3, 3, 6]


def test_optimizing_for_compute_epochs_are_traded_at_once_as_far_as_the_learning_rate_allows():
    """10 epochs at 3e-4 become 3 at 1e-3, and at 5e-4 they become 5; at 1e-3 and with samples dear they stay."""
    for rate, epochs in ((3e-4, 3), (1e-5, 3), (5e-4, 5), (9e-4, 9), (1e-3, 10), (0.01, 10)):
        rule = HindsightRule(10, optimize_for="compute")
        rule.begin(rate)
        assert rule.step(None) == Settings(epochs, pytest.approx(10 / epochs))
    for rule in (HindsightRule(10), HindsightRule(10, optimize_for="compute", trade_rate=0.0)):
        rule.begin(3e-4)
        assert rule.step(None) == Settings(10, 1.0)
    four = HindsightRule(4, optimize_for="compute")
    four.begin(2e-4)
    assert four.step(None) == Settings(2, 2.0)


def test_no_epochs_are_saved_without_a_signal():
    rule = HindsightRule(10, optimize_for="compute")
    for evidence in (None, seen(), seen(kl=0.01), seen(slope_z=0.0, explained_variance=-0.5)):
        assert rule.step(evidence) == Settings(10, 1.0)


def _fewest(epochs):
    rule = HindsightRule(epochs, optimize_for="compute")
    return [rule.step(seen(slope_z=0.0)).epochs for _ in range(40)][-1]


def test_a_critic_that_explains_nothing_silences_the_slope():
    rule = HindsightRule(10, gain=0.3, leak=0, deadband=0)
    assert rule.wants_slope
    assert lr_scales(rule, [seen(slope_z=9.0, explained_variance=-40.0)] * 9) == [1.0] * 9
    assert not rule.wants_slope
    # From -1 (the least that counts) a fifth of the way to 1 each time: -0.6, -0.28, -0.024; below -0.25 it is blind.
    seeing = seen(slope_z=50.0, explained_variance=1.0)
    assert lr_scales(rule, [seeing] * 3) == pytest.approx([1.0, 1.0, math.exp(0.3)])
    assert rule.wants_slope
    # The guard counts all the same.
    blind = HindsightRule(10, gain=0.3, leak=0, deadband=1)
    guarded = lr_scales(blind, [seen(kl=1.0, explained_variance=-1.0)])
    assert guarded == pytest.approx([math.exp(0.3 * math.tanh(-1.0))])


def lags(slope, z=50.0, explained=None):
    return seen(critic_slope=slope, critic_slope_z=z, explained_variance=explained)


def test_a_critic_that_lags_gets_a_longer_lr_scale():
    rule = HindsightRule(10, leak=0.1, deadband=1)
    assert rule.step(seen(slope_z=0.0)) == Settings(10, 1.0, None)  # not known: the actor's
    # Sure of it: 1.5 times as far would have been right. Z = 50 is spent.
    assert rule.step(lags(0.5)) == Settings(10, 1.0, pytest.approx(1.5))
    # At most 4 times, at least half; and a tenth of y leaks away.
    assert rule.step(lags(9.0)).critic_lr_scale == pytest.approx(4 * 1.5**0.9)
    y = 0.9 * (math.log(4) + 0.9 * math.log(1.5)) - math.log(2)
    assert rule.step(lags(-3.0, -50.0)).critic_lr_scale == pytest.approx(math.exp(y))
    # Two standard errors beyond the deadband: tanh 1 of the way.
    fresh = HindsightRule(10, leak=0, deadband=1)
    assert fresh.step(lags(0.5, 3.0)).critic_lr_scale == pytest.approx(1.5 ** math.tanh(1.0))
    # It multiplies the actor's scale, and never falls below it.
    both = fresh.step(seen(slope_z=50.0, critic_slope=-9.0, critic_slope_z=-50.0))
    assert both == Settings(10, pytest.approx(math.exp(0.5)), pytest.approx(math.exp(0.5)))
    most = [fresh.step(lags(9.0)) for _ in range(9)][-1]
    assert most.critic_lr_scale == pytest.approx(32)


def test_slopes_of_the_critic_that_disagree_with_the_last_one_move_nothing():
    rule = HindsightRule(10, leak=0, deadband=1)
    for _ in range(3):
        before = rule.step(lags(0.2, 1.0))
    assert before.critic_lr_scale > 1
    # The sum of the slopes is still above the deadband, the last of them is below 0.
    assert rule.step(lags(-0.2, -0.1)) == before


def test_a_critic_that_gets_worse_comes_back_to_the_actors_lr_scale():
    """The unexplained share is 0.1, then 0.1·√2 (half of the way to twice), then far above its moving average."""
    rule = HindsightRule(10, gain=0.5, leak=0, deadband=1)
    assert rule.step(lags(0.5, explained=0.9)).critic_lr_scale == pytest.approx(1.5)
    assert rule.step(lags(0.5, explained=1 - 0.1 * math.sqrt(2))).critic_lr_scale == pytest.approx(1.5**1.5)
    worse = [rule.step(lags(0.5, explained=explained)).critic_lr_scale for explained in (0.5, 0.0)]
    assert worse == pytest.approx([1.5**1.5 * math.exp(-0.5), 1.0])


def test_the_critics_slope_does_not_count_while_it_is_blind_or_shares_the_lr_scale():
    blind = HindsightRule(10)
    assert blind.step(lags(2.0, explained=-1.0)) == Settings(10, 1.0, None)
    shared = HindsightRule(10, critic="shared")
    assert shared.step(lags(2.0)) == Settings(10, 1.0, None)
    compute = HindsightRule(10, optimize_for="compute", leak=0, pace=0.7)
    compute.step(lags(0.5))
    made = compute.step(seen(slope_z=0.0))
    assert (made.epochs, made.critic_lr_scale) == (5, pytest.approx(1.5 * 2))


def test_hindsights_guard():
    rule = HindsightRule(10, gain=0.3, leak=0.0, deadband=1)
    down = 0.3 * math.tanh(-1.0)  # Z = -3, two beyond the deadband, whatever was there before
    found = lr_scales(rule, [seen(slope_z=9.0, kl=0.051), seen(kl=INF), seen(slope_z=0.0, kl=0.05)])
    assert found == pytest.approx([math.exp(down), math.exp(2 * down), math.exp(2 * down)])
    assert [rule.stops(kl) for kl in (0.1, 0.11, NAN, INF)] == [False, True, True, True]
    assert not KLRate(3).stops(9.0)


def test_hindsight_stays_within_32():
    rule = HindsightRule(10, leak=0.0)
    assert max(lr_scales(rule, [seen(slope_z=50.0)] * 30)) == pytest.approx(32)
    assert min(lr_scales(rule, [seen(slope_z=-50.0)] * 60)) == pytest.approx(1 / 32)


@pytest.mark.parametrize("optimize_for", ["samples", "compute"])
def test_noise_keeps_the_lr_scale_within_a_factor_of_three(optimize_for):
    """With permuted advantages z is standard normal: within [⅓, 3] in at least 95 % of runs of 300 updates.

    when optimizing for compute, the scale is over the factor that makes up for the epochs saved.
    """
    rng, kept = np.random.default_rng(1), 0
    for _ in range(400):
        rule = HindsightRule(10, optimize_for=optimize_for)
        choices = [rule.step(seen(slope_z=z)) for z in rng.standard_normal(300)]
        kept += all(1 / 3 <= choice.lr_scale * choice.epochs / 10 <= 3 for choice in choices)
    assert kept / 400 >= 0.95


def test_noise_keeps_the_critic_within_a_factor_of_three():
    rng, kept = np.random.default_rng(1), 0
    for _ in range(200):
        rule = HindsightRule(10)
        noise = [seen(critic_slope=z, critic_slope_z=z, explained_variance=0.5) for z in rng.standard_normal(300)]
        kept += all(rule.step(each).critic_lr_scale <= 3 for each in noise)
    assert kept / 200 >= 0.95


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
    with pytest.raises(ValueError, match="multiplicative, additive"):
        Hypergradient(4, form="other")


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
    assert isinstance(make_rule({"name": "kl-rate", "target": 0.02}, epochs=3), Rule)
    with pytest.raises(ValueError, match=r"unknown scheduler or rule 'hindsigt'.*did you mean 'hindsight'"):
        make_rule("hindsigt", epochs=3)
    with pytest.raises(ValueError, match="did you mean 'target'"):
        make_rule({"name": "kl-rate", "tarjet": 0.02}, epochs=3)
    with pytest.raises(ValueError, match="samples, compute"):
        make_rule({"name": "hindsight", "optimize_for": "time"}, epochs=3)
    with pytest.raises(ValueError, match="own, shared"):
        make_rule({"name": "hindsight", "critic": "mine"}, epochs=3)
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
        ({"name": "hindsight", "dare": "samples"}, "unknown option of rule 'hindsight': 'dare'"),
        ({"name": "ucb", "windo": 3}, "unknown option of scheduler 'ucb': 'windo'.*did you mean 'window'"),
        (UCB(["a", "b"]), "a number of epochs must be a whole number"),
        ({"name": "ucb", "arms": []}, "arms must be one or more distinct"),
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
    stuck = UCB([3, 1], exploration=0.0, scale=None)
    stuck.step(None)
    assert logged(stuck) == {"arm_choices/3": 1.0, "arm_share/3": 1.0}
    stuck.step(2.0)
    assert logged(stuck) == {"arm_choices/3": 2.0, "arm_value/3": 2.0, "arm_score/3": 2.0, "arm_share/3": 1.0}


@pytest.mark.parametrize("kind", [UCB, GaussianThompson])
def test_an_arm_without_a_reward_has_no_value_in_the_log(kind):
    scheduler = kind([3, 2, 1])
    scheduler.step(None)
    scheduler.step(5.0)  # of arm 3; arm 2 is chosen
    numbers = logged(scheduler)
    assert {name for name in numbers if name.endswith("/2")} == {"arm_choices/2", "arm_share/2"}
    assert numbers["arm_value/3"] == 0.0, "a single reward is the mean of all"
    assert "arm_score/3" in numbers
