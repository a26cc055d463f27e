"""Whether adaptive methods earn their keep, and which K to use, on studies whose answer is known."""

from __future__ import annotations

import re

import pytest
from synthetic import TASKS, compare, write_study

from adept.report import ReportOptions
from adept.report.analysis import analyze
from adept.report.build import report_files
from adept.report.loading import load_comparison
from adept.report.summary import summarize
from adept.report.verdicts import against_fixed, which_fixed


def fixed(epochs, final):
    return (f"fixed-{epochs}", f"K={epochs}", {"scheduler": "fixed", "epochs": epochs}, final, 0.3)


def ucb(final, arms=(4, 2, 1)):
    return ("ucb", "U", {"scheduler": "ucb", "arms": list(arms)}, final, 0.3)


def study(tmp_path, *methods, seeds=8):
    return analyze(compare(tmp_path, methods, seeds=range(1, seeds + 1)), resamples=400)


@pytest.mark.parametrize(
    ("methods", "seeds", "state", "claim", "reason"),
    [
        pytest.param(
            [fixed(4, 0.8), fixed(2, 0.79), fixed(1, 0.6), ucb(0.95)], 8, "better",
            "better than K=2 at the same compute", r"K=2 is the best fixed K for its compute: IQM \+0\..*",
            id="better",
        ),
        # It beats K=1 clearly, which was once enough, but not K=2, which is cheaper.
        pytest.param(
            [fixed(4, 0.8), fixed(2, 0.9), fixed(1, 0.5), ucb(0.9)], 8, "no better",
            "no better than K=2 at the same compute", "K=2 is the best fixed K for its compute: IQM .*",
            id="a cheaper fixed K equals it",
        ),
        # One-sided, one task: 1/C(4, 2) = 1/6 at best.
        pytest.param([fixed(4, 0.5), fixed(1, 0.4), ucb(0.9)], 2, "unknown", "2 seeds are too few to tell", ".*",
                     id="too few seeds"),
        pytest.param(
            [fixed(8, 1.0), fixed(1, 0.6), ucb(1.02, (8, 4, 1))], 12, "better",
            r"better than K=1 at the same compute|as good as K=8 with \d\d % of its update FLOPs", ".*",
            id="not worse and cheaper",
        ),
        # Mean K of {4,2,1} is about 2.3: between K=1 (0.5) and K=4 (1.0) the line stands near 0.72 there.
        pytest.param(
            [fixed(4, 1.0), fixed(1, 0.5), ucb(0.62)], 12, "no better",
            "no better than a fixed K between K=1 and K=4, by the line between their scores", ".*",
            id="below the line",
        ),
        pytest.param([ucb(0.9)], 8, "unknown", "no fixed K was run beside it", "", id="alone"),
        pytest.param([fixed(4, 0.8), ucb(0.9)], 1, "unknown", "one seed does not tell", "", id="one seed"),
    ],
)  # fmt: skip
def test_the_verdict_on_an_adaptive_method(tmp_path, methods, seeds, state, claim, reason):
    (found,) = against_fixed(study(tmp_path, *methods, seeds=seeds))
    assert found.state == state
    assert re.fullmatch(claim, found.claim)
    assert re.fullmatch(reason, found.reason)
    assert found.sentence.startswith(f"U: {found.claim}" + (" (" if found.reason else "."))


@pytest.mark.parametrize(
    ("methods", "seeds", "method", "text"),
    [
        # A share of the update FLOPs is that of the epochs: 2 of 4, and 1 of 4.
        pytest.param([fixed(4, 0.7), fixed(2, 0.9), fixed(1, 0.5)], 12, "fixed-2",
                     r".* It saves 50 % of the update FLOPs of K=4\..*", id="best"),
        pytest.param([fixed(4, 0.8), fixed(2, 0.8), fixed(1, 0.8)], 30, "fixed-1",
                     r".*75 % of the update FLOPs of K=4.*", id="equal"),
        pytest.param([fixed(4, 1.0), fixed(2, 0.7), fixed(1, 0.5)], 8, "fixed-4",
                     r"Use K=4: it has the highest IQM of the fixed K; K=2, the best cheaper one, is behind \(-0\.3.*",
                     id="all cheaper ones are behind"),
        pytest.param([fixed(4, 0.84), fixed(2, 0.80)], 3, None,
                     r".*Whether K=2 is as good is open.*it would save 50 % of the update FLOPs\.", id="open"),
        pytest.param([fixed(4, 1.0), fixed(1, 0.5)], 1, None, ".*One seed does not tell.*", id="one seed"),
    ],
)  # fmt: skip
def test_the_fixed_k_that_is_advised(tmp_path, methods, seeds, method, text):
    (advice,) = which_fixed(study(tmp_path, *methods, seeds=seeds))
    assert (advice.place, advice.method) == ("Over all tasks", method)
    assert re.fullmatch(text, advice.text)


def test_a_task_that_no_k_learned_is_said_to_be_so(tmp_path):
    declared = write_study(tmp_path, [fixed(4, 1.0), fixed(1, 1.0)], TASKS[:1], [1, 2, 3], iterations=20).text
    goal = 'criterion = "steps-to-threshold"\nthreshold = 9\n[base]'  # scores stay near 1
    (tmp_path / "study.toml").write_text(declared.replace("[base]", goal))
    (advice,) = which_fixed(analyze(load_comparison([tmp_path]), resamples=100))
    assert (advice.method, advice.text) == (None, "No fixed K learned anything to speak of here.")


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
