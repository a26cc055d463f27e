"""The diff for CleanRL scripts, applied to a script written in that manner, and run."""

import math
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from recording import Scripted, gain_by_hand, slope_by_hand

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


def log_probs_by_hand(agent, place, observations, actions):
    """Return those of a rollout as (steps, environments), with an agent's own layers and a density written out."""
    own = {name: value.clone() for name, value in agent.state_dict().items()}
    agent.load_state_dict(place)
    with torch.no_grad():
        outputs = agent.actor(observations)
        if agent.actor_logstd is None:
            found = torch.log_softmax(outputs, -1).gather(-1, actions.long()[..., None])[..., 0]
        else:
            deviation = agent.actor_logstd.exp()
            distance = (actions - outputs) / deviation
            found = (-(distance**2) / 2 - deviation.log() - math.log(2 * math.pi) / 2).sum(-1)
    agent.load_state_dict(own)
    return found.numpy()


class Monitored(adept.Hindsight):
    """Judges gains, too, of every update, and works out beside them what they should be, from the script's tensors."""

    def __init__(self, policy, *args, **options):
        super().__init__(policy, *args, **{**options, "gains_every": 1})
        self.policy, self.after_epochs, self.start, self.expected = policy, [], None, []
        self.actions = []

    def _taken(self):
        return {name: value.clone() for name, value in self.policy.state_dict().items()}

    def mark(self, epoch):
        super().mark(epoch)
        self.after_epochs.append(self._taken())

    def step(self, *args, **kwargs):
        script, end = sys._getframe(1).f_globals, self._taken()
        obs, actions, advantages = (script[name] for name in ("obs", "actions", "advantages"))
        self.actions.append(actions.clone())

        def at(place):
            return log_probs_by_hand(self.policy, place, obs, actions)

        if self.start is not None:
            *ends, twice = ({n: self.start[n] + a * (end[n] - self.start[n]) for n in end} for a in (1.25, 0.75, 2.0))
            places = (self.after_epochs[0], self.after_epochs[1], self.after_epochs[3], twice)
            gains = [gain_by_hand(at(place), at(self.start), at(end), advantages) for place in places]
            self.expected.append((slope_by_hand(*map(at, ends), advantages), gains))
        self.start, self.after_epochs = end, []
        chosen = super().step(*args, **kwargs)
        if self.feedback is not None:
            assert self.feedback.slope.value == pytest.approx(self.expected[-1][0], rel=1e-3, abs=1e-6)
            self.expected[-1] += (self.feedback.slope.z,)
        return chosen


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
def test_slope_and_gains_in_the_log_are_those_of_an_independent_computation(run, patched, monkeypatch, task):
    monkeypatch.setattr(adept, "Hindsight", Monitored)
    monitored = run(patched, "--env-id", task, "--learning-rate", "0.003")["hindsight"]
    assert len(monitored.expected) == ITERATIONS - 1
    assert max(abs(slope) for slope, _, _ in monitored.expected) > 1e-3, "a slope that says something"
    whole = [bool((actions == actions.round()).all()) for actions in monitored.actions]
    assert whole == [task == "CartPole-v1"] * ITERATIONS, "continuous actions are not whole numbers"
    logged = logged_numbers()
    assert logged["adept/slope_z"] == pytest.approx([z for _, _, z in monitored.expected])
    assert logged["adept/epochs"] == logged["adept/epochs_done"] == [4] * ITERATIONS
    by_place = [gains for _, gains, _ in monitored.expected]
    names = [*(f"gain/{epoch}" for epoch in (1, 2, 4)), "gain/x2"]
    for name, gains in zip(names, zip(*by_place, strict=True), strict=True):
        assert logged[f"adept/{name}"] == pytest.approx(gains, rel=2e-3, abs=2e-6)
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
