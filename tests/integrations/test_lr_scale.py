"""What every integration does before it begins, without any framework."""

import sys

import pytest
import torch

from adept.integrations import contract
from adept.rules import Settings


def test_versions_are_compared_by_their_numbers(monkeypatch):
    bounds = {"package": "json", "at_least": "2.4", "below": "2.10", "extra": "sb3"}
    for version in ("2.4", "2.4.0", "2.9.2", "2.9.2+cpu", "2.9.0rc1"):
        monkeypatch.setattr("importlib.metadata.version", lambda package, version=version: version)
        contract.require_framework("json", **bounds)
    for version in ("2.3.9", "2.10", "2.10.1", "10.0"):
        monkeypatch.setattr("importlib.metadata.version", lambda package, version=version: version)
        with pytest.raises(ImportError, match=rf"json {version} .*json>=2.4,<2.10: pip install 'adept-rl\[sb3\]'"):
            contract.require_framework("json", **bounds)


def test_a_framework_that_cannot_be_imported_names_the_extra(monkeypatch, tmp_path):
    (tmp_path / "half_installed.py").write_text("raise ImportError('some dependencies are missing')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"some dependencies are missing.*pip install 'adept-rl\[rllib\]'"):
        contract.require_framework("half_installed", package="ray", at_least="1", below="2", extra="rllib")
    monkeypatch.setitem(sys.modules, "half_installed", None)
    with pytest.raises(ImportError, match=r"half_installed is not installed.*pip install 'adept-rl\[rllib\]'"):
        contract.require_framework("half_installed", package="ray", at_least="1", below="2", extra="rllib")


@pytest.mark.parametrize("rate", [0.1, torch.tensor(0.1)])
def test_a_lr_scale_is_there_while_the_optimiser_steps_and_at_no_other_time(rate):
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=rate)
    lr_scale = contract.LRScale(optimizer)

    def moved():
        before = float(weight)
        weight.grad = torch.ones(1)
        optimizer.step()
        assert optimizer.param_groups[0]["lr"] is rate, "the scheduled rate itself is put back"
        return before - float(weight)

    assert moved() == pytest.approx(0.1, abs=1e-7)
    lr_scale.settings = Settings(1, 3.0)
    assert moved() == pytest.approx(0.3, abs=1e-7)
    assert lr_scale.count == 2
    weight.grad = torch.ones(1)
    breaks = optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        optimizer.step()
    breaks.remove()
    assert moved() == pytest.approx(0.3, abs=1e-7), "a step that broke off leaves its factor to none"
    lr_scale.remove()
    assert moved() == pytest.approx(0.1, abs=1e-7)
    assert lr_scale.count == 3


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_the_critics_steps_are_those_of_a_learning_rate_of_its_own(optimizer):
    """Beside an optimiser with two groups at two rates: 2 times the scheduled rate, and for the critic 8 times."""
    torch.manual_seed(0)
    start = torch.randn(2, 3)
    hooked, grouped = ([torch.nn.Parameter(row.clone()) for row in start] for _ in range(2))
    one = optimizer(hooked, lr=1e-3)
    two = optimizer([{"params": grouped[:1], "lr": 2e-3}, {"params": grouped[1:], "lr": 8e-3}])
    lr_scale = contract.LRScale(one, critic_params=hooked[1:])
    lr_scale.settings = Settings(3, 2.0, 8.0)
    for _ in range(20):
        for parameters, each in ((hooked, one), (grouped, two)):
            for parameter in parameters:
                parameter.grad = parameter.detach() ** 3
            each.step()
    for first, second in zip(hooked, grouped, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(hooked[1], start[1], atol=1e-2)
    # At most 0.01 for the critic, unless the others are faster; without a scale of its own it moves as they do.
    for settings, rates in ((Settings(3, 2.0, 32.0), (2e-3, 0.01)), (Settings(3, 20.0, 32.0), (0.02, 0.02)),
                          (Settings(3, 2.0), (2e-3, 2e-3))):  # fmt: skip
        plain = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
        descent = torch.optim.SGD(plain, lr=1e-3)
        contract.LRScale(descent, critic_params=plain[1:]).settings = settings
        for parameter in plain:
            parameter.grad = torch.ones(1)
        descent.step()
        assert [1 - float(parameter) for parameter in plain] == pytest.approx(rates, abs=1e-6)


class Schedule:
    def __init__(self):
        self.steps = 0

    def step(self):
        self.steps += 1


def test_held_steps_are_noted_and_not_made():
    schedule = Schedule()
    with contract.held_steps(schedule) as asked:
        schedule.step(0.1)
        schedule.step()
    assert (schedule.steps, asked) == (0, [(0.1,), ()])
    schedule.step()
    assert schedule.steps == 1


def test_held_steps_give_back_a_step_of_the_instance_even_after_an_error():
    schedule = Schedule()
    own = schedule.step = lambda: "own"
    with pytest.raises(RuntimeError), contract.held_steps(schedule):
        raise RuntimeError
    assert schedule.step is own
