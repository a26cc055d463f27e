"""Findings: scales, the Pareto front, what a scheduler is worth, and the sentences that say so."""

from __future__ import annotations

import math

import pytest
from synthetic import METHODS, MORE, write_study

from adept.report.analysis import Analysis, MethodResult, analyze, make_scale
from adept.report.curves import aggregate_curve, choice_shares, phase_flops, phase_seconds, spread, task_curve
from adept.report.loading import load_comparison
from adept.report.statistics import Estimate
from adept.report.summary import smallest_p, summarize
from adept.report.tables import TABLES

TASKS = ["minigrid/DoorKey-6x6", "minigrid/LavaGapS7"]
FIXED_1 = METHODS[1]


@pytest.fixture(scope="module")
def analysis(study):
    return analyze(load_comparison([study]), resamples=500)


def small(tmp_path, methods, **options):
    write_study(tmp_path, methods, TASKS[:1], options.pop("seeds", [1, 2, 3]), iterations=20, **options)
    return load_comparison([tmp_path])


def test_scores_are_relative_to_the_baseline(analysis):
    assert analysis.scale.kind == "ratio"
    assert analysis.methods["fixed-4"].train["mean"].value == pytest.approx(1.0)
    assert analysis.methods["fixed-4"].compute == 1.0
    assert analysis.winner == "ucb"


def test_compute_follows_the_formula_of_an_iteration(analysis):
    # T = 128, N = 16: (129·16 + 3·2048·1) / (129·16 + 3·2048·4)
    assert analysis.methods["fixed-1"].compute == pytest.approx((2064 + 6144) / (2064 + 4 * 6144))


def test_missing_runs_are_counted_never_averaged_away(analysis):
    assert (analysis.methods["thompson"].done, analysis.methods["thompson"].planned) == (5, 6)
    assert (analysis.tasks["thompson", TASKS[1]].done, analysis.tasks["thompson", TASKS[1]].planned) == (2, 3)
    assert "27 of 30 runs are finished (1 interrupted, 1 failed, 1 missing)" in summarize(analysis).cells


def test_a_method_without_a_run_on_some_task_has_no_aggregate(tmp_path):
    states = {("ucb", TASKS[1], seed): "missing" for seed in (1, 2)}
    write_study(tmp_path, METHODS[:3], TASKS, [1, 2], iterations=10, states=states)
    found = analyze(load_comparison([tmp_path]), resamples=200)
    assert found.methods["ucb"].train is None
    assert found.methods["fixed-1"].train is not None
    assert found.winner != "ucb"


def test_nothing_is_normalised_by_a_baseline_that_is_not_there_yet(tmp_path):
    comparison = small(tmp_path, METHODS[:3], states={("fixed-4", TASKS[0], seed): "interrupted" for seed in (1, 2, 3)})
    scale, warnings = make_scale(comparison, "auto")
    assert scale is None
    assert "no finished run" in warnings[0]
    assert "no result over all tasks yet" in summarize(analyze(comparison, resamples=200)).headline


def test_a_baseline_that_did_not_improve_offers_no_scale(tmp_path):
    # A score that falls from 0 to -0.8 is no improvement. One task needs no scale: plain returns; two have none.
    comparison = small(tmp_path / "one", METHODS[:3], scale=-1.0)
    scale, warnings = make_scale(comparison, "auto")
    assert scale.kind == "none"
    assert "did not improve" in warnings[0]
    with pytest.raises(ValueError, match="use the normalization progress"):
        make_scale(comparison, "ratio")
    write_study(tmp_path / "two", METHODS[:3], TASKS[:2], [1, 2], iterations=20, scale=-1.0)
    comparison = load_comparison([tmp_path / "two"])
    scale, warnings = make_scale(comparison, "auto")
    assert scale is None
    assert "did not improve" in warnings[0]
    assert "offers no scale" in summarize(analyze(comparison, resamples=200)).headline


def test_too_few_runs_are_never_called_significant():
    # Two runs against two on one task have C(4, 2) = 6 orders: no two-sided test can go below 2/6.
    assert smallest_p([2], [2]) == pytest.approx(2 / 6)
    assert smallest_p([5], [5]) == pytest.approx(2 / 252)
    assert smallest_p([2, 2, 2, 2], [2, 2, 2, 2]) == pytest.approx(2 / 6**4)


def test_progress_is_measured_from_the_baselines_start(tmp_path):
    comparison = small(tmp_path, METHODS[:3])
    scale, _ = make_scale(comparison, "progress")
    assert scale.kind == "progress"
    found = analyze(comparison, normalization="progress", resamples=200)
    assert found.methods["fixed-4"].train["mean"].value == pytest.approx(1.0)
    start = scale.offset[TASKS[0]]
    scores = [comparison.score(run) for run in comparison.finished("ucb", TASKS[0])]
    mean = sum(comparison.score(run) for run in comparison.finished("fixed-4", TASKS[0])) / 3
    expected = sum((score - start) / (mean - start) for score in scores) / 3
    assert found.methods["ucb"].train["mean"].value == pytest.approx(expected)


def test_a_baseline_that_hardly_scores_is_warned_of(tmp_path):
    weak = ("fixed-4", "PPO (K=4)", {"scheduler": "fixed", "arms": [4]}, 0.05, 0.3)
    comparison = small(tmp_path, [weak, *METHODS[1:3]])
    _, warnings = make_scale(comparison, "auto")
    assert "ratios there are large" in warnings[0]


def test_one_seed_gives_no_interval_and_says_so(tmp_path):
    found = analyze(small(tmp_path, METHODS[:3], seeds=[1]), resamples=200)
    assert not found.methods["ucb"].train["iqm"].has_interval
    assert "cannot be said from one seed" in summarize(found).significance
    assert any("one finished run" in text for text in found.warnings)


def test_the_pareto_front_by_hand(analysis):
    def result(compute, iqm):
        return MethodResult(1, 1, {"iqm": Estimate(iqm)}, None, None, None, None, compute, 1.0, 1.0)

    points = {"a": result(0.3, 0.9), "b": result(0.5, 0.8), "c": result(0.5, 1.0), "d": result(1.0, 1.0),
              "e": result(2.0, 1.2), "f": result(math.nan, 2.0)}  # fmt: skip
    made = Analysis(analysis.comparison, analysis.scale, (), points, {}, (), 10)
    assert made.pareto == ("a", "c", "e")


def test_a_scheduler_that_beats_fixed_one_at_less_compute_earns_its_keep(analysis):
    worth = {entry.label: entry for entry in summarize(analysis).keep}["ADEPT(U) {4,2,1}"]
    assert worth.state == "earned"
    assert worth.sentence.startswith("ADEPT(U) {4,2,1} earns its keep: it beats fixed K=1 on score (probability 1.00")


def test_a_scheduler_that_does_not_beat_fixed_one_has_not_earned_its_keep(tmp_path):
    poor = ("ucb", "Poor", {"scheduler": "ucb", "arms": [4, 2, 1]}, 0.6, 0.4)
    found = analyze(small(tmp_path, [METHODS[0], FIXED_1, poor]), resamples=200)
    (worth,) = summarize(found).keep
    assert worth.state == "not earned"
    assert "Poor has not earned its keep: it is not shown to score higher than fixed K=1" in worth.sentence


def test_without_fixed_one_nothing_is_claimed(tmp_path):
    found = analyze(small(tmp_path, [METHODS[0], METHODS[2]]), resamples=200)
    (worth,) = summarize(found).keep
    assert worth.state == "unknown"
    assert "cannot be said" in worth.sentence


def test_the_summary_says_who_by_how_much_at_what_compute_and_whether_it_is_chance(analysis):
    summary = summarize(analysis)
    iqm = analysis.methods["ucb"].train["iqm"]
    compute = f"{100 * analysis.methods['ucb'].compute:.0f} %"
    start = f"ADEPT(U) {{4,2,1}} scored highest: an interquartile mean of {iqm.value:.2f} [{iqm.low:.2f}"
    assert summary.headline.startswith(start)
    assert "(1 is PPO (K=4)'s mean score)" in summary.headline
    assert f"with {compute} of its compute" in summary.headline
    assert summary.significance.startswith("The difference is")
    assert "corrected for 4 comparisons" in summary.significance


def test_a_baseline_that_wins_is_said_to(tmp_path):
    found = analyze(small(tmp_path, [METHODS[0], FIXED_1]), resamples=200)
    assert summarize(found).headline.startswith("PPO (K=4), the baseline, scored highest: an interquartile mean of")
    assert "Next is PPO (K=1): 0.9" in summarize(found).headline


def test_curves_end_at_the_final_scores(analysis):
    comparison = analysis.comparison
    curve = task_curve(comparison, "ucb", TASKS[0])
    scores = [comparison.score(run) for run in comparison.finished("ucb", TASKS[0])]
    assert curve.mean[-1] == pytest.approx(sum(scores) / 3)
    assert curve.low[-1] <= curve.mean[-1] <= curve.high[-1]
    assert math.isnan(curve.mean[0])  # no episode had ended
    assert (curve.done, curve.planned) == (3, 3)
    assert aggregate_curve(analysis, "ucb").mean[-1] == pytest.approx(analysis.methods["ucb"].train["mean"].value)


def test_choice_shares_add_up_and_end_at_the_counts(analysis):
    comparison = analysis.comparison
    progress, shares = choice_shares(comparison, comparison.method("ucb"), (TASKS[0],))
    assert progress[-1] == 1.0
    assert shares.sum(0) == pytest.approx(1.0)
    runs = comparison.finished("ucb", TASKS[0])
    ones = sum(float((run.epochs == 1).mean()) for run in runs) / len(runs)
    assert shares[2, -1] == pytest.approx(ones)  # arms are 4, 2, 1


def test_phases_by_hand(analysis):
    # fixed K=4: 0.06 s environment, 0.03 s sampling, 0.2 s update of 0.3 s; FLOPs 2064 : 4·6144.
    seconds = phase_seconds(analysis.comparison, "fixed-4")
    assert seconds == pytest.approx({"environment": 0.2, "sampling": 0.1, "update": 2 / 3, "rest": 1 / 30}, rel=1e-3)
    assert phase_flops(analysis.comparison, "fixed-4")["sampling"] == pytest.approx(2064 / (2064 + 4 * 6144))


def test_labels_are_moved_apart_in_order():
    places = spread([1.0, 1.0, 5.0], 0.5)
    assert places[1] - places[0] >= 0.5 - 1e-9
    assert places[2] == 5.0


def test_tables_have_a_row_for_everything(analysis):
    lines = {name: table(analysis).splitlines() for name, table in TABLES.items()}
    assert {name: len(found) - 1 for name, found in lines.items()} == {"methods": 5, "tasks": 10, "runs": 30}
    assert any(",failed," in line and "FloatingPointError" in line for line in lines["runs"])


def test_target_kl_counts_the_epochs_done(tmp_path):
    target = next(method for method in MORE if method[0] == "target-kl")
    found = analyze(small(tmp_path, [METHODS[0], FIXED_1, target]), resamples=200)
    assert 1 < found.methods["target-kl"].epochs < 4
    _, shares = choice_shares(found.comparison, found.comparison.method("target-kl"), (TASKS[0],))
    assert shares.shape[0] == 4
    assert shares[3, -1] > 0.1
