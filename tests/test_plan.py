"""Plans: who chooses each field."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from adept.algorithms.learner import Epoch
from adept.controllers import CONTROLLERS, Choice, Controller, Evidence
from adept.plan import Plan, Planner
from adept.rollout import Rollout
from tests.fast.cases import make_config

NOTHING = torch.zeros(0)


def rollout(mean_return: float, *episode_returns: float) -> Rollout:
    return Rollout(*(NOTHING,) * 6, mean_return, episode_returns, (), 0.0, 0.0)


def last_epoch(index: int, kl: float, clip_fraction: float) -> Epoch:
    return Epoch(index, 4, 128, ("approx_kl", "clip_fraction"), torch.tensor([kl, clip_fraction]))


def test_the_preset_and_the_schedule_over_iterations() -> None:
    config = make_config(
        scheduler="fixed", epochs=3, learning_rate=0.5, learning_rate_decay=True, clip_range=0.1,
        entropy_coefficient=0.02,
    )  # fmt: skip
    assert config.iterations == 10
    plan = Planner(config).plan(4, rollout(1.0))
    assert plan == Plan(3, pytest.approx(0.5 * 0.6), 0.1, 0.02, None)


def test_bandits_are_credited_with_the_reward_of_their_source() -> None:
    config = make_config(scheduler="round-robin", arms=(4, 2, 1))
    planner = Planner(config)
    assert [planner.plan(index, rollout(0.0)).epochs for index in range(4)] == [4, 2, 1, 4]
    assert planner.reward(rollout(1.5, 7.0)) == 1.5
    of_episodes = Planner(replace(config, reward_source="episode-return"))
    assert of_episodes.reward(rollout(1.5, 7.0, 8.0)) == 7.5
    assert of_episodes.reward(rollout(1.5)) is None


def test_the_augmentation_is_the_presets_or_a_bandits() -> None:
    assert Planner(make_config(algo="drac", augmentation="flip")).plan(0, rollout(0.0)).augmentation == "flip"
    planner = Planner(make_config(algo="drac", augmentation_scheduler="round-robin"))
    chosen = [planner.plan(index, rollout(0.0)).augmentation for index in range(3)]
    assert chosen == ["crop", "random-conv", "color-jitter"]
    assert planner.record()["augmentation"] == 2
    assert planner.record()["augmentation_choices/crop"] == 1
    assert Planner(make_config(augmentation_scheduler="ucb")).plan(0, rollout(0.0)).augmentation is None  # of PPO


class Scripted(Controller):
    """A controller that remembers its evidence and lengthens its scale with every step."""

    needs_slope: ClassVar[bool] = True

    def __init__(self, epochs: int, *, seed: int = 0) -> None:
        super().__init__(epochs, seed=seed)
        self.seen: list[Evidence | None] = []

    def _choose(self, evidence: Evidence | None) -> Choice:
        self.seen.append(evidence)
        return Choice(self.epochs - len(self.seen), 1.0 + len(self.seen))

    def stops(self, kl: float) -> bool:
        return kl > 0.5

    def _state(self) -> dict[str, Any]:
        return {"steps": len(self.seen)}

    def _restore(self, rule: Any) -> None:
        self.seen = [None] * rule["steps"]


class Judged:
    """A verdict that adds a slope to what the update left behind."""

    def evidence(self, **left: Any) -> Evidence:
        return Evidence(slope_z=2.0, critic_slope=0.5, critic_slope_z=3.0, **left)


def test_a_controller_sets_epochs_and_lr_scale_from_what_the_update_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(CONTROLLERS, "scripted", Scripted)
    config = make_config(scheduler="scripted", epochs=8, learning_rate=0.5, learning_rate_decay=True)
    planner = Planner(config)
    assert planner.plan(0, rollout(0.0)) == Plan(7, 0.5 * 2.0, 0.2, 0.01)
    assert not planner.stops(last_epoch(2, 0.5, 0.0))
    assert planner.stops(last_epoch(3, 0.75, 0.25))
    planner.finish(last_epoch(3, 0.75, 0.25))
    assert planner.record()["lr_scale"] == 2.0

    resumed = Planner(config)
    resumed.load(json.loads(json.dumps(planner.state())))
    for each in (planner, resumed):
        assert each.plan(1, rollout(0.0), Judged()) == Plan(6, pytest.approx(0.5 * 0.9 * 3.0), 0.2, 0.01)
        assert isinstance(each.controller, Scripted)
        seen = Evidence(2.0, 0.5, 3.0, kl=0.75, clip_fraction=0.25, epochs_done=3)
        assert each.controller.seen[-1] == seen
    planner.plan(2, rollout(0.0))  # not judged this time
    assert planner.controller.seen[-1] == Evidence(kl=0.75, clip_fraction=0.25, epochs_done=3)  # type: ignore[union-attr]


def test_the_critic_may_have_a_lr_scale_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTROLLERS, "scripted", Scripted)
    monkeypatch.setattr(Scripted, "_choose", lambda controller, evidence: Choice(3, 2.0, controller.own))
    # The second row has 0.01 at most; the last, where the actor's rate is above that, the actor's.
    cases = ((1e-3, 4.0, 0.9e-3 * 4), (1e-3, 32.0, 0.01), (0.5, 4.0, 0.45 * 2))
    for base, own, rate in cases:
        config = make_config(scheduler="scripted", epochs=8, learning_rate=base, learning_rate_decay=True)
        planner = Planner(config)
        monkeypatch.setattr(Scripted, "own", None, raising=False)
        assert planner.plan(1, rollout(0.0)).critic_learning_rate is None
        assert planner.record() == {"lr_scale": 2.0, "critic_lr_scale": 2.0}
        monkeypatch.setattr(Scripted, "own", own)
        plan = planner.plan(1, rollout(0.0))
        assert (plan.learning_rate, plan.critic_learning_rate) == pytest.approx((base * 0.9 * 2.0, rate))
        assert planner.record() == {"lr_scale": 2.0, "critic_lr_scale": own}


def test_a_slope_that_nobody_asked_for_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Monitoring measures slopes with its gains; a controller that does not want one chooses as without monitoring."""
    monkeypatch.setitem(CONTROLLERS, "scripted", Scripted)
    monkeypatch.setattr(Scripted, "wants_slope", property(lambda controller: len(controller.seen) != 1))
    planner = Planner(make_config(scheduler="scripted", epochs=8))
    for _ in range(3):
        planner.plan(0, rollout(0.0), Judged())
        planner.finish(last_epoch(1, 0.25, 0.5))
    assert isinstance(planner.controller, Scripted)
    assert [seen and seen.slope_z for seen in planner.controller.seen] == [None, None, 2.0]
    assert [seen and seen.critic_slope_z for seen in planner.controller.seen] == [None, None, 3.0]


def test_a_kl_that_is_not_finite_reaches_the_guard_and_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTROLLERS, "scripted", Scripted)
    config = make_config(scheduler="scripted", epochs=8)
    for kl in (math.inf, math.nan):
        planner = Planner(config)
        planner.plan(0, rollout(0.0))
        planner.finish(last_epoch(1, kl, math.nan))
        resumed = Planner(config)
        resumed.load(json.loads(json.dumps(planner.state(), allow_nan=False)))
        for each in (planner, resumed):
            each.plan(1, rollout(0.0))
            assert isinstance(each.controller, Scripted)
            assert each.controller.seen[-1] == Evidence(kl=math.inf, clip_fraction=None, epochs_done=1)
