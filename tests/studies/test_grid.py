from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from adept.presets import AUGMENTATIONS, preset
from adept.studies.grid import cell_path, load_study, parse_study, require_continuation, shipped_studies

from .conftest import TEXT


def test_a_study_is_read_in_its_order(study):
    assert [method.name for method in study.methods] == ["fixed-2", "round-robin"]
    assert study.method("fixed-2").label == "PPO (K=2)"
    assert study.seeds == (1, 2)
    assert study.tasks == ("gymnasium/CartPole-v1", "gymnasium/Acrobot-v1")
    assert study.budget == {"gymnasium/CartPole-v1": 512, "gymnasium/Acrobot-v1": 512}
    assert study.iterations("gymnasium/CartPole-v1") == 8


def test_a_cells_configuration_is_the_preset_then_the_base_then_the_method(study):
    config = study.config("round-robin", "gymnasium/CartPole-v1", 2)
    standard = preset("gymnasium/CartPole-v1", "ppo", "round-robin")
    expected = {"environments": 2, "rollout_length": 32, "minibatch_size": 32, "steps": 512, "restart_every": 3}
    assert config == dataclasses.replace(standard, **expected, arms=(2, 1), seed=2)


def test_the_criterion_is_declared_with_the_study(study):
    assert (study.criterion, study.threshold) == ("final-score", None)
    text = TEXT.replace("seeds = 2", "seeds = 2\ncriterion = 'steps-to-threshold'\nthreshold = 1")
    declared = parse_study(text, "t")
    assert (declared.criterion, declared.threshold) == ("steps-to-threshold", 1.0)


CROSSED = TEXT.replace('baseline = "fixed-2"', 'baseline = "fixed-2.as-is"').replace("differs = [", """\
differs = ["learning_rate", """) + """
[axis]
slow = { learning_rate = "preset/30", label = "rate ÷ 30" }
as-is = {}
"""  # fmt: skip


def test_an_axis_is_crossed_with_the_methods():
    study = parse_study(CROSSED, "t")
    names = ["fixed-2.slow", "fixed-2.as-is", "round-robin.slow", "round-robin.as-is"]
    assert [method.name for method in study.methods] == names
    assert study.method("fixed-2.slow").label == "PPO (K=2), rate ÷ 30"
    slow, same = (study.config(name, "gymnasium/CartPole-v1", 1) for name in names[:2])
    assert same.learning_rate == preset("gymnasium/CartPole-v1").learning_rate
    assert slow == dataclasses.replace(same, learning_rate=same.learning_rate / 30)


def test_one_value_of_an_axis_alone_keeps_the_methods_names():
    whole, alone = parse_study(CROSSED, "t"), parse_study('only = "slow"\n' + CROSSED, "t")
    assert (alone.name, alone.baseline) == (f"{whole.name}-slow", "fixed-2")
    assert [method.name for method in alone.methods] == ["fixed-2", "round-robin"]
    task = whole.tasks[0]
    assert alone.config("fixed-2", task, 1) == whole.config("fixed-2.slow", task, 1)
    assert parse_study(alone.text, "again") == alone
    with pytest.raises(ValueError, match="did you mean 'slow'"):
        parse_study('only = "slwo"\n' + CROSSED, "t")


def test_until_pauses_at_whole_iterations(study):
    paused = parse_study(TEXT.replace("seeds = 2", "seeds = 2\nuntil = 200"), "t")
    assert paused.iterations("gymnasium/CartPole-v1") == 3
    assert paused.budget["gymnasium/CartPole-v1"] == 192
    assert paused.config("fixed-2", "gymnasium/CartPole-v1", 1) == study.config("fixed-2", "gymnasium/CartPole-v1", 1)


def test_paths_of_cells():
    path = cell_path(Path("out"), "ucb", "minigrid/DoorKey-6x6", 3)
    assert path == Path("out/runs/minigrid-DoorKey-6x6/ucb/seed-3")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds = 2", "seeds = [1, 1]", "seed 1 twice"),
        ("seeds = 2", "seeds = 0", "seeds must be between 1 and 100,000"),
        ("seeds = 2", "seeds = true", "must be a list, got True"),
        ("seeds = 2", "seedz = 2", "did you mean 'seeds'"),
        ("seeds = 2", "seeds = 2\nuntil = -1", "until must be"),
        ("seeds = 2", "seeds = 2\nuntil = 10", "less than one rollout"),
        ("seeds = 2", "seeds = 2\ncriterion = 'mean-scor'", "did you mean 'mean-score'"),
        ("seeds = 2", "seeds = 2\nthreshold = 0.9", "has no use with the criterion 'final-score'"),
        ("seeds = 2", "seeds = 2\nthreshold = 'high'", "threshold must be a finite number"),
        ('baseline = "fixed-2"', 'baseline = "fixed-3"', "did you mean 'fixed-2'"),
        ('"arms"]', '"arms", "steps"]', "cannot differ in 'steps'"),
        ('"arms"]', '"arms", "learning_rat"]', "did you mean 'learning_rate'"),
        ('"scheduler_options", "arms"]', '"scheduler_options"]', "'fixed-2' sets 'epochs', but"),
        ("steps = 512", "stepz = 512", "did you mean 'steps'"),
        ("steps = 512", "steps = 10", "method 'fixed-2' on gymnasium/CartPole-v1: steps 10 is less"),
        ("arms = [2, 1]", "arms = [2, 2]", "method 'round-robin'"),
        ('name = "round-robin"', 'name = "../x"', "cannot be a folder"),
        ('name = "round-robin"', 'name = "fixed-2"', "'fixed-2' twice"),
        ("[base]", "[base", "is not TOML"),
        ("[base]", "[steps]\n'gymnasium/Pendulum-v1' = 9\n[base]", "task in [steps]"),
        ("[base]", "[steps]\n'gymnasium/CartPole-v1' = 0.5\n[base]", "whole numbers of environment steps"),
        ("arms = [2, 1]", "arms = ['preset+3']", "relative to the preset is 'preset'"),
        ("arms = [2, 1]", "arms = ['preset*0']", "relative to the preset is 'preset'"),
        ("PPO (K=2)", "x" * 20_000, "has 20,000 letters; at most 200 fit"),
        ("A tiny study", "x" * 300, "has 300 letters"),
        ('"PPO (K=2)"', "[1]", "label must be text"),
        ("seeds = 2", "seeds = 2\naxis = 3", "[axis] must give tables"),
        ("[base]", "[axis]\nx = 3\n[base]", "[axis] must give tables"),
        ("[base]", "[axis]\nx = { learning_rat = 1 }\n[base]", "did you mean 'learning_rate'"),
        ("[base]", "[axis]\nx = { scheduler = 'fixed' }\n[base]", "both set 'scheduler'"),
    ],
)
def test_mistakes_are_named_in_one_line(old, new, message):
    assert old in TEXT
    with pytest.raises(ValueError, match=r"the file: |the file is") as error:
        parse_study(TEXT.replace(old, new, 1), "the file")
    assert message in str(error.value)
    assert "\n" not in str(error.value).replace("\nTOML", "")


def test_what_a_preset_changes_must_be_declared():
    text = TEXT.replace('"gymnasium/CartPole-v1", "gymnasium/Acrobot-v1"', '"procgen/coinrun"')
    text = text.replace('"arms"]', '"arms", "algo"]') + 'algo = "drac"\n'
    with pytest.raises(ValueError, match=r"declare '(normalize_rewards|augmentation)' in differs"):
        parse_study(text, "t")


def test_more_of_everything_continues(study):
    more = TEXT.replace("seeds = 2", "seeds = 5").replace('Acrobot-v1"]', 'Acrobot-v1", "gymnasium/MountainCar-v0"]')
    more += '\n[[methods]]\nname = "fixed-1"\nscheduler = "fixed"\narms = [1]\n'
    require_continuation(study, parse_study(more, "t"), "here")
    paused = parse_study(TEXT.replace("seeds = 2", "seeds = 1\nuntil = 200"), "t")
    require_continuation(paused, study, "here")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 512", "steps = 1024", "fixed-2: steps 512 → 1024"),
        ("arms = [2, 1]", "arms = [1, 2]", r"round-robin: arms \(2, 1\) → \(1, 2\)"),
        ("seeds = 2", "seeds = 1", "seeds without 2"),
        (', "gymnasium/Acrobot-v1"', "", "tasks without gymnasium/Acrobot-v1"),
        ('baseline = "fixed-2"', 'baseline = "round-robin"', "baseline fixed-2 → round-robin"),
        ("seeds = 2", "seeds = 2\nuntil = 200", "until the end → 200"),
    ],
)
def test_less_or_other_does_not_continue(study, old, new, message):
    with pytest.raises(ValueError, match=message):
        require_continuation(study, parse_study(TEXT.replace(old, new), "t"), "here")


# The studies that come with the package, against the paper's tables and SPEC.


NO_RIVALS = {"demo", "smoke", "tournament", "tournament-2", "tournament-grid", "procgen-watch",
             "start-anywhere", "full-budget", "procgen-small", "procgen-small-40", "procgen-small-drac"}  # fmt: skip


BY_ALGORITHM = {f"{name}-{algo}" for name in shipped_studies() if load_study(name).baseline.endswith(".ppo")
                for algo in ("ppo", "drac")}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*shipped_studies(), *BY_ALGORITHM} - NO_RIVALS))
def test_every_study_for_evidence_has_fixed_k_for_every_arm_and_a_target_kl(name):
    study = load_study(name)
    assert study.name == name
    adaptive = [method for method in study.methods if method.values["scheduler"] != "fixed"]
    plain = [method for method in study.methods if set(method.values) <= {"scheduler", "epochs", "algo"}]
    fixed = {method.values["epochs"] for method in plain if method.values["scheduler"] == "fixed"}
    configs = [study.config(method.name, study.tasks[0], study.seeds[0]) for method in adaptive]
    assert set(itertools.chain.from_iterable(config.choices for config in configs)) <= fixed
    assert any("target-kl" in method.values.get("stopping", {}) for method in study.methods)


@pytest.mark.parametrize("algo", ["ppo", "drac"])
def test_the_procgen_study_is_the_papers(algo):
    study = load_study(f"procgen-{algo}")
    assert {task.removeprefix("procgen/") for task in study.tasks} == set(AUGMENTATIONS)
    assert len(study.seeds) == 5
    for method, scheduler in (("fixed-3", "fixed"), ("ucb", "ucb"), ("thompson", "thompson")):
        assert study.config(method, "procgen/maze", 1) == preset("procgen/maze", algo, scheduler)
    assert study.config("ucb", "procgen/maze", 1).scheduler_options == {"exploration": 5.0, "window": 10}
    step_size = 1.0 if algo == "ppo" else 0.1
    assert study.config("thompson", "procgen/maze", 1).scheduler_options == {"step_size": step_size, "window": 50}


def test_procgen_is_monitored_at_the_papers_size():
    study = load_study("procgen-watch")
    for task in study.tasks:
        config = study.config("fixed-3", task, 1)
        assert study.iterations(task) == 32
        assert (config.batch_size, config.epochs, config.monitor, config.monitor_every) == (16_384, 3, True, 1)
        assert study.config("hindsight-compute", task, 1).scheduler_options == {"optimize_for": "compute"}


def test_the_searches_are_whole_grids():
    study = load_study("procgen-search-u-ppo")
    options = [method.values["scheduler_options"] for method in study.methods if method.values["scheduler"] == "ucb"]
    found = sorted((entry["exploration"], entry["window"]) for entry in options)
    assert found == sorted(itertools.product((0.1, 1.0, 5.0), (10, 50, 100)))
    study = load_study("procgen-search-g-drac")
    options = [method.values["scheduler_options"] for method in study.methods if "scheduler_options" in method.values]
    found = sorted((entry["step_size"], entry["window"]) for entry in options)
    assert found == sorted(itertools.product((0.1, 0.5, 1.0), (10, 50, 100)))


def test_minigrid_is_the_papers_with_ten_seeds():
    study = load_study("minigrid")
    assert study.budget == dict.fromkeys(study.tasks, 499_712)
    assert study.seeds == tuple(range(1, 11))
    arms = {tuple(method.values["arms"]) for method in study.methods if method.values["scheduler"] == "ucb"}
    assert arms == {(4, 2, 1), (6, 4), (8, 4), (8, 4, 2, 1)}  # the last is ours
    assert study.config("ucb-8-4", study.tasks[0], 1).scheduler_options == {"exploration": 1.0, "window": 50}


def test_the_short_pybullet_study_is_the_beginning_of_the_full_one():
    short, full = load_study("pybullet-500k"), load_study("pybullet")
    require_continuation(short, full, "here")
    assert short.budget["pybullet/Ant"] == 499_712
    assert full.budget["pybullet/Ant"] == 1_998_848


RELATIVE = """
name = "relative"
tasks = ["minigrid/DoorKey-6x6", "pybullet/Ant"]
seeds = [101, 102]
baseline = "preset"
differs = ["scheduler", "scheduler_options", "arms", "learning_rate"]
[steps]
"pybullet/Ant" = 40_960
[base]
steps = 20_480
[[methods]]
name = "preset"
scheduler = "fixed"
arms = ["preset"]
[[methods]]
name = "ucb"
scheduler = "ucb"
arms = ["preset", "preset/2", "preset/100", 1]
[[methods]]
name = "fast"
scheduler = "fixed"
arms = [3]
learning_rate = "preset*3"
"""


def test_values_relative_to_the_preset_follow_the_task():
    study = parse_study(RELATIVE, "x.toml")
    cells = {(method, task): study.config(method, task, 101) for method in ("preset", "ucb", "fast")
             for task in study.tasks}  # fmt: skip
    door, ant = study.tasks
    assert [cells["preset", task].epochs for task in study.tasks] == [4, 10]
    assert [cells["ucb", task].arms for task in study.tasks] == [(4, 2, 1), (10, 5, 1)], "what coincides is one arm"
    assert cells["fast", door].learning_rate == pytest.approx(3e-3)
    assert cells["fast", ant].learning_rate == pytest.approx(6e-4)
    assert study.budget == {door: 20_480, ant: 40_960}


@pytest.mark.parametrize("name", shipped_studies())
def test_a_shipped_study_declares_what_decides(name):
    assert "\ncriterion = " in load_study(name).text


@pytest.mark.parametrize(("name", "rule"), [("tournament", {"critic": "shared"}), ("tournament-2", {})])
def test_the_tournament_is_held_out_and_relative_to_the_preset(name, rule):
    study = load_study(name)
    developed = {"pybullet/HalfCheetah", "pybullet/Walker2D", "minigrid/DoorKey-6x6", "CartPole", "Pendulum"}
    assert len(study.tasks) == 12
    assert not [task for task in study.tasks for name in developed if name in task]
    assert len(study.seeds) == 10
    assert min(study.seeds) > 100, "development used small seeds"
    assert study.criterion == "mean-score"
    for task in study.tasks:
        standard = preset(task, "ppo", "fixed")
        assert dataclasses.replace(standard, seed=101, steps=study.steps[task], monitor=False) == study.config(
            "preset", task, 101
        )
        epochs = standard.epochs
        assert study.config("ucb", task, 101).arms == tuple(dict.fromkeys((epochs, max(1, round(epochs / 2)), 1)))
        assert study.config("k3-rate3", task, 101).learning_rate == pytest.approx(3 * standard.learning_rate)
        assert study.config("hindsight-compute", task, 101).scheduler_options == {"optimize_for": "compute", **rule}
        assert study.config("target-kl", task, 101).stopping == {"target-kl": 0.02}


def test_the_second_tournament_has_other_seeds_and_the_grid_some_of_them():
    first, second, grid = (load_study(name) for name in ("tournament", "tournament-2", "tournament-grid"))
    assert not set(second.seeds) & {111, 112, 113, 114, 115}
    assert (second.tasks, dict(second.steps)) == (first.tasks, dict(first.steps)) == (grid.tasks, dict(grid.steps))
    assert grid.seeds == second.seeds[:5]
    configs = [study.config(method.name, "pybullet/Ant", 116) for study in (second, grid) for method in study.methods]
    fixed = [config for config in configs if config.scheduler == "fixed" and not config.stopping]
    pairs = [(config.epochs, round(config.learning_rate, 9)) for config in fixed]
    assert sorted(pairs) == sorted((epochs, round(2e-4 * factor, 9)) for epochs in (10, 3, 1) for factor in (1, 3, 10))
