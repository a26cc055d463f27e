"""The recipes of CONTRIBUTING: what a table line alone makes of a new scheduler, algorithm, rule, controller or figure.

The classes below stand for the one new file of each recipe. Nothing else of the package is touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from adept import cost
from adept.algorithms import ALGORITHMS, Algorithm
from adept.algorithms.autograd import Minibatch
from adept.algorithms.ppo import PPO
from adept.algorithms.stopping import STOPPING, StoppingRule
from adept.config import Config, Execution
from adept.networks import ActorCritic
from adept.presets import preset
from adept.rules import RULES, Feedback, Rule, Settings
from adept.runs.records import read_iterations
from adept.runs.runner import run_one
from adept.schedulers import SCHEDULERS, Scheduler
from tests.report.synthetic import METHODS, write_study

ROOT = Path(__file__).parent.parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


class TwicePPO(PPO):
    """PPO whose loss is computed twice and averaged: the same gradient at twice the cost."""

    def __call__(self, network: ActorCritic, minibatch: Minibatch, plan: Settings) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean of two equal losses."""
        (first, metrics), (second, _) = (
            super().__call__(network, minibatch, plan),
            super().__call__(network, minibatch, plan),
        )
        return (first + second) / 2, {**metrics, "twice": second.detach()}


class LowEntropy(StoppingRule):
    """Stop after an epoch whose mean entropy is below the limit."""

    def stop(self, epoch: Mapping[str, float]) -> bool:
        """Return whether the entropy is below the limit."""
        return epoch["entropy"] < self.limit


class Last(Scheduler[int]):
    """Choose the last arm, always."""

    def _choose(self) -> int:
        return len(self.arms) - 1

    def _credit(self, index: int, reward: float) -> None:
        """Rewards change nothing."""


class Halving(Rule):
    """Halve the scale with every update."""

    saved = ("lr_scale",)

    def __init__(self, epochs: int, *, seed: int = 0) -> None:
        super().__init__(epochs, seed=seed)
        self._lr_scale = 2.0

    def step(self, feedback: Feedback | None) -> Settings:
        self._lr_scale /= 2
        return Settings(self.epochs, self._lr_scale)


def small(**settings: Any) -> Config:
    sizes = {"environments": 2, "rollout_length": 16, "minibatch_size": 16, "steps": 32 * 3}
    return Config(env="gymnasium/CartPole-v1", **{"scheduler": "fixed", "epochs": 3} | sizes | settings)


def run(config: Config, path: Path) -> Any:
    run_one(config, path, Execution(device="cpu"))
    return read_iterations(path)


def test_a_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULERS, "last", Last)
    columns = run(small(scheduler="last", arms=(3, 1)), tmp_path / "run")
    assert columns["epochs"].tolist() == [1, 1, 1]
    assert preset("minigrid/DoorKey-6x6", scheduler="last").arms == (4, 2, 1)


def test_an_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Algorithm("tests.test_recipes:TwicePPO", passes=2, defaults={"clip_range": 0.3})
    monkeypatch.setitem(ALGORITHMS, "twice", entry)
    columns = run(small(algo="twice"), tmp_path / "run")
    assert "twice" in columns
    assert preset("minigrid/DoorKey-6x6", "twice").clip_range == 0.3
    assert cost.epoch(small(algo="twice")) == 2 * cost.epoch(small())
    # It has no fast path, so that the reference trained it, and its records count both passes.
    one = run(small(), tmp_path / "ppo")["flops"]
    sampling = one[0] * cost.sampling(small()) / cost.iteration(small(), 3)
    assert columns["flops"][0] - sampling == pytest.approx(2 * (one[0] - sampling))


def test_a_stopping_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STOPPING, "low-entropy", LowEntropy)
    columns = run(small(stopping={"low-entropy": 10.0}), tmp_path / "run")
    assert columns["epochs"].tolist() == [3, 3, 3]
    assert columns["epochs_done"].tolist() == [1, 1, 1]  # ln 2 at most: always below 10


def test_a_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "halving", Halving)
    columns = run(small(scheduler="halving", learning_rate=0.5), tmp_path / "run")
    assert columns["lr_scale"].tolist() == [1.0, 0.5, 0.25]
    assert columns["learning_rate"].tolist() == [0.5, 0.25, 0.125]
    assert preset("pybullet/Ant", scheduler="halving").epochs == 10


def test_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from adept.report import ReportOptions, build_report, plots
    from adept.report.figures import Drawing, Pen, new_figure

    def runs_done(pen: Pen) -> list[Drawing]:
        figure, _ = new_figure(1, 1, 4, 2)
        runs = pen.analysis.comparison.runs
        counts = [{"method": name, "runs": sum(run.state == "done" for run in runs if run.method == name)}
                  for name in pen.names]  # fmt: skip
        return [Drawing("runs-done", "Runs done", "How many runs are done.", figure, counts, "more")]

    monkeypatch.setattr(plots, "DRAWINGS", (runs_done,))
    write_study(tmp_path / "study", METHODS[:2], ["minigrid/DoorKey-6x6"], [1, 2], iterations=20)
    build_report(ReportOptions((tmp_path / "study",), resamples=100))
    report = tmp_path / "study" / "report"
    assert (report / "figures" / "runs-done.csv").read_text().split() == ["method,runs", "fixed-4,2", "fixed-1,2"]
    assert sorted(path.name for path in (report / "figures").iterdir()) == [
        "runs-done.csv",
        "runs-done.png",
        "runs-done.svg",
    ]
    assert "How many runs are done." in (report / "report.html").read_text(encoding="utf-8")


def test_files_that_the_recipes_name_exist() -> None:
    named = re.findall(r"`src/(adept/[\w/]+/(?:__init__|base)\.py)`", CONTRIBUTING)
    assert {"adept/schedulers/__init__.py", "adept/rules/__init__.py", "adept/envs/__init__.py"} <= set(named)
    assert {"adept/algorithms/__init__.py", "adept/algorithms/stopping/__init__.py"} <= set(named)
    for name in named:
        assert (ROOT / "src" / name).is_file()
