from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from adept.config import Config
from adept.envs import BACKENDS, Backend, backend_of, make_environments, summary


def test_importing_the_table_loads_no_framework() -> None:
    heavy = ("torch", "envpool", "pybullet", "gymnasium", "PyQt5")
    code = f"import sys, adept.envs; sys.exit(' '.join(name for name in {heavy} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_each_backend_describes_itself() -> None:
    assert list(BACKENDS) == ["procgen", "minigrid", "pybullet", "gymnasium", "envpool"]
    for name, backend in BACKENDS.items():
        assert backend.name == name
        assert f"- {name}/NAME: {backend.about}; for example {backend.tasks[0]}" in summary()
    assert [name for name, backend in BACKENDS.items() if backend.has_test_levels] == ["procgen"]
    assert [name for name, backend in BACKENDS.items() if backend.paper_minibatches] == ["procgen"]
    assert BACKENDS["pybullet"].evaluation_environments == 1


def test_one_object_adds_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    class Mine(Backend):
        name = "mine"
        about = "one of my own"
        tasks = ("Task",)

        def make(self, config: Config, count: int, **options: Any) -> Any:
            asked.update(options, task=config.task, count=count)
            return BACKENDS["gymnasium"].make(replace(config, env="gymnasium/CartPole-v1"), 1, render=False)

    monkeypatch.setitem(BACKENDS, "mine", Mine())
    config = Config(env="mine/Task")
    assert make_environments(config, threads=2, evaluating=True).name == "mine/Task"
    expected = {"threads": 2, "render": False, "evaluating": True, "test_levels": False, "task": "Task", "count": 16}
    assert asked == expected
    assert backend_of(config).evaluation_environments == 16
    assert "- mine/NAME: one of my own; for example Task" in summary()


def test_an_unknown_backend_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown backend 'envpol'.*did you mean 'envpool'"):
        make_environments(Config(env="envpol/Ant-v4"))


def test_gymnasium_alone_imports_what_a_name_names() -> None:
    named = [name for name, backend in BACKENDS.items() if backend.imports_code("package.module:Id-v0")]
    assert named == ["gymnasium"]
    assert not BACKENDS["gymnasium"].imports_code("CartPole-v1")
