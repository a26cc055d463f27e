"""Whether adaptive methods earn their keep, and which K to use, on studies whose answer is known."""

from __future__ import annotations

import re

from synthetic import write_study

from adept.report import ReportOptions
from adept.report.analysis import analyze
from adept.report.build import report_files
from adept.report.loading import load_comparison
from adept.report.summary import summarize
from adept.report.verdicts import against_fixed, which_fixed

TASK = "minigrid/DoorKey-6x6"


def fixed(epochs, final):
    return (f"fixed-{epochs}", f"K={epochs}", {"scheduler": "fixed", "epochs": epochs}, final, 0.3)


def ucb(final, arms=(4, 2, 1)):
    return ("ucb", "U", {"scheduler": "ucb", "arms": list(arms)}, final, 0.3)


def study(tmp_path, *methods, seeds=8):
    write_study(tmp_path, methods, [TASK], range(1, seeds + 1), iterations=20)
    return analyze(load_comparison([tmp_path]), resamples=400)


def verdict(analysis):
    (found,) = against_fixed(analysis)
    return found


def test_better_than_the_best_fixed_k_of_its_compute(tmp_path):
    found = verdict(study(tmp_path, fixed(4, 0.8), fixed(2, 0.79), fixed(1, 0.6), ucb(0.95)))
    assert (found.state, found.claim) == ("better", "better than K=2 at the same compute")
    assert found.reason.startswith("K=2 is the best fixed K for its compute: IQM +0.")
    assert found.sentence.startswith("U: better than K=2 at the same compute (")


def test_a_method_that_a_cheaper_fixed_k_equals_is_no_better(tmp_path):
    # It beats K=1 clearly, which was once enough, but not K=2, which is cheaper.
    found = verdict(study(tmp_path, fixed(4, 0.8), fixed(2, 0.9), fixed(1, 0.5), ucb(0.9)))
    assert (found.state, found.claim) == ("no better", "no better than K=2 at the same compute")
    assert found.reason.startswith("K=2 is the best fixed K for its compute: IQM ")


def test_seeds_that_cannot_tell_are_said_to_be_too_few(tmp_path):
    # One-sided, one task: 1/C(4, 2) = 1/6 at best.
    found = verdict(study(tmp_path, fixed(4, 0.5), fixed(1, 0.4), ucb(0.9), seeds=2))
    assert (found.state, found.claim) == ("unknown", "2 seeds are too few to tell")


def test_not_worse_and_cheaper_where_no_cheap_fixed_k_is(tmp_path):
    found = verdict(study(tmp_path, fixed(8, 1.0), fixed(1, 0.6), ucb(1.02, (8, 4, 1)), seeds=12))
    assert found.state == "better"
    assert re.fullmatch(
        r"better than K=1 at the same compute|as good as K=8 with \d\d % of its update FLOPs", found.claim
    )


def test_below_the_line_between_two_fixed_k_it_is_no_better(tmp_path):
    # Mean K of {4,2,1} is about 2.3: between K=1 (0.5) and K=4 (1.0) the line stands near 0.72 there.
    found = verdict(study(tmp_path, fixed(4, 1.0), fixed(1, 0.5), ucb(0.62), seeds=12))
    assert found.state == "no better"
    assert found.claim == "no better than a fixed K between K=1 and K=4, by the line between their scores"


def test_without_fixed_methods_or_seeds_nothing_is_claimed(tmp_path):
    alone = verdict(study(tmp_path / "alone", ucb(0.9)))
    assert (alone.state, alone.claim) == ("unknown", "no fixed K was run beside it")
    once = verdict(study(tmp_path / "once", fixed(4, 0.8), ucb(0.9), seeds=1))
    assert (once.state, once.claim) == ("unknown", "one seed does not tell")


def test_the_cheapest_k_that_is_not_worse_is_advised_with_its_saving(tmp_path):
    # A share of the update FLOPs is that of the epochs: 2 of 4, and 1 of 4.
    (advice,) = which_fixed(study(tmp_path / "best", fixed(4, 0.7), fixed(2, 0.9), fixed(1, 0.5), seeds=12))
    assert (advice.place, advice.method) == ("Over all tasks", "fixed-2")
    assert "It saves 50 % of the update FLOPs of K=4." in advice.text
    (advice,) = which_fixed(study(tmp_path / "equal", fixed(4, 0.8), fixed(2, 0.8), fixed(1, 0.8), seeds=30))
    assert advice.method == "fixed-1"
    assert "75 % of the update FLOPs of K=4" in advice.text


def test_a_best_k_that_all_cheaper_ones_are_behind_is_advised(tmp_path):
    (advice,) = which_fixed(study(tmp_path, fixed(4, 1.0), fixed(2, 0.7), fixed(1, 0.5)))
    assert advice.method == "fixed-4"
    assert advice.text.startswith(
        "Use K=4: it has the highest IQM of the fixed K; K=2, the best cheaper one, is behind (-0.3"
    )


def test_an_open_question_is_called_open(tmp_path):
    (advice,) = which_fixed(study(tmp_path, fixed(4, 0.84), fixed(2, 0.80), seeds=3))
    assert advice.method is None
    assert "Whether K=2 is as good is open" in advice.text
    assert advice.text.endswith("it would save 50 % of the update FLOPs.")


def test_a_task_that_no_k_learned_is_said_to_be_so(tmp_path):
    write_study(tmp_path, [fixed(4, 1.0), fixed(1, 1.0)], [TASK], [1, 2, 3], iterations=20, scale=0.0)
    (advice,) = which_fixed(analyze(load_comparison([tmp_path]), normalization="none", resamples=100))
    assert advice.method is None or advice.text


def test_one_seed_advises_nothing(tmp_path):
    (advice,) = which_fixed(study(tmp_path, fixed(4, 1.0), fixed(1, 0.5), seeds=1))
    assert advice.method is None
    assert "One seed does not tell" in advice.text


def test_learning_rates_are_compared_with_each_other_and_nothing_is_said_of_k(tmp_path):
    rates = [(f"rate-{rate}", f"rate {rate}", {"scheduler": "fixed", "learning_rate": rate}, final, 0.3)
             for rate, final in ((1e-3, 0.9), (3e-3, 0.6), (1e-4, 0.3))]  # fmt: skip
    analysis = study(tmp_path, *rates)
    (advice,) = which_fixed(analysis)
    assert advice.method == "rate-0.001"
    assert advice.text.startswith(
        "Use rate 0.001: it has the highest IQM of the fixed settings, and is better than rate"
    )
    summary = summarize(analysis)
    assert summary.question == "Which setting should I use?"
    page = report_files(ReportOptions((tmp_path,), resamples=100))[0]["report.html"].decode()
    text = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]*>", " ", page, flags=re.S)
    assert not re.search(r"\bK\b", text), re.search(r".{60}\bK\b.{60}", text, re.S)
