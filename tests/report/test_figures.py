"""How methods look: colours that differ, labels that do not overlap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from synthetic import METHODS, TASKS, compare

from adept.report.analysis import analyze
from adept.report.loading import load_comparison
from adept.report.style import arm_colours, looks, ramp

pytest.importorskip("matplotlib")

from adept.report.figures import Pen
from adept.report.plots import DRAWINGS
from adept.report.plots.epochs import decisions
from adept.report.plots.scores import score_against_compute_by_task


def distance(first: str, second: str) -> float:
    parts = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in (first, second)]
    return max(abs(a - b) for a, b in zip(*parts, strict=True))


@pytest.mark.parametrize("count", [2, 3, 6, 7, 8, 10, 12])
def test_neighbouring_numbers_of_epochs_have_different_colours(count):
    colours = arm_colours(range(1, count + 1), range(1, count + 1))
    for first, second in itertools.pairwise(colours.values()):
        assert distance(first, second) >= 14, (first, second)


def test_a_ramp_passes_through_its_stops():
    stops = ("#000000", "#0000ff", "#ffffff")
    assert [ramp(stops, share) for share in (0, 0.25, 0.5, 1)] == ["#000000", "#000080", "#0000ff", "#ffffff"]


def test_methods_are_told_apart(study):
    found = looks(load_comparison([study]))
    assert len({(look.light, look.dash) for look in found.values()}) == len(found)


def drawn(drawing) -> str:
    """Return every text of a figure, line breaks as spaces."""
    from matplotlib.text import Text

    return " | ".join(text.get_text().replace("\n", " ") for text in drawing.figure.findobj(Text))


def test_score_against_compute_by_task_has_a_mark_per_method_and_its_numbers(study):
    analysis = analyze(load_comparison([study]), resamples=100)
    (drawing,) = score_against_compute_by_task(Pen(analysis, looks(analysis.comparison)))
    rows = {(row["task"], row["method"]): row for row in drawing.rows}
    assert {(method, task) for task, method in rows} == set(analysis.tasks)
    for (task, method), row in rows.items():
        runs = analysis.comparison.finished(method, task)
        base = analysis.comparison.finished("fixed-4", task)
        assert row["score"].value == pytest.approx(np.mean([run.score[-1] for run in runs]))
        expected = np.mean([run.update_flops[-1] for run in runs]) / np.mean([run.update_flops[-1] for run in base])
        assert row["update_compute"] == pytest.approx(expected)
    assert [axes.get_title(loc="left") for axes in drawing.figure.axes] == ["DoorKey-6x6", "LavaGapS7"]
    for axes in drawing.figure.axes:
        assert len({line.get_gid().partition("-")[0] for line in axes.lines}) == 5


def test_decisions_are_drawn_once_by_task_and_over_all_and_are_not_folded_away(study):
    analysis = analyze(load_comparison([study]), resamples=100)
    (drawing,) = decisions(Pen(analysis, looks(analysis.comparison)))
    assert {row["place"] for row in drawing.rows} == {"All tasks", "DoorKey-6x6", "LavaGapS7"}
    assert drawing.section == "epochs"
    shares = [row for row in drawing.rows if (row["method"], row["place"]) == ("ucb", "DoorKey-6x6")]
    assert np.sum([row["share"] for row in shares], 0) == pytest.approx(1.0)
    runs = analysis.comparison.finished("ucb", "minigrid/DoorKey-6x6")
    for row in shares:
        assert row["share"][-1] == pytest.approx(np.mean([(run.epochs == row["epochs"]).mean() for run in runs]))


def test_long_names_are_not_cut_off(tmp_path):
    long = "PPO with a name of several words that no figure has room for in one line, {16,8,4,2,1} c=5 W=50"
    methods = [METHODS[0], (METHODS[2][0], long, *METHODS[2][2:])]
    analysis = analyze(compare(tmp_path, methods, TASKS, [1, 2], iterations=6), resamples=100)
    pen = Pen(analysis, looks(analysis.comparison))
    named = [drawing for draw in DRAWINGS for drawing in draw(pen)]
    assert len(named) > 6
    for drawing in named:
        assert "…" not in drawn(drawing)
        assert long in drawn(drawing), drawing.name
