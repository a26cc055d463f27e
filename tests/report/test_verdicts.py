"""Whether adaptive methods earn their keep, and which K to use, on studies whose answer is known."""

from __future__ import annotations

import pytest
from synthetic import write_study

from adept.report.analysis import analyze
from adept.report.loading import load_comparison
from adept.report.verdicts import keep_verdicts, which_epochs

TASK = "minigrid/DoorKey-6x6"


def fixed(epochs, final):
    return (f"fixed-{epochs}", f"K={epochs}", {"scheduler": "fixed", "epochs": epochs}, final, 0.3)


def ucb(final, arms=(4, 2, 1)):
    return ("ucb", "U", {"scheduler": "ucb", "arms": list(arms)}, final, 0.3)


def study(tmp_path, *methods, seeds=8):
    write_study(tmp_path, methods, [TASK], range(1, seeds + 1), iterations=20)
    return analyze(load_comparison([tmp_path]), resamples=400)


def verdict(analysis):
    (found,) = keep_verdicts(analysis)
    return found


def test_better_than_the_best_fixed_k_of_its_compute_earns(tmp_path):
    found = verdict(study(tmp_path, fixed(4, 0.8), fixed(2, 0.79), fixed(1, 0.6), ucb(0.95)))
    assert found.state == "earned"
    assert "better than K=2, the best fixed K for its compute (IQM +0." in found.reason
    assert found.sentence.startswith("U earns its keep: ")


def test_a_method_that_a_cheaper_fixed_k_equals_has_not_earned(tmp_path):
    # It beats K=1 clearly, which was once enough, but not K=2, which is cheaper.
    found = verdict(study(tmp_path, fixed(4, 0.8), fixed(2, 0.9), fixed(1, 0.5), ucb(0.9)))
    assert found.state == "not earned"
    assert "not shown to be better than K=2" in found.reason


def test_not_worse_and_cheaper_earns_where_no_cheap_fixed_k_is(tmp_path):
    found = verdict(study(tmp_path, fixed(8, 1.0), fixed(1, 0.6), ucb(1.02, (8, 4, 1)), seeds=12))
    assert found.state == "earned"


def test_below_the_line_between_two_fixed_k_nothing_is_earned(tmp_path):
    # Mean K of {4,2,1} is about 2.3: between K=1 (0.5) and K=4 (1.0) the line stands near 0.72 there.
    found = verdict(study(tmp_path, fixed(4, 1.0), fixed(1, 0.5), ucb(0.62), seeds=12))
    assert found.state == "not earned"
    assert "below the line between K=1 and K=4" in found.reason


def test_without_fixed_methods_or_seeds_nothing_is_claimed(tmp_path):
    alone = verdict(study(tmp_path / "alone", ucb(0.9)))
    assert (alone.state, alone.reason) == ("unknown", "no fixed K was run beside it")
    once = verdict(study(tmp_path / "once", fixed(4, 0.8), ucb(0.9), seeds=1))
    assert (once.state, once.reason) == ("unknown", "one seed does not tell")


def test_the_cheapest_k_that_is_not_worse_is_advised_with_its_saving(tmp_path):
    # A share of the update FLOPs is that of the epochs: 2 of 4, and 1 of 4.
    (advice,) = which_epochs(study(tmp_path / "best", fixed(4, 0.7), fixed(2, 0.9), fixed(1, 0.5), seeds=12))
    assert (advice.place, advice.method) == ("Over all tasks", "fixed-2")
    assert "It saves 50 % of the update FLOPs of K=4." in advice.text
    (advice,) = which_epochs(study(tmp_path / "equal", fixed(4, 0.8), fixed(2, 0.8), fixed(1, 0.8), seeds=30))
    assert advice.method == "fixed-1"
    assert "75 % of the update FLOPs of K=4" in advice.text


def test_a_best_k_that_all_cheaper_ones_are_behind_is_advised(tmp_path):
    (advice,) = which_epochs(study(tmp_path, fixed(4, 1.0), fixed(2, 0.7), fixed(1, 0.5)))
    assert advice.method == "fixed-4"
    assert advice.text.startswith(
        "Use K=4: it has the highest IQM of the fixed K; K=2, the best cheaper one, is behind (-0.3"
    )


def test_an_open_question_is_called_open(tmp_path):
    (advice,) = which_epochs(study(tmp_path, fixed(4, 0.84), fixed(2, 0.80), seeds=3))
    assert advice.method is None
    assert "Whether K=2 is as good is open" in advice.text
    assert advice.text.endswith("it would save 50 % of the update FLOPs.")


def test_a_task_that_no_k_learned_is_said_to_be_so(tmp_path):
    write_study(tmp_path, [fixed(4, 1.0), fixed(1, 1.0)], [TASK], [1, 2, 3], iterations=20, scale=0.0)
    (advice,) = which_epochs(
        analyze(
            load_comparison(
                [tmp_path],
            ),
            normalization="none",
            resamples=100,
        )
    )
    assert advice.method is None or advice.text


@pytest.mark.parametrize("seeds", [1])
def test_one_seed_advises_nothing(tmp_path, seeds):
    (advice,) = which_epochs(study(tmp_path, fixed(4, 1.0), fixed(1, 0.5), seeds=seeds))
    assert advice.method is None
    assert "One seed does not tell" in advice.text
