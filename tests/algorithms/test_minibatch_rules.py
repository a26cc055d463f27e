"""Rules that act on every gradient step, with both ways to a gradient and in whole runs."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from adept.algorithms.learner import Learner
from adept.config import Execution
from adept.engine import Engine
from adept.rules import RULES, AdamRel, KLRate, KLRateMinibatch, Settings, make_rule
from adept.rules.minibatch import MinibatchRate
from adept.training import Trainer
from tests.fast.cases import MAKERS, both, make_case, make_config, make_rollout

WITHIN_UPDATES = sorted(name for name, cls in RULES.items() if cls.adapts_minibatches or cls.resets_steps)
RATE = 1e-3
PLAN = Settings(epochs=2, learning_rate=RATE, clip_range=0.2, entropy_coefficient=0.01)


class Halving(MinibatchRate):
    """Halve the rate at every step, and note what each step is told."""

    def __init__(self, epochs: int, learner: Learner) -> None:
        super().__init__(epochs)
        self.learner, self.seen = learner, []

    def _rate(self, rate: float, kl: Any, gradient: Any, direction: Any) -> float:
        copied = None if direction is None else direction.clone()
        self.seen.append((self.learner.parameters(), rate, float(kl), gradient.clone(), copied))
        return rate / 2


def test_the_table_has_three_of_them() -> None:
    assert WITHIN_UPDATES == ["adam-rel", "hypergradient", "kl-rate-minibatch"]


@pytest.mark.usefixtures("double")
@both
@pytest.mark.parametrize("case", ["mlp-gaussian", "minigrid-categorical"])
def test_every_gradient_step_asks_the_rule_and_takes_its_rate(make: Any, case: str) -> None:
    config, network = make_config(minibatch_size=64), make_case(case)
    learner = make(network, config)
    rollout = make_rollout(case, network, config.batch_size)
    rule = Halving(2, learner)
    rates = [epoch.learning_rate for epoch in learner.epochs(rollout, PLAN, rule)]
    assert rates == [RATE / 4, RATE / 16]  # two minibatches an epoch
    assert rule.step(None).lr_scale == 1 / 16
    assert [seen[1] for seen in rule.seen] == [RATE, RATE / 2, RATE / 4, RATE / 8]
    parameters = [seen[0] for seen in rule.seen] + [learner.parameters()]
    directions = [seen[4] for seen in rule.seen]
    assert directions[0] is None
    for step in range(3):
        moved = parameters[step + 1] - parameters[step]
        torch.testing.assert_close(moved, RATE / 2 ** (step + 1) * directions[step + 1], rtol=0, atol=1e-13)
    # Adam's first step is g/(|g| + ε) of the clipped gradient.
    first = rule.seen[0][3]
    torch.testing.assert_close(directions[1], -first / (first.abs() + 1e-5))
    assert all(float(seen[3].norm()) <= 0.5 + 1e-9 for seen in rule.seen)


@both
def test_the_kl_is_that_of_the_minibatch_before_its_step(make: Any) -> None:
    config, network = make_config(minibatch_size=128), make_case("mlp-gaussian")
    learner = make(network, config)
    rollout = make_rollout("mlp-gaussian", network, config.batch_size)
    log_ratio = learner.log_probs(rollout) - rollout.log_probs
    rule = Halving(2, learner)
    next(iter(learner.epochs(rollout, PLAN, rule)))
    expected = float((log_ratio.exp() - 1 - log_ratio).mean())
    assert expected > 0.01
    assert rule.seen[0][2] == pytest.approx(expected, rel=1e-4)


@both
def test_a_rule_that_acts_between_updates_is_not_asked(make: Any) -> None:
    config, network = make_config(), make_case("mlp-gaussian")
    rollout = make_rollout("mlp-gaussian", network, config.batch_size)
    with_rule, without = make(copy.deepcopy(network), config), make(network, config)
    for epoch, plain in zip(with_rule.epochs(rollout, PLAN, KLRate(2)), without.epochs(rollout, PLAN), strict=True):
        assert epoch.metrics == plain.metrics
        assert epoch.learning_rate == plain.learning_rate == RATE
    assert torch.equal(with_rule.parameters(), without.parameters())


@both
def test_adam_rel_counts_the_steps_of_an_update_and_keeps_the_moments(make: Any) -> None:
    """θ -= α·(m/(1-β₁ᵗ))/(√(v/(1-β₂ᵗ)) + ε), with t of this update and m and v of all: by the numbers saved."""
    config, network = make_config(minibatch_size=128), make_case("mlp-gaussian")
    learner, name = make(network, config), "heads.actor.1.weight"
    rollout = make_rollout("mlp-gaussian", network, config.batch_size)
    for update in range(3):
        epochs = learner.epochs(rollout, PLAN, AdamRel(2))
        for steps in (1, 2):
            before = copy.deepcopy(learner.state()[1])
            next(epochs)
            after = learner.state()[1]
            assert after[f"adam/step/{name}"] == steps
            mean, square = (after[f"adam/{key}/{name}"].astype(np.float64) for key in ("exp_avg", "exp_avg_sq"))
            expected = -RATE * (mean / (1 - 0.9**steps)) / (np.sqrt(square / (1 - 0.999**steps)) + 1e-5)
            moved = after[f"network/{name}"].astype(np.float64) - before[f"network/{name}"]
            np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-7)
            if update:  # v ← 0.999·v + 0.001·g²: what was there is kept
                assert (square >= 0.9989 * before[f"adam/exp_avg_sq/{name}"]).all()


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", WITHIN_UPDATES)
@pytest.mark.parametrize("case", ["mlp-gaussian", "minigrid-categorical"])
def test_gradients_by_hand_give_what_autograd_gives(name: str, case: str) -> None:
    config, network = make_config(), make_case(case)
    learners = [make(copy.deepcopy(network), config) for make in MAKERS.values()]
    rules = [make_rule(name, epochs=2) for _ in learners]
    for seed in range(3):
        rollout = make_rollout(case, network, config.batch_size, seed)
        for learner, rule in zip(learners, rules, strict=True):
            list(learner.epochs(rollout, PLAN, rule))
        scales = [rule.step(None).lr_scale for rule in rules]
        assert scales[0] == pytest.approx(scales[1], rel=1e-9)
    if RULES[name].adapts_minibatches:
        assert scales[0] != 1.0
    for one, other in zip(*(learner.network.parameters() for learner in learners), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=1e-9)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("name", WITHIN_UPDATES)
def test_a_resumed_run_equals_the_uninterrupted_one(name: str, fast: bool) -> None:
    config = make_config(
        env="gymnasium/CartPole-v1", scheduler=name, epochs=2, steps=128 * 6, learning_rate=1e-3, monitor=False,
        learning_rate_decay=True,
    )  # fmt: skip
    whole, first, second = (Trainer(config, Execution(device="cpu", fast=fast)) for _ in range(3))
    expected, records = list(whole), iter(first)
    for _ in range(3):
        next(records)
    values, arrays = copy.deepcopy(first.state())
    second.load(json.loads(json.dumps(values)), arrays)
    for record, same in zip(list(second), expected[3:], strict=True):
        for column in ("learning_rate", "lr_scale", "policy_loss", "approx_kl", "entropy"):
            assert record[column] == same[column]
    assert torch.equal(second.learner.parameters(), whole.learner.parameters())
    rates = [record["learning_rate"] for record in expected]
    scheduled = [1e-3 * (1 - iteration / 6) for iteration in range(6)]
    if name == "adam-rel":
        assert rates == pytest.approx(scheduled)
    else:
        # Recorded is the rate of an update's last gradient step, from which the next update goes on.
        assert rates != pytest.approx(scheduled)
        scales = [rate / schedule for rate, schedule in zip(rates, scheduled, strict=True)]
        assert [record["lr_scale"] for record in expected] == pytest.approx([1.0, *scales[:-1]])


def test_frameworks_and_probes_refuse_them() -> None:
    from adept.probe.distances import lr_scales

    for name in WITHIN_UPDATES:
        for given in (name, {"name": name}, make_rule(name, epochs=4)):
            with pytest.raises(ValueError, match="acts on every gradient step"):
                Engine(given)
        with pytest.raises(ValueError, match="acts on every gradient step"):
            lr_scales(name, 4, {}, "normal", runs=1)
    assert isinstance(Engine("kl-rate").rule, KLRate)


@both
def test_three_minibatches_of_the_kl_rule_by_hand(make: Any) -> None:
    """A policy that has not moved raises the rate from the first minibatch on; one far away lowers it."""
    config, network = make_config(minibatch_size=32), make_case("mlp-categorical")
    away = make_rollout("mlp-categorical", network, 96)
    here = replace(away, log_probs=make(copy.deepcopy(network), config).log_probs(away))
    one = replace(PLAN, epochs=1)
    for rollout, target, factor in ((here, 0.01, 1.5**3), (away, 1e-3, 1.5**-3)):
        learner, rule = make(copy.deepcopy(network), config), KLRateMinibatch(1, target=target)
        (epoch,) = learner.epochs(rollout, one, rule)
        assert epoch.learning_rate == pytest.approx(RATE * factor)
        assert rule.step(None).lr_scale == pytest.approx(factor)
