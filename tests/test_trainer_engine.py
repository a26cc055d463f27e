"""The trainer's engine: who sets what, and that monitoring changes no number of a run, resumes exactly, is counted."""

from __future__ import annotations

import copy
import json
import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from adept import cost
from adept.config import Config, Execution
from adept.hindsight.estimates import UNKNOWN, Estimate, critic_slope, gain, slope, time_groups
from adept.hindsight.evaluation import Feedback, Rows
from adept.rollout import Rollout
from adept.rules import RULES, HindsightRule, Rule, Settings
from adept.trainer_engine import TrainerEngine
from adept.training import Record, Trainer
from tests.fast.cases import make_config

CASES = {
    "discrete": {"env": "gymnasium/tiny/Identity-v0"},
    "continuous": {"env": "gymnasium/tiny/Follow-v0", "entropy_coefficient": 0.0},
    "drac": {
        "env": "gymnasium/tiny/Picture-v0",
        "algo": "drac",
        "environments": 2,
        "rollout_length": 16,
        "steps": 96,
        "minibatch_size": 16,
    },
}


def config(case: str, **settings: Any) -> Config:
    base: dict[str, Any] = {
        "environments": 8, "rollout_length": 32, "minibatch_size": 64, "steps": 1792, "scheduler": "fixed",
        "epochs": 3, "learning_rate": 3e-3, "monitor_every": 2,
    }  # fmt: skip
    return Config(**base | CASES[case] | settings)


def run(settings: Config, fast: bool = False) -> list[Record]:
    trainer = Trainer(settings, Execution(fast=fast))
    records = list(trainer)
    trainer.close()
    return records


def columns(records: list[Record], *, without: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """The columns as text, which compares NaN, but the clock's."""
    names = [name for name in records[0] if "seconds" not in name and name not in without]
    return {name: [repr(record[name]) for record in records] for name in names}


@pytest.mark.parametrize(
    ("case", "fast"),
    [("discrete", True), ("discrete", False), ("continuous", True), ("continuous", False), ("drac", False)],
)
def test_monitoring_changes_no_other_number(case: str, fast: bool) -> None:
    monitored, plain = run(config(case), fast), run(config(case, monitor=False), fast)
    assert list(plain[0]) == [name for name in monitored[0] if name in plain[0]]
    gains = {"gain/1", "gain/2", "gain/3", "gain/x0.5", "gain/x1.5", "gain/x2"}
    added = {"slope", "slope_z", "critic_slope", "critic_slope_z", "update_gain", *gains}
    assert monitored[0].keys() - plain[0].keys() == added | {"monitor_flops", "monitor_seconds"}
    here = columns(monitored, without=("flops", "monitor_flops", *added))
    assert here == columns(plain, without=("flops",))
    measured = [math.isfinite(record["update_gain"]) for record in monitored]
    assert measured == [index > 0 and index % 2 == 0 for index in range(len(monitored))]
    assert any(measured)
    for record in monitored[2::2]:
        assert all(math.isfinite(record[name]) for name in added)
        assert record["gain/3"] == record["update_gain"]


def test_the_columns_are_those_of_the_estimates() -> None:
    trainer = Trainer(config("discrete", monitor_every=1), Execution(fast=False))
    parameters, rollouts = [], []
    collect = trainer.collector.collect

    def remember() -> Any:
        parameters.append(trainer.learner.parameters())
        rollouts.append(copy.deepcopy(collect()))
        return rollouts[-1]

    trainer.collector.collect = remember  # type: ignore[method-assign]
    records = list(trainer)
    start, now, rollout = parameters[3], parameters[4], rollouts[4]
    groups = time_groups(32, 8)

    def at(length: float) -> torch.Tensor:
        with trainer.learner.at(start + length * (now - start)):
            return trainer.learner.log_probs(rollout).double()

    advantages = rollout.advantages
    found = slope(at(1.25), at(0.75), advantages, groups)
    assert records[4]["slope"] == pytest.approx(found.value, rel=1e-6)
    assert records[4]["slope_z"] == pytest.approx(found.z, rel=1e-6)
    with trainer.learner.at(start):
        before = trainer.learner.values(rollout).double()
    critic = critic_slope(before, rollout.values, rollout.returns - rollout.values, groups)
    assert records[4]["critic_slope"] == pytest.approx(critic.value, rel=1e-4)
    assert records[4]["critic_slope_z"] == pytest.approx(critic.z, rel=1e-4)
    for name, length in (("update_gain", 1.0), ("gain/x0.5", 0.5), ("gain/x2", 2.0)):
        expected = gain(at(length), at(1.0), advantages, groups, over=at(0.0)).value
        assert records[4][name] == pytest.approx(expected, rel=1e-3, abs=1e-6)


CHOSEN: tuple[dict[str, Any], ...] = (
    {},
    {"scheduler": "hindsight"},
    {"scheduler": "kl-rate"},
    {"scheduler": "ucb", "epochs": 0},
)


@pytest.mark.parametrize(
    ("case", "fast", "settings"),
    [*(("continuous", fast, rule) for fast in (True, False) for rule in CHOSEN), ("drac", False, {"steps": 160})],
    ids=str,
)
@pytest.mark.parametrize("stop", [3, 4])
def test_resumes_exactly(case: str, fast: bool, settings: dict[str, Any], stop: int) -> None:
    wanted = config(case, monitor_rows=100, **settings)
    whole = columns(run(wanted, fast))
    first = Trainer(wanted, Execution(fast=fast))
    records = []
    for record in first:
        records.append(record)
        if record["iteration"] == stop:
            break
    saved = copy.deepcopy(first.state())
    second = Trainer(wanted, Execution(fast=fast))
    second.load(*saved)
    records.extend(second)
    assert columns(records) == whole


def test_a_checkpoint_of_the_fast_path_is_evaluated_alike_by_the_reference() -> None:
    wanted = config("discrete")
    fast = Trainer(wanted, Execution(fast=True))
    for record in fast:
        if record["iteration"] == 4:
            break
    saved = copy.deepcopy(fast.state())
    reference = Trainer(wanted, Execution(fast=False))
    reference.load(*saved)
    here, there = next(iter(fast)), next(iter(reference))
    for name in ("slope", "update_gain", "gain/1", "gain/x2"):
        assert here[name] == pytest.approx(there[name], rel=1e-3, abs=1e-5)


def test_flops_are_counted() -> None:
    monitored, plain = run(config("discrete")), run(config("discrete", monitor=False))
    trainer = Trainer(config("discrete"))
    # Of 7 iterations 3 are measured: slope 2, before 1, two of three epochs, three lengths = 8 passes over 256 rows,
    # and one of the critic.
    one = 8 * trainer.policy_flops + trainer.values_flops
    assert monitored[-1]["flops"] - plain[-1]["flops"] == 3 * 256 * one
    assert monitored[-1]["monitor_flops"] == 3 * 256 * one
    assert [record["flops"] - record["monitor_flops"] for record in monitored] == [record["flops"] for record in plain]
    assert trainer.policy_flops + trainer.values_flops == trainer.forward_flops
    few = run(config("discrete", monitor_rows=64))
    assert few[-1]["flops"] - plain[-1]["flops"] == 3 * 64 * one


def test_a_rule_gets_the_slope_also_without_monitoring_but_not_while_its_critic_is_blind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HindsightRule, "max_repeats", 0)
    options = {"distance": 1e-6, "kl_stop": 1e9}  # every update is too long, so that the scale falls each time
    settings = config("discrete", scheduler="hindsight", scheduler_options=options, monitor=False, epochs=4)
    records = run(settings)
    expected, average = [False], None
    for record in records[1:]:
        expected.append(average is None or average >= -0.25)
        seen = max(-1.0, record["explained_variance"])
        average = seen if average is None else average + 0.2 * (seen - average)
    assert [math.isfinite(record["slope_z"]) for record in records] == expected
    trainer, plain = Trainer(settings), run(replace(settings, scheduler="fixed", scheduler_options={}))
    # Four epochs: 4/8 of 256 rows, two passes of the policy and one of the critic.
    spent = sum(expected) * 128 * (2 * trainer.policy_flops + trainer.values_flops)
    assert records[-1]["flops"] - plain[-1]["flops"] == spent
    assert all(math.isnan(record["update_gain"]) for record in records)
    assert len({record["lr_scale"] for record in records}) == 7
    base = settings.learning_rate
    assert [record["learning_rate"] for record in records] == pytest.approx([base * r["lr_scale"] for r in records])
    compute = run(config("discrete", scheduler="hindsight", scheduler_options={"optimize_for": "compute"}, epochs=6))
    assert (compute[0]["epochs"], compute[0]["lr_scale"]) == (3, pytest.approx(1 / 3))  # from 0.003 to 0.001


def test_the_guard_tries_an_epoch_again() -> None:
    """Epochs beyond the limit are undone; each update still makes its epochs, at smaller rates."""
    options = {"kl_stop": 0.002}
    records = run(config("discrete", scheduler="hindsight", scheduler_options=options, learning_rate=0.3, epochs=8))
    assert max(record["epochs_done"] for record in records) > 8
    assert min(record["lr_scale"] for record in records) < 0.001 / 0.3


def test_an_epoch_that_goes_too_far_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit that every epoch passes and no retries, each update ends with its first epoch, which is undone."""
    monkeypatch.setattr(HindsightRule, "max_repeats", 0)
    monkeypatch.setattr(HindsightRule, "retry", lambda self, kl: None)
    trainer = Trainer(config("discrete", scheduler="hindsight", scheduler_options={"kl_stop": 1e-30}, epochs=8))
    start = trainer.learner.snapshot()
    records = list(trainer)
    assert [record["epochs_done"] for record in records] == [1] * 7
    assert torch.equal(trainer.learner.parameters(), start.parameters)
    assert all(record["approx_kl_last_epoch"] > 0 for record in records)


class Corrected(Rule):
    """Have the second epoch of every update tried again at half of the rate, and the first update at twice."""

    kl_stop = 0.0
    stopped = repeated = 0

    def step(self, feedback: Feedback | None) -> Settings:
        self.stopped = 0
        return Settings(self.epochs)

    def stops(self, kl: float) -> bool:
        self.stopped += 1
        return self.stopped == 2

    def retry(self, kl: float) -> float | None:
        return 0.5

    def repeat(self, kl: float) -> float | None:
        self.repeated += 1
        self.stopped = 0
        return 2.0 if self.repeated == 1 else None


def test_epochs_and_updates_are_made_again_at_another_learning_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """First update: 3 epochs and a retry, undone, then the same at twice the rate; later ones 3 epochs and a retry."""
    monkeypatch.setitem(RULES, "corrected", Corrected)
    settings = config("discrete", scheduler="corrected", learning_rate=1e-3)
    trainer = Trainer(settings)
    records = iter(trainer)
    first = next(records)
    assert (first["epochs"], first["epochs_done"]) == (3, 8)
    assert first["learning_rate"] == pytest.approx(1e-3 * 0.5 * 2 * 0.5)
    assert first["lr_scale"] == first["critic_lr_scale"] == pytest.approx(0.5), "the scale of the last epoch"
    assert first["gradient_steps"] == 8 * settings.minibatches
    assert trainer.learner.snapshot().steps == 3 * settings.minibatches, "what was undone is undone in Adam, too"
    second = next(records)
    assert (second["epochs_done"], second["learning_rate"]) == (4, pytest.approx(0.5e-3))
    rows = settings.batch_size
    passes = cost.sampling(settings) + cost.update(settings, 4 * rows)
    assert second["flops"] - first["flops"] - second.get("monitor_flops", 0) + first.get("monitor_flops", 0) == (
        trainer.forward_flops * passes
    )


@pytest.mark.parametrize(
    ("settings", "always_one"),
    [
        ({"scheduler": "fixed", "epochs": 4}, False),
        ({"scheduler": "round-robin", "arms": (8, 1)}, False),
        ({"scheduler": "ucb", "scheduler_options": {"exploration": 0.0}, "arms": (1, 8)}, True),
        ({"scheduler": "fixed", "epochs": 8, "stopping": {"ratio-deviation": 1e-9}}, True),
    ],
    ids=str,
)
def test_monitoring_stays_within_a_twentieth_of_the_flops(settings: dict[str, Any], always_one: bool) -> None:
    """Also in short runs with short updates; the configuration may ask for more."""
    *_, last = records = run(config("discrete", monitor_every=0, steps=60 * 256, **settings))
    assert {record["epochs_done"] for record in records} == {1} or not always_one
    assert 0 < last["monitor_flops"] <= 0.05 * last["flops"]
    asked = run(config("discrete", monitor_every=1, **settings))[-1]
    assert asked["monitor_flops"] > 0.05 * asked["flops"]


def test_gains_of_a_rule_that_measures_slopes_stay_within_a_twentieth_too() -> None:
    """Slopes are the rule's own cost; what monitoring adds to it is not."""
    base = config("discrete", scheduler="hindsight", epochs=4, monitor_every=0, steps=40 * 256)
    monitored, alone = run(base)[-1], run(replace(base, monitor=False))[-1]
    assert 0 < monitored["flops"] - alone["flops"] <= 0.05 * monitored["flops"]


def test_short_runs_are_evaluated_more_often() -> None:
    """About 40 updates of a run, or all of fewer; at most every 5th unless told."""
    rows = 8 * 32
    for iterations, every in ((7, 1), (79, 1), (80, 2), (199, 4), (200, 5), (5000, 5)):
        assert config("discrete", steps=iterations * rows, monitor_every=0).monitor_interval == every
        assert config("discrete", steps=iterations * rows, monitor_every=25).monitor_interval == 25


@pytest.mark.parametrize(
    ("settings", "calls", "rows", "every"),
    [
        # 32 steps + 3·3·(4+1) + 12 = 89 calls, 5 % are 4.45. Slope 2, critic 1, start 1, two of three epochs, three
        # lengths: 9 passes of 5 calls each. Rows: 5 % of 33·8 + 3·3·256 are 128.4, times 11 over 9.
        ({}, 89, 156, 11),
        # The shortest update has one epoch: 45 / 2.95 calls. Rows: 5 % of 264 + 768 are 51.6, times 16 over 9.
        ({"stopping": {"target-kl": 0.1}}, 89, 91, 16),
        # Two epochs: 50 / 3.7 calls, for epochs 1, 2 and 4 of 8. Rows: 5 % of 264 + 1536 are 90, times 14 over 10.
        ({"scheduler": "ucb", "epochs": 0, "arms": (8, 2)}, 74, 126, 14),
        # Slopes are the rule's, on K/8 of the rows; gains take 1 + 2 + 3 passes: 30 / 5.2 calls.
        ({"scheduler": "hindsight", "epochs": 4}, 104, 128, 6),
        # 1024 + 3·3·(128+1) + 12 calls are enough for every update. Rows: 5 % of 1025·8 + 9·8192 are 4096.4, over 9.
        ({"rollout_length": 1024, "steps": 8192}, 2197, 455, 1),
        ({"monitor_every": 2}, 89, 256, 2),
    ],
    ids=str,
)
def test_the_budget_of_monitoring_by_hand(settings: dict[str, Any], calls: int, rows: int, every: int) -> None:
    chosen = config("discrete", **{"monitor_every": 0} | settings)
    assert cost.calls(chosen, min(chosen.choices)) == calls
    assert cost.measuring(chosen) == (rows, every)


def test_a_short_run_measures_as_often_as_its_budget_allows() -> None:
    measured = [math.isfinite(record["update_gain"]) for record in run(config("discrete", monitor_every=0, steps=6144))]
    assert [index for index, known in enumerate(measured) if known] == [11, 22]


def test_a_part_of_the_rows_is_drawn_without_touching_another_stream() -> None:
    every, part = run(config("discrete")), run(config("discrete", monitor_rows=64))
    assert np.isfinite([record["slope"] for record in part[2::2]]).all()
    assert [record["policy_loss"] for record in every] == [record["policy_loss"] for record in part]
    assert [record["slope"] for record in every[2::2]] != [record["slope"] for record in part[2::2]]


class Still:
    """A learner of one parameter that never moves."""

    network = torch.nn.Linear(1, 1, bias=False)

    def parameters(self) -> torch.Tensor:
        return torch.zeros(1)

    copy = parameters

    def at(self, parameters: torch.Tensor) -> Any:
        return nullcontext()


class Told(TrainerEngine):
    """An engine that is told its evaluations."""

    told: Feedback | None = None

    def __init__(self, settings: Config) -> None:
        super().__init__(settings, Still())  # type: ignore[arg-type]

    def _rows(self, rollout: Rollout) -> Any:
        return Rows(lambda: None, (), (), explained_variance=rollout.explained_variance)

    def _evaluate(self, rows: Any, *, wanted: bool) -> Feedback | None:
        return self.told


def rollout(mean_return: float, *episode_returns: float) -> Rollout:
    return Rollout(*(torch.zeros(0),) * 6, mean_return, episode_returns, (), 0.0, 0.0)


def test_the_preset_and_the_schedule_over_iterations() -> None:
    settings = make_config(
        scheduler="fixed", epochs=3, learning_rate=0.5, learning_rate_decay=True, clip_range=0.1,
        entropy_coefficient=0.02,
    )  # fmt: skip
    assert settings.iterations == 10
    engine = Told(settings)
    found = [engine.plan(rollout(1.0)) for _ in range(5)][4]
    learning_rate = pytest.approx(0.5 * 0.6)
    assert found == Settings(3, learning_rate=learning_rate, clip_range=0.1, entropy_coefficient=0.02)


def test_bandits_are_credited_with_the_reward_of_their_source() -> None:
    settings = make_config(scheduler="round-robin", arms=(4, 2, 1))
    engine = Told(settings)
    assert [engine.plan(rollout(0.0)).epochs for _ in range(4)] == [4, 2, 1, 4]
    assert engine.reward(rollout(1.5, 7.0)) == 1.5
    of_episodes = Told(replace(settings, reward_source="episode-return"))
    assert of_episodes.reward(rollout(1.5, 7.0, 8.0)) == 7.5
    assert of_episodes.reward(rollout(1.5)) is None


def test_the_augmentation_is_the_presets_or_a_bandits() -> None:
    assert Told(make_config(algo="drac", augmentation="flip")).plan(rollout(0.0)).augmentation == "flip"
    engine = Told(make_config(algo="drac", augmentation_scheduler="round-robin"))
    assert [engine.plan(rollout(0.0)).augmentation for _ in range(3)] == ["crop", "random-conv", "color-jitter"]
    assert engine.columns()["augmentation"] == 2
    assert engine.columns()["augmentation_choices/crop"] == 1
    assert Told(make_config(augmentation_scheduler="ucb")).plan(rollout(0.0)).augmentation is None  # of PPO


class Scripted(Rule):
    """A rule that remembers its feedback and lengthens its scale with every step."""

    needs_slope: ClassVar[bool] = True
    critic: ClassVar[float | None] = None
    saved: ClassVar[tuple[str, ...]] = ("steps",)

    def __init__(self, epochs: int, *, seed: int = 0) -> None:
        super().__init__(epochs, seed=seed)
        self.seen: list[Feedback | None] = []
        self._steps = 0

    def step(self, feedback: Feedback | None) -> Settings:
        self.seen.append(feedback)
        self._steps += 1
        return Settings(self.epochs - self._steps, 1.0 + self._steps, self.critic)

    def stops(self, kl: float) -> bool:
        return kl > 0.5


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    monkeypatch.setitem(RULES, "scripted", Scripted)
    return Scripted


def seen(engine: TrainerEngine) -> list[Feedback | None]:
    assert isinstance(engine.rule, Scripted)
    return engine.rule.seen


MEASURED = Feedback(slope=Estimate(2.0, 1.0), critic_slope=Estimate(0.5, 0.25), kl=0.125)


def test_a_rule_sets_epochs_and_lr_scale_from_what_the_update_left_behind(scripted: type[Scripted]) -> None:
    settings = make_config(scheduler="scripted", epochs=8, learning_rate=0.5, learning_rate_decay=True)
    engine = Told(settings)
    rest = {"clip_range": 0.2, "entropy_coefficient": 0.01}
    assert engine.plan(rollout(0.0)) == Settings(7, 2.0, learning_rate=0.5 * 2.0, **rest)
    assert not engine.stops(0.5)
    assert engine.stops(0.75)
    engine.finished(3, kl=0.75, clip_fraction=0.25, undone=True)
    assert engine.columns()["lr_scale"] == 2.0

    resumed = Told(settings)
    saved, arrays = engine.state()
    resumed.load(json.loads(json.dumps(saved, allow_nan=False)), arrays)
    left = {"kl": 0.75, "clip_fraction": 0.25, "epochs_done": 3}
    for each in (engine, resumed):
        each.told = MEASURED
        assert each.plan(rollout(0.0)) == Settings(6, 3.0, learning_rate=pytest.approx(0.5 * 0.9 * 3.0), **rest)
        expected = replace(MEASURED, **left, lr_decay=0.9)  # the guard ended it: not a rule of the loop's own
        assert seen(each)[-1] == expected
    engine.told = None  # not evaluated this time, for example because the guard undid the only epoch: its KL counts
    engine.finished(1, kl=0.75, undone=True)
    engine.plan(rollout(0.0))
    assert seen(engine)[-1] == Feedback(kl=0.75, epochs_done=1, lr_decay=0.8)


def test_the_critic_may_have_a_lr_scale_of_its_own(scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch) -> None:
    # The second row has 0.01 at most; the last, where the actor's rate is above that, the actor's.
    for base, own, rate in ((1e-3, 4.0, 1e-3 * 4), (1e-3, 32.0, 0.01), (0.5, 4.0, 0.5 * 2)):
        engine = Told(make_config(scheduler="scripted", epochs=8, learning_rate=base, monitor=False))
        monkeypatch.setattr(Scripted, "critic", own)
        found = engine.plan(rollout(0.0))
        assert (found.learning_rate, found.critic_learning_rate) == pytest.approx((base * 2.0, rate))
        assert {name: engine.columns()[name] for name in ("lr_scale", "critic_lr_scale")} == {
            "lr_scale": 2.0, "critic_lr_scale": own,
        }  # fmt: skip
        monkeypatch.setattr(Scripted, "critic", None)
        assert engine.plan(rollout(0.0)).critic_learning_rate is None
        assert engine.columns()["critic_lr_scale"] == 3.0


def test_a_slope_that_nobody_asked_for_counts_for_nothing(
    scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Monitoring measures slopes with its gains; a rule that does not want one chooses as without monitoring."""
    monkeypatch.setattr(Scripted, "wants_slope", property(lambda rule: len(rule.seen) != 1))
    engine = Told(make_config(scheduler="scripted", epochs=8))
    for _ in range(3):
        engine.plan(rollout(0.0))
        engine.finished(1, kl=0.25, clip_fraction=0.5)
        engine.told = MEASURED
    assert [each and each.slope for each in seen(engine)] == [None, UNKNOWN, MEASURED.slope]
    assert [each and each.critic_slope for each in seen(engine)] == [None, UNKNOWN, MEASURED.critic_slope]


def test_a_kl_that_is_not_finite_reaches_the_rule_and_the_checkpoint(scripted: type[Scripted]) -> None:
    for kl in (math.inf, math.nan):
        engine = Told(make_config(scheduler="scripted", epochs=8))
        engine.plan(rollout(0.0))
        engine.finished(1, kl=kl, clip_fraction=math.nan)
        resumed = Told(make_config(scheduler="scripted", epochs=8))
        saved, arrays = engine.state()
        resumed.load(json.loads(json.dumps(saved, allow_nan=False)), arrays)
        for each in (engine, resumed):
            each.plan(rollout(0.0))
            assert seen(each)[-1] == Feedback(kl=1e100, epochs_done=1, stopped=True)


def test_an_update_whose_only_epoch_was_undone_shrinks_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """It left the policy where it was, so that nothing is measured; the KL of the undone epoch is what counts."""
    monkeypatch.setattr(HindsightRule, "max_repeats", 0)
    monkeypatch.setattr(HindsightRule, "retry", lambda self, kl: None)
    records = run(config("discrete", scheduler="hindsight", scheduler_options={"kl_stop": 1e-6}, learning_rate=1.0))
    kl = records[0]["approx_kl_last_epoch"]
    assert kl > 1e-6
    assert records[0]["epochs_done"] == 1
    assert math.isnan(records[1]["slope_z"])
    # x = 0.7·½·ln(0.01/KL), the KL at most 1 and the rate at most ÷ 10.
    wanted = 0.7 * max(-math.log(10), 0.5 * math.log(0.01 / min(1.0, kl)))
    assert records[1]["lr_scale"] == pytest.approx(records[0]["lr_scale"] * math.exp(min(0.0, wanted)))


def test_a_checkpoint_of_another_version_is_refused() -> None:
    trainer = Trainer(config("discrete"))
    values, arrays = trainer.state()
    old = {name: value for name, value in values.items() if name != "engine"} | {"controller": {}, "monitor": {}}
    with pytest.raises(ValueError, match=r"of an earlier version of ADEPT; .*start again"):
        trainer.load(old, arrays)
