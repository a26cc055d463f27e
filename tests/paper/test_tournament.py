"""The tournament's numbers by hand: what is compared, how scores are normalised, and the rules of the answers."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adept.config import Config
from adept.report.comparison import ComparedMethod, Comparison, Run
from adept.studies.grid import load_study
from adept.studies.results import pack
from paper.tournament import page
from paper.tournament.answers import answers, optimizing_for_compute, optimizing_for_samples
from paper.tournament.field import (
    FIRST,
    SECOND,
    Tournament,
    build,
    load_tournament,
    load_tournaments,
    make_field,
    select,
)

WITH_GRID = replace(FIRST, grid="grid")

TASKS = ("a/One", "a/Two")
SEEDS = (1, 2, 3, 4, 5)
CONFIG = Config(env="gymnasium/CartPole-v1", scheduler="fixed", epochs=10)
STEPS = np.arange(1.0, 6.0)
WIGGLE = (-2.0, -1.0, 0.0, 1.0, 2.0)


def run(method: str, task: str, seed: int, end: float, flops: float, state: str = "done") -> Run:
    """A run that begins at -100 and comes to `end` at the third of five steps."""
    score = np.array([-100.0, -100.0, end, end, end])
    spent = flops * STEPS
    return Run(method, task, seed, state, steps=STEPS, score=score, flops=spent, update_flops=spent, processor=spent,
               epochs=np.full(5, 3.0), epochs_done=np.full(5, 3.0))  # fmt: skip


def comparison(
    ends: Mapping[str, tuple[float, float, float]], grid: Mapping[str, tuple[float, float, float]]
) -> Comparison:
    """Methods by their ends on both tasks and their FLOPs; those that are called hindsight or ucb are adaptive."""
    methods = [ComparedMethod(name, name, CONFIG if name.startswith(("preset", "k", "rate")) and "kl" not in name
                      else replace(CONFIG, scheduler="hindsight"), FIRST.study if name in ends else "grid")
               for name in (*ends, *grid)]  # fmt: skip
    runs = [run(name, task, seed, values[index] + shift, values[2])
            for name, values in {**ends, **grid}.items() for index, task in enumerate(TASKS)
            for seed, shift in zip(SEEDS, WIGGLE, strict=True)]  # fmt: skip
    budget = dict.fromkeys(TASKS, 5.0)
    return Comparison("", tuple(methods), TASKS, tuple(runs), "preset", budget, (), criterion="mean-score")


FIELD = {
    "preset": (100.0, 100.0, 10.0),
    "hindsight-samples": (200.0, 200.0, 10.0),
    "hindsight-compute": (120.0, 120.0, 4.0),
    "ucb": (0.0, 60.0, 5.0),
    "kl-rate": (140.0, 140.0, 10.0),
    "k3": (60.0, 60.0, 3.0),
}
PAIRS = {"rate3": (220.0, 20.0, 10.0), "k1": (20.0, 260.0, 1.0)}


def without(found: Comparison, *cells: tuple[str, str, int]) -> Comparison:
    return replace(found, runs=tuple(replace(one, state="missing") if (one.method, one.task, one.seed) in cells else one
                                     for one in found.runs))  # fmt: skip


def test_seeds_that_lack_a_run_are_left_out_for_all():
    found = select(without(comparison(FIELD, {}), ("ucb", "a/One", 2)), FIELD, ("k3",))
    # Without k3, too, there are four complete seeds: dropping gains nothing, so nothing is dropped.
    assert found.seeds == (1, 3, 4, 5)
    assert found.methods == tuple(FIELD)
    assert found.dropped == ()


def test_methods_are_dropped_in_the_declared_order_until_five_seeds_are_complete():
    lacking = without(comparison(FIELD, {}), *(("k3", "a/One", seed) for seed in (1, 2, 3, 4, 5)), ("ucb", "a/Two", 1))
    found = select(lacking, FIELD, ("kl-rate", "k3", "ucb"))
    assert found.dropped == ("kl-rate", "k3", "ucb")
    assert found.seeds == SEEDS
    found = select(lacking, FIELD, ("kl-rate", "k3"))
    assert (found.dropped, found.seeds) == (("kl-rate", "k3"), (2, 3, 4, 5))
    found = select(lacking, FIELD, ("kl-rate", "a/One"))
    assert (found.tasks, found.seeds) == (("a/Two",), (2, 3, 4, 5))


def test_nothing_is_said_of_fewer_than_five_complete_seeds():
    lacking = without(comparison(FIELD, {}), ("preset", "a/One", 1))
    found = build(lacking, 50)
    assert found.field is None
    blocks = page.tournament_blocks(found)
    assert blocks["tournament"].startswith("*Under way.* 59 of 60 runs are finished.")
    assert build(comparison(FIELD, {}), 50).field is not None


@pytest.mark.parametrize("rules", [FIRST, SECOND])
def test_the_order_is_that_of_the_studys_file(rules):
    study = load_study(rules.study)
    comment = study.text[study.text.index("in this order") : study.text.index("The page speaks")]
    named = re.findall(r"(?<![\w/-])[\w/-]+(?![\w/-])", comment)
    known = {*study.tasks, *(method.name for method in study.methods)}
    assert [name for name in named if name in known] == list(rules.dropped_first)


def test_scores_are_shares_of_what_the_preset_learned():
    # Mean over the run of a curve -100, -100, v, v, v by the trapezoid rule: (-150 + 2.5 v)/4; from the start of -100:
    # 62.5 + 0.625 v, and the preset's is 125. So v = 200 is 1.5, v = 0 is 0.5, and v = 120 is 1.1.
    field = build(comparison(FIELD, {}), 200).field
    assert field is not None
    means = {name: [float(task.mean()) for task in field.scores(name)] for name in FIELD}
    assert means["preset"] == pytest.approx([1.0, 1.0])
    assert means["hindsight-samples"] == pytest.approx([1.5, 1.5])
    assert means["hindsight-compute"] == pytest.approx([1.1, 1.1])
    assert means["ucb"] == pytest.approx([0.5, 0.8])
    assert field.gap("hindsight-compute", "preset").value == pytest.approx(0.1)
    assert field.compute("hindsight-compute") == pytest.approx(0.4)
    assert field.compute("hindsight-compute", "kl-rate") == pytest.approx(0.4)
    assert field.processor("ucb") == pytest.approx(0.5)


def test_compute_of_the_last_quarter_leaves_out_what_came_before():
    found = comparison(FIELD, {})
    # The preset spends 10 in each of five steps, this bandit 2 in the last one: 42 of 50. The last row before the last
    # quarter is that of step 3, so that 12 of 20 are left.
    runs = tuple(replace(one, update_flops=np.array([10.0, 20.0, 30.0, 40.0, 42.0])) if one.method == "ucb" else one
                 for one in found.runs)  # fmt: skip
    field = build(replace(found, runs=runs), 50).field
    assert field is not None
    assert field.compute("ucb") == pytest.approx(0.84)
    assert field.compute_of_the_last_quarter("ucb") == pytest.approx(0.6)
    assert field.compute_of_the_last_quarter("preset") == pytest.approx(1.0)
    assert "In the last quarter of the runs it takes 40 % of the update FLOPs." in page.advice(build(found, 50))


def test_the_table_by_task_says_what_hindsight_saves_there():
    found = comparison(FIELD, {})
    # The preset spends 50 on each task; compute spends 4 a step, 20, and on the second task three times that.
    optimize_for = ("hindsight-compute", "a/Two")
    runs = tuple(replace(one, update_flops=3 * one.update_flops) if (one.method, one.task) == optimize_for else one
                 for one in found.runs)  # fmt: skip
    field = build(replace(found, runs=runs), 50).field
    assert field is not None
    assert field.compute_by_task("hindsight-compute") == pytest.approx([0.4, 1.2])
    assert field.compute("hindsight-compute") == pytest.approx(0.8)
    header, _, *rows = page.task_table(field).splitlines()
    assert header.endswith("| k3 | update FLOPs of hindsight-compute |")  # samples takes as much as the preset
    assert [row.split(" | ")[-1] for row in rows] == ["40 % |", "120 % |"]


def test_the_lead_by_quarters_of_the_run():
    field = build(comparison(FIELD, {}), 50).field
    assert field is not None
    # Five steps, of which quarters have 1.25. Both are at -100 until step 3; the preset then has 100, samples 200, and
    # on the scale of what the preset learned, 125, the lead of 100 is 0.8.
    # The third quarter, from step 2.5 to 3.75, has it in 0.75 of its 1.25 steps.
    leads = [field.gap_in_quarter("hindsight-samples", quarter).value for quarter in range(4)]
    assert leads == pytest.approx([0.0, 0.0, 0.8 * 0.75 / 1.25, 0.8])
    assert field.gap_in_quarter("preset", 3).value == 0
    assert "+80.0 % [+80.0, +80.0]" in page.quarter_table(field)


def test_processor_time_is_compared_between_runs_of_one_commit_and_one_processor():
    found = comparison(FIELD, {})
    # Seeds 1 and 2 of ucb were made where the preset's were, the others on a machine that is ten times as fast, and
    # all of K=3's there. Those of ucb that count took 5 of 10; the mean over all of them would be 0.26.
    moved = {("ucb", seed) for seed in (3, 4, 5)} | {("k3", seed) for seed in SEEDS}

    def placed(one: Run) -> Run:
        away = (one.method, one.seed) in moved
        start = {"commit": "b" if away else "a", "processor": "A"}
        return replace(one, starts=(start,), processor=one.processor / (10 if away else 1))

    field = build(replace(found, runs=tuple(map(placed, found.runs))), 50).field
    assert field is not None
    assert field.processor("ucb") == pytest.approx(0.5)
    assert np.isnan(field.processor("k3"))
    assert "| 40 % | 40 % |" in page.method_table(field)  # hindsight-compute
    assert "| 30 % | – |" in page.method_table(field)  # k3


def test_questions_are_answered_by_their_rules():
    found = build(comparison(FIELD, PAIRS), 200, WITH_GRID)
    verdicts = [(answer.question, answer.verdict) for answer in answers(found)]
    named = {name: [verdict for question, verdict in verdicts if f" {name}:" in question] for name in FIELD}
    # Better in every run; as many FLOPs as the preset; nowhere worse; ahead of the rule by KL, with as many FLOPs;
    # ahead of the best pair over all tasks, k1 with 0.6 and 1.8. Against each task's best 1.5 stands
    # against 1.6 and 1.8.
    expected = ["shown", "contrary", "shown", "shown", "shown", "shown", "contrary"]
    assert named["hindsight-samples"] == expected
    # Behind the rule by KL by 0.1 with less than half of its FLOPs, and behind the best pairs by 0.1 and 0.6.
    assert named["hindsight-compute"] == ["shown", "shown", "shown", "contrary", "shown", "contrary", "contrary"]
    # 0.65 against 1: neither better nor without loss; and behind K=3, which costs less and has 0.8.
    assert named["ucb"] == ["contrary", "contrary", "contrary"]


def test_the_best_pairs_are_picked_after_the_fact():
    grid = build(comparison(FIELD, PAIRS), 200, WITH_GRID).grid
    assert grid is not None
    assert grid.fixed_pairs() == ["preset", "k3", "rate3", "k1"]
    assert grid.best_pairs() == {"a/One": "rate3", "a/Two": "k1"}
    means = [float(np.mean(task)) for task in grid.scores_of_best_pairs()]
    assert means == pytest.approx([1.6, 1.8])  # 220 and 260
    assert grid.best_pair() == "k1"


def test_the_grid_waits_for_five_complete_seeds():
    lacking = build(without(comparison(FIELD, PAIRS), ("k1", "a/Two", 4)), 50, WITH_GRID)
    assert lacking.field is not None
    assert lacking.grid is None
    assert page.grid_block(lacking) == (
        "*Under way.* 19 of 20 runs are finished. Results are shown from five complete seeds on."
    )
    assert "whose runs are not finished yet" in page.answer_table(lacking)


def test_a_tuned_pair_is_chosen_on_the_other_seeds():
    found = comparison({"preset": FIELD["preset"], "hindsight-samples": FIELD["hindsight-samples"]}, PAIRS)
    # On the first task seed 5 of rate3 is far ahead. With that seed rate3 has the highest mean, so it is chosen for
    # seeds 1 to 4. For seed 5 itself the choice is made without it.
    ends = {("rate3", "a/One"): (98, 99, 100, 101, 1102), ("k1", "a/One"): (130,) * 5}
    runs = tuple(replace(one, score=np.where(STEPS < 3, -100.0, ends[one.method, one.task][one.seed - 1]))
                 if (one.method, one.task) in ends else one for one in found.runs)  # fmt: skip
    grid = build(replace(found, runs=runs), 50, WITH_GRID).grid
    assert grid is not None
    # An end of v is worth 62.5 + 0.625 v of the preset's 125: 0.5 + v/200.
    assert grid.best_pairs() == {"a/One": "rate3", "a/Two": "k1"}
    first, second = grid.scores_of_tuned_pairs(by_task=True)
    assert first == pytest.approx([0.99, 0.995, 1.0, 1.005, 1.15])
    assert second == pytest.approx([0.5 + (260 + shift) / 200 for shift in WIGGLE])
    # Over all tasks the IQM of K=1 is the highest whatever seed is left out: the one large score is cut off.
    first, second = grid.scores_of_tuned_pairs(by_task=False)
    assert first == pytest.approx([1.15] * 5)
    assert second == pytest.approx([0.5 + (260 + shift) / 200 for shift in WIGGLE])
    text = page.grid_block(Tournament(found, None, grid, 4))
    assert "| the best pair of each task, tuned on the other seeds | " in text


def test_what_to_use_follows_from_what_is_shown():
    field = build(comparison(FIELD, {}), 200).field
    assert field is not None
    assert optimizing_for_samples(field).name == "hindsight-samples"
    assert optimizing_for_compute(field).name == "hindsight-compute"
    assert "saves 60 %" in optimizing_for_compute(field).text
    # Where the cheap one loses 0.2 and the good one is worse on one task, the preset it is.
    worse = {**FIELD, "hindsight-samples": (400.0, 60.0, 10.0), "hindsight-compute": (60.0, 60.0, 4.0),
             "kl-rate": (60.0, 60.0, 10.0)}  # fmt: skip
    field = build(comparison(worse, {}), 200).field
    assert field is not None
    assert field.different("hindsight-samples", 1) == ["a/One"]
    assert field.different("hindsight-samples", -1) == ["a/Two"]
    assert optimizing_for_samples(field).name is None
    assert optimizing_for_compute(field).name is None


def test_tasks_are_not_tested_with_too_few_seeds():
    # Fully separated runs have p = 2/C(10, 5) = 0.008 with five seeds and 2/C(8, 4) = 0.029 with four; Holm's step
    # multiplies by the tasks, here two: 0.016 and 0.057.
    five = build(comparison(FIELD, {}), 50)
    assert five.field is not None
    assert five.field.tells_tasks_apart
    four = replace(five.field, selection=replace(five.field.selection, seeds=(1, 2, 3, 4)))
    assert not four.tells_tasks_apart
    worse = [answer for answer in answers(replace(five, field=four)) if "on no task" in answer.question]
    assert [(answer.measured, answer.verdict) for answer in worse] == [
        ("too few seeds for a test of 2 tasks", "not shown")
    ] * 2
    assert " 2 / 0 " in page.method_table(five.field)
    assert " / " not in page.method_table(four).partition("---:")[2]


def test_the_sentences_compare_with_the_rule_by_kl_the_pairs_and_the_clock():
    lines = page.advice(build(comparison(FIELD, PAIRS), 200, WITH_GRID)).splitlines()
    assert len(lines) == 10
    # Runs of one seed differ from the preset's by the same amount: paired, nothing is uncertain.
    assert "hindsight-samples +50.0 % \\[+50.0, +50.0\\], 10 runs ahead, 0 equal and 0 behind" in lines[5]
    assert "Against kl-rate: hindsight-samples +30.0 % " in lines[6]
    assert "hindsight-compute -10.0 % " in lines[6]
    assert "for 40 % of its update FLOPs" in lines[6]
    assert "pair over all tasks is k1 (selected after the fact)" in lines[7]
    assert "hindsight-samples -20.0 % " in lines[8]  # 1.5 against 1.6 and 1.8
    assert "and 40 % of its processor time" in lines[9]


def test_a_task_on_which_the_preset_learns_nothing_is_named_and_left_out():
    flat = {name: (values[0], -100.0 - 5 * (name == "preset"), values[2]) for name, values in FIELD.items()}
    found = build(comparison(flat, {}), 200)
    assert found.field is not None
    assert found.field.flat == ("a/Two",)
    assert "does not improve on a/Two" in page.state(found)


def test_the_table_counts_and_says_what_is_missing():
    found = build(comparison(FIELD, {}), 200)
    assert found.field is not None
    row = next(line for line in page.method_table(found.field).splitlines() if line.startswith("| hindsight-compute"))
    assert "110 %" in row
    assert "| 40 % | 40 % | 1.00 [1.00, 1.00] | 2 / 0 | yes |" in row
    lacking = without(comparison(FIELD, {}), ("preset", "a/One", 5))
    partly = Tournament(lacking, make_field(lacking, select(lacking, FIELD, ()), 5, 200), None)
    assert "with 4 of 5 seeds: 48 runs" in page.state(partly)
    nothing = build(replace(lacking, runs=tuple(replace(one, state="failed") for one in lacking.runs)), 200)
    assert page.tournament_blocks(nothing)["tournament"].startswith("*Under way.* 0 of 60 runs")
    assert page.tournament_blocks(None)["tournament-grid"] == "*Not run yet.*"
    assert page.summary_table(None) == ""


def test_blocks_and_figures_follow_from_packed_records(tmp_path: Path):
    sys.path.insert(0, str(Path(__file__).parent.parent / "report"))
    from synthetic import write_study

    methods = [
        ("preset", "preset", {"scheduler": "fixed", "epochs": 4}, 0.8, 0.3),
        ("hindsight-samples", "hindsight (samples)", {"scheduler": "hindsight", "epochs": 4}, 0.9, 0.2),
        ("ucb", "ADEPT(U)", {"scheduler": "ucb", "arms": [4, 2, 1]}, 0.8, 0.3),
    ]
    folder = tmp_path / FIRST.study
    write_study(folder, methods, ["minigrid/LavaGapS7", "minigrid/Empty-16x16"], [1, 2], iterations=12)
    file = folder / "study.toml"
    file.write_text(file.read_text().replace('"synthetic"', f'"{FIRST.study}"').replace(
        "baseline =", 'criterion = "mean-score"\nbaseline ='))  # fmt: skip
    pack(folder)
    found, again = (load_tournament(FIRST, tmp_path, 200) for _ in range(2))
    assert found is not None
    blocks = page.tournament_blocks(found)
    assert blocks == page.tournament_blocks(again)
    assert "3 methods on 2 tasks with 2 of 2 seeds: 12 runs." in blocks["tournament"]
    assert "| preset | " in blocks["tournament"]
    assert blocks["tournament-grid"] == "*Not run yet.*"
    assert [line.split(" | ")[0] for line in blocks["tournament-tasks"].splitlines()[2:]] == [
        "| LavaGapS7",
        "| Empty-16x16",
    ]
    assert page.summary_table(found).count("\n") == 4
    names = [drawing.name for drawing in page.tournament_drawings(found)]
    assert names == ["score-against-compute", "per-task-differences"]
    assert load_tournament(SECOND, tmp_path, 200) is None
    assert [each.rules for each in load_tournaments(tmp_path, 200)] == [FIRST]


def test_the_page_speaks_of_the_newest_study_with_enough_seeds_and_shows_the_other():
    found = comparison(FIELD, {})
    first, second = build(found, 50), replace(build(found, 50), rules=SECOND)
    blocks = page.tournament_blocks(second, first)
    assert "results/tournament-2/figures" in blocks["tournament"]
    assert blocks["tournament-earlier"].startswith(page.method_table(first.field))
    assert "with 5 of 5 seeds" in blocks["tournament-earlier"]
    assert "first tournament" not in blocks["tournament-answers"]
    lacking = replace(found, methods=tuple(method for method in found.methods if method.name != "ucb"),
                      runs=tuple(run for run in found.runs if run.method != "ucb"))  # fmt: skip
    answered = page.tournament_blocks(replace(build(lacking, 50), rules=SECOND), first)["tournament-answers"]
    assert "| 5. ucb: better than the preset (in the first tournament) | -35.0 %" in answered
    begun = build(without(found, ("preset", "a/One", 1)), 50)
    told = page.tournament_blocks(first, replace(begun, rules=SECOND))["tournament-earlier"]
    assert told.startswith("The study tournament-2 is under way. 59 of 60 runs are finished.")


def test_runs_are_compared_with_those_of_the_same_seed_where_that_is_declared():
    """Runs differ by seed as much as methods do: unpaired nothing is shown, paired everything is."""
    near = {name: (102.0, 102.0, 4.0) if name == "hindsight-samples" else values for name, values in FIELD.items()}
    spread = comparison(near, {})
    runs = tuple(replace(one, score=one.score + 40 * one.seed) for one in spread.runs)
    methods = tuple(replace(method, source=SECOND.study) for method in spread.methods)
    plain = build(replace(spread, runs=runs), 200).field
    paired = build(replace(spread, runs=runs, methods=methods), 200, SECOND).field
    assert plain is not None
    assert paired is not None
    assert plain.chance("hindsight-samples").low < 0.5 < plain.chance("hindsight-samples").high
    assert not plain.better("hindsight-samples")
    assert paired.chance("hindsight-samples").low == paired.chance("hindsight-samples").value == 1
    assert paired.better("hindsight-samples")
    assert "of the same seed" in page.standing(paired, "hindsight-samples")
    apart, together = (field.analysis.tasks["hindsight-samples", "a/One"].difference for field in (plain, paired))
    assert apart.value == pytest.approx(together.value)
    assert apart.low < 0 < apart.high
    assert together.low == pytest.approx(together.value) == pytest.approx(together.high)
    assert "which was not declared" not in page.advice(Tournament(spread, paired, None, 0, SECOND))
