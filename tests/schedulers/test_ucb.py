"""ADEPT(U) by hand, as in the paper: argmax Q(K) + c·√(ln t / N(K)), N(K) = t = 1 and Q(K) = 0 at the start."""

from __future__ import annotations

import pytest

from adept import UCB

from .conftest import numbers

# c = 1, W = 2, arms 3, 2, 1. Each row: the reward of the previous choice, the scores of arms 3, 2, 1, the choice.
BY_HAND = [
    # t=1: ln 1 = 0, all scores 0: the tie goes to the first
    (None, (0.0, 0.0, 0.0), 3),
    # 3 gets 1.0: Q(3)=1, N(3)=2, t=2. 1+√(0.693147/2)=1+0.588705; √0.693147=0.832555
    (1.0, (1.588705, 0.832555, 0.832555), 3),
    # 3 gets −1.0: Q(3)=(1−1)/2=0, N(3)=3, t=3. √(1.098612/3)=0.605148; √1.098612=1.048147; 2 before 1
    (-1.0, (0.605148, 1.048147, 1.048147), 2),
    # 2 gets 0.5: Q(2)=0.5, N(2)=2, t=4. √(1.386294/3)=0.679778; 0.5+√(1.386294/2)=0.5+0.832555; √1.386294=1.177410
    (0.5, (0.679778, 1.332555, 1.177410), 2),
    # 2 gets 0.1: Q(2)=0.3, N(2)=3, t=5. √(1.609438/3)=0.732447; 0.3+0.732447; √1.609438=1.268636
    (0.1, (0.732447, 1.032447, 1.268636), 1),
    # 1 gets −1.0: Q(1)=−1, N(1)=2, t=6. √(1.791759/3)=0.772822; 0.3+0.772822; −1+√(1.791759/2)=−1+0.946509
    (-1.0, (0.772822, 1.072822, -0.053491), 2),
    # 2 gets 3.0: the window holds 0.1 and 3.0, Q(2)=1.55, N(2)=4, t=7.
    # √(1.945910/3)=0.805380; 1.55+√(1.945910/4)=1.55+0.697479; −1+√(1.945910/2)=−1+0.986385
    (3.0, (0.805380, 2.247479, -0.013615), 2),
    # nothing to credit: N, Q and t stay, and so does the choice
    (None, (0.805380, 2.247479, -0.013615), 2),
]


def test_decisions_and_scores_by_hand():
    scheduler = UCB([3, 2, 1], exploration=1.0, window=2)
    for reward, scores, choice in BY_HAND:
        assert scheduler.step(reward) == choice
        assert numbers(scheduler, "score") == pytest.approx(scores, abs=1e-6)


def test_exploration_multiplies_the_bonus_alone():
    # After 3 got 1.0: Q = 1, 0, 0 and c = 10: 1+10·0.588705=6.887050; 10·0.832555=8.325546: the bonus wins.
    scheduler = UCB([3, 2, 1], exploration=10.0, window=2)
    scheduler.step(None)
    assert scheduler.step(1.0) == 2
    assert numbers(scheduler, "score") == pytest.approx((6.887050, 8.325546, 8.325546), abs=1e-6)
    assert numbers(scheduler, "value") == [1.0, 0.0, 0.0]


def test_no_exploration_is_greedy():
    scheduler = UCB([3, 2, 1], exploration=0)
    assert [scheduler.step(reward) for reward in (None, -1.0, -1.0, -2.0, 5.0)] == [3, 2, 1, 3, 3]
    # 3 → −1, 2 → −1, 1 → −2; then 3 and 2 tie at −1 and the first is taken; it gets 5: (−1+5)/2 = 2


def test_credit_of_an_arm_that_was_not_chosen_counts_as_well():
    scheduler = UCB([3, 2, 1], exploration=1.0)
    scheduler.observe(1, 2.0)
    scheduler.observe(1, 4.0)
    # Q(1) = 3, N(1) = 3, t = 3: 3 + √(1.098612/3) = 3.605148; the others √1.098612 = 1.048147
    assert numbers(scheduler, "score") == pytest.approx((1.048147, 1.048147, 3.605148), abs=1e-6)


@pytest.mark.parametrize("exploration", [-0.1, -1, float("nan"), float("inf"), 1e101, "1", True, 10**400])
def test_exploration_is_a_number_from_zero(exploration):
    with pytest.raises(ValueError, match=r"exploration must be a number ≥ 0 and ≤ 1e\+100, got .*; for example 5"):
        UCB([3, 2, 1], exploration=exploration)


@pytest.mark.parametrize("window", [0, -1, 1.0, 2.5, "10", None, True, 10**30])
def test_window_is_a_whole_number_from_one(window):
    with pytest.raises(ValueError, match=r"window must be a whole number ≥ 1 and ≤ \d+, got .*; for example 10"):
        UCB([3, 2, 1], window=window)
