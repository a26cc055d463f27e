"""Findings: scales, the Pareto front, what a scheduler is worth, and the sentences that say so."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from synthetic import METHODS, MORE, TASKS, compare

from adept.report import sections
from adept.report.analysis import analyze
from adept.report.comparison import ComparedMethod, Comparison, Run
from adept.report.curves import choice_shares, mean_curve
from adept.report.loading import load_comparison
from adept.report.normalization import make_scale
from adept.report.power import seeds_needed
from adept.report.statistics import Estimate
from adept.report.summary import summarize
from adept.report.tables import TABLES
from adept.report.text import readable

FIXED_1 = METHODS[1]


@pytest.fixture(scope="module")
def analysis(study):
    return analyze(load_comparison([study]), resamples=500)


def final_scores(comparison, *names):
    """Return the mean final score of methods on the first task."""
    return [np.mean([comparison.measure(run, "final-score") for run in comparison.finished(name, TASKS[0])])
            for name in names]  # fmt: skip


def test_scores_are_relative_to_the_baseline(analysis):
    assert analysis.scale.kind == "ratio"
    assert analysis.methods["fixed-4"].aggregates["final-score"]["mean"].value == pytest.approx(1.0)
    assert analysis.methods["fixed-4"].compute == 1.0
    assert analysis.winner == "ucb"
    assert analysis.criterion == "final score"


def test_compute_follows_the_formula_of_an_iteration(analysis):
    # T = 128, N = 16: (129·16 + 3·2048·1) / (129·16 + 3·2048·4)
    assert analysis.methods["fixed-1"].compute == pytest.approx((2064 + 6144) / (2064 + 4 * 6144))
    assert analysis.methods["fixed-1"].update_compute == pytest.approx(0.25)


def test_missing_runs_are_counted_never_averaged_away(analysis):
    method, cell = analysis.methods["thompson"], analysis.tasks["thompson", TASKS[1]]
    assert (method.done, method.planned, cell.done, cell.planned) == (5, 6, 2, 3)
    assert "27 of 30 runs are finished (1 interrupted, 1 failed, 1 missing)" in summarize(analysis).cells


def test_a_method_without_a_run_on_some_task_has_no_aggregate(tmp_path):
    states = {("ucb", TASKS[1], seed): "missing" for seed in (1, 2)}
    found = analyze(compare(tmp_path, METHODS[:3], TASKS, [1, 2], iterations=10, states=states), resamples=200)
    assert not found.methods["ucb"].aggregates
    assert found.methods["fixed-1"].aggregates
    assert found.winner != "ucb"


def test_nothing_is_normalised_by_a_baseline_that_is_not_there_yet(tmp_path):
    comparison = compare(
        tmp_path, METHODS[:3], states={("fixed-4", TASKS[0], seed): "interrupted" for seed in (1, 2, 3)}
    )
    scale, warnings = make_scale(comparison, "auto")
    assert scale is None
    assert "no finished run" in warnings[0]
    assert "no result over all tasks yet" in summarize(analyze(comparison, resamples=200)).headline


def test_a_baseline_that_did_not_improve_offers_no_scale(tmp_path):
    # A score that falls from 0 to -0.8 is no improvement. One task needs no scale: plain returns; two have none.
    comparison = compare(tmp_path / "one", METHODS[:3], scale=-1.0)
    scale, warnings = make_scale(comparison, "auto")
    assert scale.kind == "none"
    assert "did not improve" in warnings[0]
    with pytest.raises(ValueError, match="use the normalization progress"):
        make_scale(comparison, "ratio")
    comparison = compare(tmp_path / "two", METHODS[:3], tasks=TASKS, seeds=[1, 2], scale=-1.0)
    scale, warnings = make_scale(comparison, "auto")
    assert scale is None
    assert "did not improve" in warnings[0]
    assert "offers no scale" in summarize(analyze(comparison, resamples=200)).headline


def test_progress_is_measured_from_the_baselines_start(tmp_path):
    comparison = compare(tmp_path, METHODS[:3])
    scale, _ = make_scale(comparison, "progress")
    assert scale.kind == "progress"
    found = analyze(comparison, normalization="progress", resamples=200)
    assert found.methods["fixed-4"].aggregates["final-score"]["mean"].value == pytest.approx(1.0)
    start, (score, preset) = scale.offset[TASKS[0]], final_scores(comparison, "ucb", "fixed-4")
    expected = (score - start) / (preset - start)
    assert found.methods["ucb"].aggregates["final-score"]["mean"].value == pytest.approx(expected)


def test_a_baseline_that_hardly_scores_is_warned_of(tmp_path):
    weak = ("fixed-4", "PPO (K=4)", {"scheduler": "fixed", "epochs": 4}, 0.05, 0.3)
    comparison = compare(tmp_path, [weak, *METHODS[1:3]])
    _, warnings = make_scale(comparison, "auto")
    assert "ratios there are large" in warnings[0]


def test_one_seed_gives_no_interval_and_says_so(tmp_path):
    found = analyze(compare(tmp_path, METHODS[:3], seeds=[1]), resamples=200)
    assert not found.methods["ucb"].aggregates["final-score"]["iqm"].has_interval
    assert summarize(found).headline == "1 seed cannot tell these methods apart, whatever they score; 5 could."
    assert any("one finished run" in text for text in found.warnings)


def with_points(analysis, points):
    """The same comparison with invented compute and IQMs."""
    methods = {
        name: dataclasses.replace(analysis.methods["ucb"], iqm=Estimate(iqm), update_compute=compute)
        for name, (compute, iqm) in points.items()
    }
    return dataclasses.replace(analysis, methods=methods)


def test_the_pareto_front_by_hand(analysis):
    points = {"a": (0.3, 0.9), "b": (0.5, 0.8), "c": (0.5, 1.0), "d": (1.0, 1.0), "e": (2.0, 1.2), "f": (math.nan, 2.0)}
    assert with_points(analysis, points).pareto == ("a", "c", "e")


def test_a_method_that_learned_nothing_is_on_no_front(analysis):
    assert with_points(analysis, {"a": (0.1, 0.0), "b": (0.5, 0.9), "c": (0.2, 0.03)}).pareto == ("b",)


def test_the_criterion_decides(tmp_path):
    # Slow but high against fast but low: the order turns around with the criterion.
    slow = ("fixed-4", "Slow", {"scheduler": "fixed", "epochs": 4}, 1.0, 0.75)
    fast = ("fixed-1", "Fast", {"scheduler": "fixed", "epochs": 1}, 0.8, 0.15)
    winners = {}
    for criterion in ("final-score", "mean-score", "steps-to-threshold"):
        compare(tmp_path / criterion, [slow, fast], iterations=40)
        file = tmp_path / criterion / "study.toml"
        more = "\nthreshold = 0.5" if criterion == "steps-to-threshold" else ""
        file.write_text(file.read_text().replace("[base]", f'criterion = "{criterion}"{more}\n[base]'))
        winners[criterion] = analyze(load_comparison([tmp_path / criterion]), resamples=100).winner
    assert winners == {"final-score": "fixed-4", "mean-score": "fixed-1", "steps-to-threshold": "fixed-1"}
    with pytest.raises(ValueError, match="decided by different criteria"):
        load_comparison([tmp_path / criterion for criterion in winners])


def test_mean_score_and_steps_by_hand(tmp_path):
    comparison = compare(tmp_path, METHODS[:2], seeds=[1])
    (run,) = comparison.finished("fixed-4", TASKS[0])
    known = np.isfinite(run.score)
    x, y = run.steps[known], run.score[known]
    area = sum((x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2 for i in range(len(x) - 1)) / (x[-1] - x[0])
    assert comparison.measure(run, "mean-score") == pytest.approx(area)
    goal = 0.9 * run.score[-1]
    assert comparison.thresholds[TASKS[0]] == pytest.approx(goal)
    first = next(step for step, score in zip(run.steps, run.score, strict=True) if score >= goal)
    assert comparison.measure(run, "steps-to-threshold") == pytest.approx(1 - first / run.steps[-1])


def test_differences_are_tested_against_the_baseline(tmp_path):
    comparison = compare(tmp_path, METHODS[:3], seeds=range(1, 9))
    found = analyze(comparison, resamples=400)
    assert found.methods["fixed-4"].standing == ""
    assert found.methods["ucb"].standing == "better"  # 0.90 against 0.80, with a deviation of 0.04
    assert found.methods["fixed-1"].standing == "worse"
    assert found.tasks["ucb", TASKS[0]].p < 0.05
    gap, (ours, base) = found.tasks["ucb", TASKS[0]].difference, final_scores(comparison, "ucb", "fixed-4")
    assert gap.value == pytest.approx(ours / base - 1)
    assert gap.low < gap.value < gap.high
    headline = summarize(found).headline
    spent = f"{100 * found.methods['ucb'].update_compute:.0f} %"
    assert headline == f"Use ADEPT(U) {{4,2,1}}: it scores higher than PPO (K=4), with {spent} of its update FLOPs."
    facts = summarize(found).differences[0]
    assert facts.startswith("By final score ADEPT(U) {4,2,1} has an IQM of 1.1")
    assert "corrected for 2 rivals" in facts
    assert summarize(found).following[-1] == "Try ADEPT(U) {4,2,1} on a task of your own, beside PPO (K=4)."
    assert "Worse than PPO (K=4): PPO (K=1)." in summarize(found).differences


def test_no_method_is_called_better_without_evidence(analysis):
    summary = summarize(analysis)
    better = [name for name, result in analysis.methods.items() if result.standing == "better"]
    wanted = f"Use {analysis.comparison.label(max(better, key=analysis.iqm))}" if better else "Stay with PPO (K=4)"
    assert summary.headline.startswith(wanted)
    assert "highest" not in summary.headline


def test_a_study_whose_seeds_cannot_show_a_winner_says_so_first(tmp_path):
    """Three seeds, one task, three rivals, all far ahead: the smallest p is 3 × 0.1."""
    scores = {4: 0.3, 3: 0.9, 2: 0.9, 1: 0.9}
    methods = [(f"k{k}", f"K={k}", {"scheduler": "fixed", "epochs": k}, score, 0.3) for k, score in scores.items()]
    summary = summarize(analyze(compare(tmp_path, methods), resamples=2000))
    needed = seeds_needed(1, 3)
    assert summary.headline == f"3 seeds cannot tell these methods apart, whatever they score; {needed} could."
    assert "3 seeds on 1 task cannot show a winner" in summary.differences[0]
    assert summary.following[0].startswith(f"Run {needed} seeds of each method instead of 3")
    assert "What to do next" in sections.findings(summary)


def test_curves_end_at_the_final_scores(analysis):
    comparison = analysis.comparison
    curve = mean_curve(analysis, "ucb", TASKS[0])
    assert curve.mean[-1] == pytest.approx(final_scores(comparison, "ucb")[0])
    assert curve.low[-1] <= curve.mean[-1] <= curve.high[-1]
    assert math.isnan(curve.mean[0])  # no episode had ended
    assert (curve.done, curve.planned) == (3, 3)
    over_all = analysis.methods["ucb"].aggregates["final-score"]["mean"].value
    assert mean_curve(analysis, "ucb").mean[-1] == pytest.approx(over_all)


def test_choice_shares_add_up_and_end_at_the_counts(analysis):
    comparison = analysis.comparison
    progress, shares = choice_shares(comparison, "ucb", (TASKS[0],))
    assert progress[-1] == 1.0
    assert shares.sum(0) == pytest.approx(1.0)
    runs = comparison.finished("ucb", TASKS[0])
    ones = sum(float((run.epochs == 1).mean()) for run in runs) / len(runs)
    assert shares[2, -1] == pytest.approx(ones)  # arms are 4, 2, 1


def test_phases_by_hand(analysis):
    # fixed K=4: FLOPs 2064 : 4·6144, and nothing else.
    total = 2064 + 4 * 6144
    expected = {"sampling": 2064 / total, "update": 4 * 6144 / total, "monitoring": 0.0}
    assert analysis.methods["fixed-4"].phases == pytest.approx(expected)


def test_tables_have_a_row_for_everything(analysis):
    lines = {name: table(analysis).splitlines() for name, table in TABLES.items()}
    assert {name: len(found) - 1 for name, found in lines.items()} == {"methods": 5, "tasks": 10, "runs": 30}
    assert any(",failed," in line and "FloatingPointError" in line for line in lines["runs"])


def test_target_kl_counts_the_epochs_done(tmp_path):
    target = next(method for method in MORE if method[0] == "target-kl")
    found = analyze(compare(tmp_path, [METHODS[0], FIXED_1, target]), resamples=200)
    assert 1 < found.methods["target-kl"].epochs < 4
    _, shares = choice_shares(found.comparison, "target-kl", (TASKS[0],))
    assert shares.shape[0] == 2  # 4 and 1: what was done
    assert shares[1, -1] > 0.1


def test_a_task_on_which_the_baseline_did_not_improve_is_left_out_of_aggregates():
    start, ends = {"up": -10.0, "down": 0.0}, {"base": {"up": -5.0, "down": -1.0}, "rival": {"up": -4.0, "down": 3.0}}
    runs = [
        Run(method, task, seed, "done", steps=np.array([1.0, 2.0]), score=np.array([start[task], end]))
        for method, scores in ends.items()
        for task, end in scores.items()
        for seed in (1, 2)
    ]
    methods = tuple(ComparedMethod(name, name, None) for name in ends)
    comparison = Comparison("title", methods, ("up", "down"), tuple(runs), "base", {"up": 2.0, "down": 2.0}, ())
    found = analyze(comparison, resamples=100)
    assert found.comparison.common_tasks == ("up",)
    assert found.methods["rival"].iqm.value == pytest.approx((-4 + 10) / (-5 + 10))
    assert "did not improve on down (from 0 to -1)" in found.warnings[0]


def test_a_threshold_that_was_never_reached_is_in_words():
    assert [readable(value) for value in (math.inf, math.nan, 246_000.0)] == ["never", "–", "246k"]


def test_numbers_and_their_signs_stay_on_one_line():
    assert sections.tied("IQM +0.41 [0.29, 0.53], p < 0.001 or p = 1, 50 %") == (
        "IQM +0.41\u00a0[0.29,\u00a00.53], p\u00a0&lt;\u00a00.001 or p\u00a0=\u00a01, 50\u00a0%"
    )
