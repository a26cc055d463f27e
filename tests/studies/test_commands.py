from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from adept.cli import main
from adept.commands import study as commands
from adept.envs import BACKENDS, Discrete
from adept.flops import pass_flops
from adept.networks import make_network
from adept.presets import preset
from adept.runs.energy import measured_energy
from adept.runs.runner import run_one
from adept.studies.engines import Event
from adept.studies.estimate import estimate, expected_epochs, rate_for
from adept.studies.grid import parse_study
from adept.studies.progress import Progress, prices
from adept.studies.results import load_results, results_of
from adept.studies.work import last_iteration, mark_failed
from adept.terminal import duration
from adept.terminal import flops as cost

from .conftest import TASK, TEXT, with_method, write_run

OTHER = "gymnasium/Acrobot-v1"


def test_status_counts_every_method_and_task(directory, capsys):
    result = commands.status(commands.StatusOptions(directory))
    assert result["runs"] == 8
    assert result["counts"] == {"done": 2, "running": 0, "interrupted": 1, "failed": 1, "missing": 4}
    expected = {"done": 1, "running": 0, "interrupted": 0, "failed": 1, "missing": 0}
    assert result["methods"]["fixed-2"][TASK] == expected
    assert result["failed"] == [{"method": "fixed-2", "task": TASK, "seed": 2, "error": "ValueError: no"}]
    assert json.loads(json.dumps(result)) == result
    out = capsys.readouterr().out
    assert "1/2 done, 1 failed" in out
    assert "0/2 done, 2 missing" in out
    assert f"failed: {TASK} · fixed-2 · seed 2: ValueError: no" in out


def test_a_dry_run_runs_nothing_and_says_where_its_rates_are_from(tmp_path, capsys):
    options = commands.StudyOptions("smoke", tmp_path / "new", dry_run=True)
    result, code = commands.study(options)
    assert code == 0
    assert not (tmp_path / "new").exists()
    assert result["total"]["runs"] == 16
    cell = result["cells"][0]
    # 48 iterations: (128+1)·16 forward passes of 64 kFLOPs, then 4 epochs of 2048 rows, three passes' worth each.
    # Monitoring: two passes for the slope, six for gains (the start, epochs 1 and 2, three lengths), one of the critic.
    # An iteration makes 128 + 3·4·(8 + 1) + 12 = 248 calls. Nine passes are 45 calls, a twentieth of those of four
    # iterations: 11 of 47 updates are measured, on rows for a twentieth of four iterations' passes: 4·1332/9 = 592.
    assert cell["flops"] == pytest.approx(48 * (129 * 16 + 3 * 2048 * 4) * 64_000 + 11 * 9 * 592 * 64_000, rel=1e-12)
    sampling, update = BACKENDS["minigrid"].microseconds[1]
    assert cell["seconds"] == pytest.approx(48 * 2048 * (sampling + 4 * update) * 1e-6)
    assert result["total"]["seconds_of_workers"] == pytest.approx(result["total"]["seconds"] / 2)
    assert "not measured here" in capsys.readouterr().out


def test_a_dry_run_needs_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smoke").mkdir()  # what stands here is not asked about
    without, _ = commands.study(commands.StudyOptions("smoke", dry_run=True, json=True))
    fresh, _ = commands.study(commands.StudyOptions("smoke", tmp_path / "new", dry_run=True, json=True))
    assert without == fresh


def test_a_rough_rate_follows_the_networks_flops():
    """A pass of impala takes a third of an epoch's 2300 µs on a row; impala-small has a part of its FLOPs."""
    config = preset("procgen/bigfish", scheduler="fixed")
    whole, small = rate_for(config, {}), rate_for(replace(config, network="impala-small"), {})
    assert (whole.sampling, whole.update) == pytest.approx((1000e-6, 2300e-6))
    network = make_network("impala-small", (3, 64, 64), Discrete(15), 0)
    share = pass_flops(network, (3, 64, 64))[0] / 61_218_816
    multiplications = 1024 * 48 * 16 + 256 * 144 * (16 + 16 + 32) + 64 * 288 * (32 + 32) + 2048 * 256 + 256 * 16
    assert share == pytest.approx(2 * multiplications / 61_218_816)
    assert small.update == pytest.approx(2300e-6 * share)
    assert small.sampling == pytest.approx((1000 - 2300 / 3 * (1 - share)) * 1e-6)
    assert whole.step(3) / small.step(3) > 4
    assert "impala-small" in small.source


THREE_SEEDS = """
name = "three-seeds"
tasks = ["gymnasium/CartPole-v1"]
seeds = 3
baseline = "k4"
differs = ["scheduler", "epochs", "arms"]
[base]
scheduler = "fixed"
steps = 2048
""" + "".join(f'[[methods]]\nname = "k{k}"\nepochs = {k}\n' for k in (4, 3, 2, 1))


def test_a_study_that_cannot_show_a_winner_says_so_before_it_runs_and_as_it_stands(tmp_path, capsys):
    """Three seeds, one task, three rivals: 3 × 2/C(6, 3) = 0.30 at best."""
    file = tmp_path / "study.toml"
    file.write_text(THREE_SEEDS)
    result, _ = commands.study(commands.StudyOptions(str(file), tmp_path / "new", dry_run=True))
    said = " ".join(capsys.readouterr().out.split())
    assert "3 seeds on 1 task cannot show a winner" in said
    assert "6 seeds are needed" in said
    assert result["winner"]["smallest_p"] == pytest.approx(0.30, abs=0.03)
    assert result["winner"]["seeds_needed"] == 6
    assert commands.status(commands.StatusOptions(tmp_path))["winner"] == result["winner"]
    assert "6 seeds are needed" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("method", ["fixed", "hindsight"])
def test_the_flops_of_a_dry_run_are_those_of_the_run(method, tmp_path):
    """With fixed epochs the estimate leaves little to chance: it is what the run counts, monitoring included."""
    text = TEXT.replace('scheduler = "fixed"\narms = [2]', f'scheduler = "{method}"\nepochs = 4')
    # With gains after every update slopes are measured also where the critic is blind, which nobody can foresee.
    text = text.replace('"arms"]', '"epochs", "arms"]').replace("steps = 512", "steps = 2048\nmonitor_every = 1")
    results = results_of(parse_study(text, "the test"), tmp_path)
    (before,) = [each for each in estimate(results) if each.cell.key == ("fixed-2", TASK, 1)]
    counted = run_one(before.cell.config, before.cell.path)["flops"]
    assert before.flops is not None
    # Hindsight may make its first update again, up to three times: 4 epochs of 64 rows, three passes of 17,792 FLOPs.
    again = (counted - before.flops) / (4 * 3 * 64 * 17_792)
    assert again == pytest.approx(round(again), abs=1e-6)
    assert round(again) in (range(4) if method == "hindsight" else (0,))


def test_epochs_that_hindsight_saves_are_not_counted():
    config = replace(preset("gymnasium/CartPole-v1", "ppo", "hindsight"), epochs=20)
    assert expected_epochs(replace(config, scheduler_options={"optimize_for": "samples"})) == 20
    saving = replace(config, scheduler_options={"optimize_for": "compute"})
    assert expected_epochs(saving) == 8  # 0.4 of them
    assert expected_epochs(replace(saving, epochs=5)) == 3  # and at least 3


def test_a_dry_run_says_when_the_run_needs_trust(tmp_path, capsys):
    file = tmp_path / "outside.toml"
    file.write_text(with_method(TEXT, "outside", "faulty_schedulers:Broken"))
    options = commands.StudyOptions(str(file), tmp_path / "new", dry_run=True)
    result, code = commands.study(options)
    assert (code, result["names_code"]) == (0, ["faulty_schedulers:Broken"])
    said = " ".join(capsys.readouterr().out.split())
    assert "the study names code to import: faulty_schedulers:Broken; running it needs --trust" in said
    commands.study(replace(options, trust=True))
    assert "--trust" not in capsys.readouterr().out
    with pytest.raises(ValueError, match="--trust"):
        commands.study(replace(options, dry_run=False))


def write_rates(path, *, iteration=1, scale=1):
    """Write an iteration of 10 ms a step and 10 ms a row and epoch, or so many times as much."""
    row = {"iteration": iteration, "step": 64, "epochs_done": 2, "environment_seconds": 0.5 * scale,
           "inference_seconds": 0.14 * scale, "update_seconds": 1.28 * scale}  # fmt: skip
    (path / "iterations.csv").write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")


def test_rates_measured_in_the_folder_go_first(study, tmp_path):
    write_run(study, tmp_path, "fixed-2", TASK, 1)
    write_rates(results_of(study, tmp_path).cell("fixed-2", TASK, 1).path)
    estimates = {each.cell.key: each for each in estimate(results_of(study, tmp_path))}
    done, todo = estimates["fixed-2", TASK, 1], estimates["round-robin", TASK, 2]
    assert done.steps == done.seconds == 0
    assert todo.epochs == 1.5
    # 10 ms a step of sampling and 10 ms a row and epoch, up to the four digits that are kept: 512 · (1 + 1.5) · 10 ms.
    assert todo.seconds == pytest.approx(12.8, rel=1e-3)
    assert todo.source == f"measured in 1 runs of {TASK} here"


def test_flops_prints_its_object(capsys):
    words = ["flops", "gymnasium/CartPole-v1", "--arms", "4", "1"]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["arms"] == [4, 1]
    assert main(words) == 0
    assert f"{result['forward_flops']:,} FLOPs" in capsys.readouterr().out


def test_numbers_in_words():
    assert [*map(duration, (0.4, 59, 61, 3720, 200_000))] == ["0 s", "59 s", "1 min 01 s", "1 h 02 min", "2.3 days"]
    words = ["?", "0 FLOP", "999 FLOP", "61.22 MFLOP", "15.3 PFLOP"]
    assert [*map(cost, (None, 0, 999, 61_218_816, 1.53e16))] == words


def test_the_last_iteration_is_of_a_whole_line(tmp_path):
    assert last_iteration(tmp_path) == 0
    (tmp_path / "iterations.csv").write_text("iteration,step\n")
    assert last_iteration(tmp_path) == 0
    (tmp_path / "iterations.csv").write_text("iteration,step\n1,64\n2,128\n3,1")
    assert last_iteration(tmp_path) == 2


def test_another_runs_folder_is_not_marked(study, directory):
    cell = load_results(directory).cell("round-robin", TASK, 2)
    before = (cell.path / "status").read_text()
    mark_failed(replace(cell, config=study.config("fixed-2", TASK, 1)), "no")
    assert (cell.path / "status").read_text() == before
    mark_failed(cell, "yes")
    assert load_results(directory).cell(*cell.key).error == "yes"


def test_progress_guesses_what_is_left(directory, monkeypatch, capsys):
    results = load_results(directory)
    cells = [cell for cell in results.cells if cell.state != "done"]
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Progress(results, cells, "a test") as progress:
        progress.show(Event("started", cells[0]))
        path = cells[0].path
        path.mkdir(parents=True, exist_ok=True)
        (path / "iterations.csv").write_text("iteration\n4\n")
        now = 110.0
        progress.show(Event("done", cells[0]))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "study tiny: 6 of 8 runs to do, by a test"
    # Two runs had made all their 512 steps. Of the other 4 · 512, 256 of fixed-2 took 10 s. At 200 µs and 10 µs for an
    # epoch, its steps cost 220 and those of round-robin 215: (256 · 220 + 512 · (220 + 2 · 215)) / (256 · 220) · 10 s.
    assert lines[1] == f"[3/8] {cells[0]} done in 10 s · about 1 min 09 s left"


def test_progress_prices_steps_again_when_the_first_run_of_a_task_is_done(study, tmp_path, monkeypatch, capsys):
    results = results_of(study, tmp_path)
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Progress(results, results.cells, "a test") as progress:
        for task, scale in ((TASK, 1), (OTHER, 10)):
            cell = results.cell("fixed-2", task, 1)
            progress.show(Event("started", cell))
            write_run(study, tmp_path, "fixed-2", task, 1)
            write_rates(cell.path, iteration=8, scale=scale)
            now += 10.0
            progress.show(Event("done", cell))
    told = [line.rpartition(" · ")[2] for line in capsys.readouterr().err.splitlines()[1:]]
    # A step costs 30 ms with two epochs and 25 with round robin's 1.5, and as much on the other task until a run of it
    # is done: 30 of 4 · (30 + 25) took 10 s. Then it costs ten times as much: 330 of 2 · 11 · (30 + 25) took 20 s.
    assert told == [f"about {duration(10 * 190 / 30)} left", f"about {duration(20 * (1210 - 330) / 330)} left"]


def test_progress_knows_what_the_steps_of_a_task_cost(study, tmp_path):
    write_run(study, tmp_path, "fixed-2", TASK, 1)
    write_rates(results_of(study, tmp_path).cell("fixed-2", TASK, 1).path)
    results = results_of(study, tmp_path)
    done = results.cell("fixed-2", TASK, 1)
    found = {(cell.method, cell.task): price for cell, price in prices(results, results.cells, [done]).items()}
    # 10 ms a step and 10 ms a row and epoch were measured on this task, and with it on the backend: 64 steps each.
    assert found["fixed-2", TASK] == pytest.approx(64 * 0.03, rel=1e-3)
    assert found["round-robin", TASK] == found["round-robin", OTHER] == pytest.approx(64 * 0.025, rel=1e-3)


@pytest.mark.slow
def test_energy_adds_up_over_starts(tmp_path, monkeypatch):
    pytest.importorskip("codecarbon")
    monkeypatch.setattr("adept.runs.energy.WRITE_SECONDS", 0.2)
    for _ in range(2):
        with measured_energy(tmp_path) as tick:
            deadline = time.monotonic() + 1.0
            while time.monotonic() < deadline:
                tick()
                np.linalg.norm(np.ones((200, 200)))
    energy = json.loads((tmp_path / "energy.json").read_text())
    assert len(energy["starts"]) == 2
    assert energy["kwh"] == pytest.approx(sum(start["kwh"] for start in energy["starts"]))
    assert all(0 < start["kwh"] < 1e-3 and start["cpu_method"] for start in energy["starts"])


def test_energy_off_needs_nothing_and_writes_nothing(tmp_path):
    with measured_energy(tmp_path, enabled=False) as tick:
        tick()
    assert list(tmp_path.iterdir()) == []
