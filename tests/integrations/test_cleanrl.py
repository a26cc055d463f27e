"""The diff for CleanRL scripts, applied to a script written in that manner, and run."""

import math
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hosts.base import Host
from recording import Oracle, Scripted

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
    monitored = run(patched)
    assert monitored["hindsight"].feedback.slope.known
    assert capsys.readouterr().out == f"{monitored['hindsight'].advice()}\n"
    for name, value in plain["agent"].state_dict().items():
        assert torch.equal(monitored["agent"].state_dict()[name], value), name


def logged_numbers():
    found = {}
    for tag, _, value in read_scalars(next(Path("runs").rglob("events.*"))):
        found.setdefault(tag, []).append(value)
    return found


class Script(Host):
    """The script for the oracle: its agent, and the tensors of its rollout, which `step` is called with."""

    epochs, variant = 4, "script"

    def __init__(self, engine, policy):
        self.engine, self.policy, self.feedback, self.actions = engine, policy, [], []
        self.oracle = Oracle(self)

    def after_steps(self, function):
        """The script itself tells when an epoch ended."""

    def advantages(self):
        return self.tensors["advantages"]

    def log_probs(self):
        """With the agent's own layers and a density written out."""
        agent, actions = self.policy, self.tensors["actions"]
        with torch.no_grad():
            outputs = agent.actor(self.tensors["obs"])
            if agent.actor_logstd is None:
                return torch.log_softmax(outputs, -1).gather(-1, actions.long()[..., None])
            deviation = agent.actor_logstd.exp()
            distance = (actions - outputs) / deviation
            return (-(distance**2) / 2 - deviation.log() - math.log(2 * math.pi) / 2).sum(-1)


class Monitored(adept.Hindsight):
    """Judges gains, too, of every update, beside the oracle."""

    def __init__(self, policy, *args, **options):
        super().__init__(policy, *args, **{**options, "gains_every": 1})
        self.script = Script(self, policy)

    def mark(self, epoch):
        super().mark(epoch)
        self.script.oracle.epochs.append(self.script.take())

    def step(self, *args, **kwargs):
        self.script.tensors = sys._getframe(1).f_globals
        self.script.actions.append(self.script.tensors["actions"].clone())
        chosen = super().step(*args, **kwargs)
        self.script.feedback.append(self.feedback)
        return chosen


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
def test_slope_and_gains_in_the_log_are_those_of_an_independent_computation(run, patched, monkeypatch, task):
    monkeypatch.setattr(adept, "Hindsight", Monitored)
    script = run(patched, "--env-id", task, "--learning-rate", "0.003")["hindsight"].script
    script.oracle.assert_evaluations()
    whole = [bool((actions == actions.round()).all()) for actions in script.actions]
    assert whole == [task == "CartPole-v1"] * ITERATIONS, "continuous actions are not whole numbers"
    logged = logged_numbers()
    assert logged["adept/slope_z"] == pytest.approx([feedback.slope.z for feedback in script.feedback[1:]])
    assert logged["adept/epochs"] == logged["adept/epochs_done"] == [4] * ITERATIONS
    names = ["slope", "gain/x2", *(f"gain/{epoch}" for epoch in (1, 2, 4))]
    for name, values in zip(names, zip(*script.oracle.found, strict=True), strict=True):
        assert logged[f"adept/{name}"] == pytest.approx(values, rel=2e-3, abs=2e-6)
    assert logged["adept/update_gain"] == logged["adept/gain/4"]
    assert len(logged["adept/update_kl"]) == ITERATIONS - 1


@pytest.mark.parametrize("anneal", [True, False])
def test_in_control_it_sets_epochs_and_multiplies_the_scheduled_rate(run, patched, monkeypatch, anneal):
    class Steered(adept.Hindsight):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.rule = Scripted([(2, 1.0), (1, 3.0)])

    monkeypatch.setattr(adept, "Hindsight", Steered)
    text = patched.read_text(encoding="utf-8")
    patched.write_text(text.replace(", control=False", ""), encoding="utf-8")
    run(patched, "--anneal-lr" if anneal else "--no-anneal-lr")
    logged = logged_numbers()
    assert logged["adept/epochs"] == logged["adept/epochs_done"] == [2, 1, 2, 1]
    assert logged["adept/lr_scale"] == [1, 3, 1, 3]
    assert len(logged["adept/slope_z"]) == ITERATIONS - 1, "the first rollout has no update to evaluate"
    left = [1 - iteration / ITERATIONS if anneal else 1 for iteration in range(ITERATIONS)]
    rates = [RATE * scheduled * lr_scale for scheduled, lr_scale in zip(left, [1, 3, 1, 3], strict=True)]
    assert logged["charts/learning_rate"] == pytest.approx(rates)
    found = import_logs(Path("runs"))[0]
    assert (found.method, found.task, found.epochs.tolist()) == ("ppo", "CartPole-v1", [2, 1, 2, 1])
