"""Studies with an axis: every method beside the baseline's at the same value."""

from __future__ import annotations

import csv
import io
import math

import pytest
from synthetic import write_run

from adept.report.analysis import analyze
from adept.report.axis import points, sentences
from adept.report.build import ReportOptions, report_files
from adept.report.loading import load_comparison
from adept.report.summary import summarize
from adept.studies.grid import cell_path, parse_study

TASK = "minigrid/DoorKey-6x6"
FINAL = {"fixed.low": 0.2, "fixed.usual": 0.8, "fixed.high": 0.8, "ucb.low": 0.6, "ucb.usual": 0.801, "ucb.high": 0.5}
TEXT = f"""
name = "starts"
tasks = ["{TASK}"]
seeds = 6
baseline = "fixed.usual"
criterion = "mean-score"
differs = ["scheduler", "scheduler_options", "epochs", "arms", "learning_rate"]
[base]
steps = 61_440
[axis]
low = {{ learning_rate = "preset/10", label = "÷ 10" }}
usual = {{ label = "× 1" }}
high = {{ learning_rate = "preset*10", label = "× 10" }}
[[methods]]
name = "fixed"
label = "PPO"
scheduler = "fixed"
[[methods]]
name = "ucb"
label = "ADEPT(U)"
scheduler = "ucb"
arms = [4, 2, 1]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("starts")
    study = parse_study(TEXT, "test")
    (directory / "study.toml").write_text(study.text)
    for name, final in FINAL.items():
        for seed in study.seeds:
            path = cell_path(directory, name, TASK, seed)
            write_run(study, path, (name, TASK, seed), "done", (final, 0.3), evaluate=False)
    return directory


@pytest.fixture(scope="module")
def analysis(folder):
    return analyze(load_comparison([folder]), resamples=400)


def flat(analysis):
    """Return every point by its method."""
    return {point.method: point for own in points(analysis).values() for point in own}


def test_methods_are_tested_where_the_value_is_the_same(analysis):
    found = flat(analysis)
    assert list(found) == list(FINAL)
    assert [found[f"ucb.{value}"].state for value in ("low", "usual", "high")] == ["higher", "open", "lower"]
    # Six seeds of each, every one ahead: p = 2/C(12, 6) = 0.0022, three tests are corrected together.
    assert found["ucb.low"].p == pytest.approx(3 * 2 / math.comb(12, 6), abs=0.006)
    for name, point in found.items():
        scores = analysis.comparison.scores(name, TASK, "mean-score")  # as they are: a mean return
        assert point.score.value == pytest.approx(scores.mean())
        assert point.score.value == pytest.approx(0.75 * FINAL[name], rel=0.15)
        assert point.score.low < point.score.value < point.score.high
        assert math.isnan(point.p) == name.startswith("fixed")
        assert point.rival == found[name.replace("ucb", "fixed")].score.value


def test_the_first_sentence_counts_and_the_next_names_every_value(analysis):
    ranges, counts, details = sentences(analysis)
    assert counts == "ADEPT(U) is above PPO at 1 of 3 values and below at 1."
    score = {name: f"{point.score.value:.2f}" for name, point in flat(analysis).items()}
    assert details == (
        f"ADEPT(U) against PPO, mean score over the run: above at ÷ 10 ({score['ucb.low']} against "
        f"{score['fixed.low']}); below at × 10 ({score['ucb.high']} against {score['fixed.high']}); not shown to "
        f"differ at × 1 ({score['ucb.usual']} against {score['fixed.usual']})."
    )
    fixed, ucb = ([float(score[f"{line}.{value}"]) for value in ("low", "usual", "high")] for line in ("fixed", "ucb"))
    assert ranges == (
        f"Over 3 values, mean score over the run: PPO from {min(fixed):.2f} to {max(fixed):.2f} and "
        f"ADEPT(U) from {min(ucb):.2f} to {max(ucb):.2f}."
    )
    found = summarize(analysis)
    assert (found.headline, *found.differences[:2]) == (ranges, counts, details)


def test_the_figure_has_a_curve_per_method_and_its_numbers_beside_it(folder, analysis):
    files, facts = report_files(ReportOptions((folder,), resamples=400))
    rows = list(csv.DictReader(io.StringIO(files["figures/score-over-axis.csv"].decode())))
    assert [(row["method"], row["value"]) for row in rows] == [
        (method, value) for method in ("PPO", "ADEPT(U)") for value in ("÷ 10", "× 1", "× 10")
    ]
    scores = [point.score.value for point in flat(analysis).values()]
    assert [float(row["score"]) for row in rows] == pytest.approx(scores, rel=1e-5)
    assert [point["score"][0] for point in facts["axis"]] == pytest.approx(scores, rel=1e-5)
    page = files["report.html"].decode()
    chosen = list(csv.DictReader(io.StringIO(files["figures/decisions.csv"].decode())))
    assert {row["method"] for row in chosen} == {"ucb.usual"}, "a panel for each value would be too many"
    assert "Of the study&#x27;s axis only × 1 is drawn." in page
    assert page.index('class="headline"') < page.index("Score over the study") < page.index('<section id="methods">')


def test_without_an_axis_nothing_is_said(folder, tmp_path):
    (tmp_path / "runs").symlink_to(folder / "runs")
    axis, methods = TEXT.index("[axis]"), TEXT.index("[[methods]]")
    names = TEXT[:axis].replace("fixed.usual", "fixed"), TEXT[methods:]
    (tmp_path / "study.toml").write_text("".join(names))
    analysis = analyze(load_comparison([tmp_path]), resamples=400)
    assert (points(analysis), sentences(analysis)) == ({}, [])


def test_without_a_method_s_runs_nothing_is_said(folder, tmp_path):
    (tmp_path / "study.toml").write_text(TEXT)
    for path in (folder / "runs").glob("*/*"):
        if path.name != "ucb.low":
            target = tmp_path / "runs" / path.relative_to(folder / "runs")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path)
    assert points(analyze(load_comparison([tmp_path]), resamples=400)) == {}
