"""The diff for CleanRL scripts, applied to a script written in that manner, and run."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from recording import Scripted

import adept
from adept.report.importing import import_logs, read_scalars

LOOP = Path(__file__).parent / "cleanrl_manner.py"
GUIDE = Path(__file__).parents[2] / "examples" / "cleanrl_diff.md"
ADVICE = "adept.Hindsight(agent, epochs=args.update_epochs, control=False)"
ITERATIONS, RATE = 4, 2.5e-4


@pytest.fixture
def patched(tmp_path):
    """Return the script with the guide's diff, applied by the guide's command."""
    text = GUIDE.read_text(encoding="utf-8")
    (tmp_path / "adept.diff").write_text(re.search(r"```diff\n(.*?)```", text, re.DOTALL)[1], encoding="utf-8")
    (tmp_path / "ppo.py").write_text(LOOP.read_text(encoding="utf-8"), encoding="utf-8")
    command = re.search(r"`(git apply [^`]*adept\.diff)`", text)[1]
    subprocess.run(command.split(), cwd=tmp_path, check=True)
    return tmp_path / "ppo.py"


@pytest.fixture
def run(monkeypatch, tmp_path):
    def run(script, *options):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [str(script), *options])
        return runpy.run_path(str(script), run_name="__main__")

    return run


def test_the_diff_is_of_about_a_dozen_lines():
    added = re.findall(r"^\+(?!\+)", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(added) <= 14


def test_as_it_stands_it_changes_no_parameter_and_prints_its_advice(run, patched, capsys):
    plain = run(LOOP)
    assert ADVICE in patched.read_text(encoding="utf-8")
    watched = run(patched)
    assert watched["hindsight"].verdict.slope.known
    assert capsys.readouterr().out == f"{watched['hindsight'].advice()}\n"
    for name, value in plain["agent"].state_dict().items():
        assert torch.equal(watched["agent"].state_dict()[name], value), name


@pytest.mark.parametrize("anneal", [True, False])
def test_in_control_it_sets_epochs_and_multiplies_the_scheduled_rate(run, patched, monkeypatch, anneal):
    class Steered(adept.Hindsight):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.controller = Scripted([(2, 1.0), (1, 3.0)])

    monkeypatch.setattr(adept, "Hindsight", Steered)
    text = patched.read_text(encoding="utf-8")
    patched.write_text(text.replace(", control=False", ""), encoding="utf-8")
    run(patched, "--anneal-lr" if anneal else "--no-anneal-lr")
    logged = {}
    for tag, _, value in read_scalars(next(Path("runs").rglob("events.*"))):
        logged.setdefault(tag, []).append(value)
    assert logged["adept/epochs_done"] == [2, 1, 2, 1]
    assert logged["adept/stride"] == [1, 3, 1, 3]
    assert len(logged["adept/slope_z"]) == ITERATIONS - 1, "the first rollout has no update to judge"
    left = [1 - iteration / ITERATIONS if anneal else 1 for iteration in range(ITERATIONS)]
    rates = [RATE * scheduled * stride for scheduled, stride in zip(left, [1, 3, 1, 3], strict=True)]
    assert logged["charts/learning_rate"] == pytest.approx(rates)
    found = import_logs(Path("runs"))[0]
    assert (found.method, found.task, found.epochs.tolist()) == ("ppo", "CartPole-v1", [2, 1, 2, 1])
