"""The hindsight rule by hand: distance, learning rate, first update, guard and critic, step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adept.hindsight.estimates import UNKNOWN, Estimate
from adept.rules import Feedback, HindsightRule, KLRate, Settings

INF, NAN = math.inf, math.nan


def seen(slope_z=None, critic_slope=None, critic_slope_z=None, **known):
    """Feedback with slopes of these z."""
    slope = UNKNOWN if slope_z is None else Estimate(slope_z, 1.0)
    critic = UNKNOWN if critic_slope is None else Estimate(critic_slope, abs(critic_slope / critic_slope_z))
    return Feedback(slope=slope, critic_slope=critic, **known)


def distances(rule, feedback):
    found = []
    for each in feedback:
        rule.step(each)
        found.append(rule.diagnostics()["distance"])
    return found


def lr_scales(rule, feedback):
    return [rule.step(each).lr_scale for each in feedback]


def test_slopes_move_the_distance():
    rule = HindsightRule(10, gain=0.5, leak=0.1, deadband=1)
    assert rule.step(None) == Settings(10, 1.0)
    moved = math.tanh(1.0)  # Z = 3, two standard errors beyond the deadband
    assert distances(rule, [seen(3.0)]) == pytest.approx([0.01 * math.exp(0.5 * moved)])
    # What moved it is spent: a sum of 3·(1 - t) of (1 - t) slopes is left, to which the next one is added.
    left = 1 - moved
    z = (3 * left - 0.5) / math.sqrt(left + 1)
    assert abs(z) < 1
    assert distances(rule, [seen(-0.5)]) == pytest.approx([0.01 * math.exp(0.9 * 0.5 * moved)])
    assert rule.diagnostics()["z"] == pytest.approx(z)
    assert rule.step(seen(0.0)).lr_scale == 1.0, "without a KL the learning rate has nothing to follow"


def test_faint_slopes_that_agree_add_up():
    rule = HindsightRule(10, gain=0.5, leak=0, deadband=1.5)
    # 0.6·√n is above 1.5 from n = 7 on: 0.6·√7 = 1.587.
    assert distances(rule, [seen(0.6)] * 6) == pytest.approx([0.01] * 6)
    assert distances(rule, [seen(0.6)]) == pytest.approx([0.01 * math.exp(0.5 * math.tanh(0.0875 / 2))], rel=1e-4)


def test_the_distance_stays_within_its_range():
    rule = HindsightRule(10, distance=0.02, max_factor=2.0, leak=0)
    assert max(distances(rule, [seen(50.0)] * 9)) == pytest.approx(0.04)
    assert min(distances(rule, [seen(-50.0)] * 9)) == pytest.approx(0.01)


def test_a_step_that_the_loops_own_stop_ended_does_not_grow():
    rule = HindsightRule(10, gain=0.5, leak=0, deadband=1)
    assert distances(rule, [seen(5.0, stopped=True)] * 3) == pytest.approx([0.01] * 3)
    assert distances(rule, [seen(-5.0, stopped=True)])[0] < 0.01
    # The slopes of 0 count: (0 + 0 + 0 - 5)/√4 = -2.5.
    assert rule.diagnostics()["z"] == -2.5


def test_a_critic_that_explains_nothing_silences_the_slope():
    rule = HindsightRule(10, gain=0.3, leak=0, deadband=0)
    assert rule.wants_slope
    assert distances(rule, [seen(9.0, explained_variance=-40.0)] * 9) == pytest.approx([0.01] * 9)
    assert not rule.wants_slope
    # From -1 (the least that counts) a fifth of the way to 1 each time: -0.6, -0.28, -0.024; below -0.25 it is blind.
    seeing = seen(50.0, explained_variance=1.0)
    assert distances(rule, [seeing] * 3) == pytest.approx([0.01, 0.01, 0.01 * math.exp(0.3)])
    # The learning rate follows the KL all the same.
    blind = HindsightRule(10, follow=1)
    assert lr_scales(blind, [seen(kl=0.0025, explained_variance=-1.0)]) == pytest.approx([2.0])


def test_the_learning_rate_follows_the_distance():
    """KL 0.04 is 4 × too far, the rate 2 × too large; 0.0025 the other way round; half of that with follow=½."""
    assert lr_scales(HindsightRule(10, follow=1), [seen(kl=0.04), seen(kl=0.01)]) == pytest.approx([0.5, 0.5])
    assert lr_scales(HindsightRule(10, follow=0.5), [seen(kl=0.0025)]) == pytest.approx([math.sqrt(2)])
    # Between two updates at most × 4 and ÷ 10, also for a KL of nothing or without bounds.
    assert lr_scales(HindsightRule(10, follow=1), [seen(kl=0.0)]) == pytest.approx([4.0])
    assert lr_scales(HindsightRule(10, follow=1), [seen(kl=INF)]) == pytest.approx([0.1])
    # A schedule at a quarter of the learning rate asks for a quarter of the KL.
    assert lr_scales(HindsightRule(10, follow=1), [seen(kl=0.01, lr_decay=0.25)]) == pytest.approx([0.5])
    # An update that was cut short says nothing upwards.
    short = HindsightRule(10, follow=1)
    found = lr_scales(short, [seen(kl=0.0025, epochs_done=4), seen(kl=0.04, epochs_done=4)])
    assert found == pytest.approx([1.0, 0.5])


@pytest.mark.parametrize(
    ("rate", "first", "most"), [(1e-3, 1.0, 10.0), (3e-4, 1.0, 100 / 3), (0.004, 0.25, 2.5), (0.03, 1 / 30, 1 / 3)]
)
def test_the_learning_rate_begins_within_a_thousandth_and_stays_within_a_hundredth(rate, first, most):
    rule = HindsightRule(10)
    rule.begin(rate)
    assert rule.step(None).lr_scale == pytest.approx(first)
    assert max(lr_scales(rule, [seen(kl=1e-6)] * 9)) == pytest.approx(most)


def test_a_first_update_that_is_far_off_is_made_again():
    """KL 1e-5 is 1000 × too short: rate × √1000, at most × 30; then 0.0016: × 2.5; then 0.01 stands."""
    rule = HindsightRule(10)
    rule.step(None)
    assert [rule.repeat(kl) for kl in (1e-5, 0.0016, 0.01)] == [pytest.approx(30), pytest.approx(2.5), None]
    # Once it stands, no later update is made again, and the scale is kept.
    assert rule.repeat(1e-5) is None
    assert rule.step(seen(kl=0.01)).lr_scale == pytest.approx(75)
    # A KL within a factor 4 stands; a larger one is made again with a smaller step; at most three times.
    assert [HindsightRule(10).repeat(kl) for kl in (0.0026, 0.039)] == [None, None]
    assert HindsightRule(10).repeat(0.09) == pytest.approx(1 / 3)
    assert HindsightRule(10).repeat(NAN) == pytest.approx(1 / 30)
    again = HindsightRule(10)
    assert [again.repeat(0.09) for _ in range(4)] == [pytest.approx(1 / 3)] * 3 + [None]
    # No further than the bound on the learning rate, and not at all where that leaves less than × 1.5.
    bound = HindsightRule(10)
    bound.begin(2e-3)
    assert [bound.repeat(1e-5), bound.repeat(1e-4)] == [pytest.approx(10.0), None]  # from 0.001 to 0.01
    # Feedback means that an update was made: none is the first any more.
    late = HindsightRule(10)
    late.step(seen(kl=0.01))
    assert late.repeat(1e-6) is None


def test_the_guard_makes_an_epoch_again_with_a_smaller_rate():
    rule = HindsightRule(10)
    assert [rule.stops(kl) for kl in (0.1, 0.11, NAN, INF)] == [False, True, True, True]
    assert not KLRate(3).stops(9.0)
    # ÷ √(KL/0.025), at least 2 and at most 10.
    factors = [rule.retry(kl) for kl in (0.225, 0.025, 9.0, NAN)]
    assert factors == pytest.approx([1 / 3, 1 / 2, 1 / 10, 1 / 10])
    assert [rule.retry(0.2) is None for _ in range(2)] == [False, True]
    assert KLRate(3).retry(1.0) is None
    # The scale stays where the last try had it, and every update may try again.
    again = HindsightRule(10)
    again.retry(0.225)
    assert again.step(seen(kl=0.01)).lr_scale == pytest.approx(1 / 3)


@pytest.mark.parametrize(("epochs", "made"), [(1, 3), (3, 3), (4, 3), (10, 4), (20, 8), (30, 12)])
def test_optimizing_for_compute_makes_fewer_epochs_from_the_first_update_on(epochs, made):
    rule = HindsightRule(epochs, optimize_for="compute")
    assert [rule.step(each).epochs for each in (None, seen(50.0, kl=0.01), seen(-50.0, kl=0.01))] == [made] * 3
    assert HindsightRule(epochs).step(None).epochs == {1: 8, 3: 8}.get(epochs, epochs)


def lags(slope, z=50.0, explained=None):
    return seen(critic_slope=slope, critic_slope_z=z, explained_variance=explained)


def test_a_critic_that_lags_gets_a_larger_learning_rate():
    rule = HindsightRule(10, leak=0.1, deadband=1)
    assert rule.step(seen(0.0)) == Settings(10, 1.0, None)  # not known: the actor's
    # Significant: 1.5 times as far would have been right. Z = 50 is spent.
    assert rule.step(lags(0.5)) == Settings(10, 1.0, pytest.approx(1.5))
    # At most 4 times, at least half; and a tenth of y leaks away.
    assert rule.step(lags(9.0)).critic_lr_scale == pytest.approx(4 * 1.5**0.9)
    y = 0.9 * (math.log(4) + 0.9 * math.log(1.5)) - math.log(2)
    assert rule.step(lags(-3.0, -50.0)).critic_lr_scale == pytest.approx(math.exp(y))
    # Two standard errors beyond the deadband: tanh 1 of the way.
    fresh = HindsightRule(10, leak=0, deadband=1, follow=1)
    assert fresh.step(lags(0.5, 3.0)).critic_lr_scale == pytest.approx(1.5 ** math.tanh(1.0))
    # It multiplies the actor's scale, and never falls below it.
    both = fresh.step(seen(critic_slope=-9.0, critic_slope_z=-50.0, kl=0.0025))
    assert both == Settings(10, pytest.approx(2.0), pytest.approx(2.0))
    most = [fresh.step(lags(9.0)) for _ in range(9)][-1]
    assert most.critic_lr_scale == pytest.approx(2 * 32)


def test_slopes_of_the_critic_that_disagree_with_the_last_one_move_nothing():
    rule = HindsightRule(10, leak=0, deadband=1)
    for _ in range(3):
        before = rule.step(lags(0.2, 1.0))
    assert before.critic_lr_scale > 1
    # The sum of the slopes is still above the deadband, the last of them is below 0.
    assert rule.step(lags(-0.2, -0.1)) == before


def test_a_critic_that_gets_worse_comes_back_to_the_actors_learning_rate():
    """The unexplained share is 0.1, then 0.1·√2 (half of the way to twice), then far above its moving average."""
    rule = HindsightRule(10, gain=0.5, leak=0, deadband=1)
    assert rule.step(lags(0.5, explained=0.9)).critic_lr_scale == pytest.approx(1.5)
    assert rule.step(lags(0.5, explained=1 - 0.1 * math.sqrt(2))).critic_lr_scale == pytest.approx(1.5**1.5)
    worse = [rule.step(lags(0.5, explained=explained)).critic_lr_scale for explained in (0.5, 0.0)]
    assert worse == pytest.approx([1.5**1.5 * math.exp(-0.5), 1.0])


def test_the_critics_slope_does_not_count_while_it_is_blind_or_shares_the_learning_rate():
    assert HindsightRule(10).step(lags(2.0, explained=-1.0)) == Settings(10, 1.0, None)
    assert HindsightRule(10, critic="shared").step(lags(2.0)) == Settings(10, 1.0, None)


def test_noise_keeps_the_distance_within_a_factor_of_three():
    """With permuted advantages z is standard normal: within [⅓, 3] in at least 95 % of runs of 300 updates."""
    rng, kept = np.random.default_rng(1), 0
    for _ in range(400):
        rule = HindsightRule(10, max_factor=1000.0)
        found = distances(rule, [seen(z) for z in rng.standard_normal(300)])
        kept += all(0.01 / 3 <= each <= 0.03 for each in found)
    assert kept / 400 >= 0.95


def test_noise_keeps_the_critic_within_a_factor_of_three():
    rng, kept = np.random.default_rng(1), 0
    for _ in range(200):
        rule = HindsightRule(10)
        noise = [seen(critic_slope=z, critic_slope_z=z, explained_variance=0.5) for z in rng.standard_normal(300)]
        kept += all(rule.step(each).critic_lr_scale <= 3 for each in noise)
    assert kept / 200 >= 0.95
