"""The cost formula by hand, and against what PyTorch counts around a real iteration."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from adept import cost
from adept.config import Config, Execution
from adept.presets import preset
from adept.rules import Settings
from adept.training import Trainer

PROCGEN = preset("procgen/bigfish", "ppo", "ucb")


def test_the_formula_by_hand():
    assert cost.sampling(PROCGEN) == 257 * 64
    assert cost.update(PROCGEN, 2048) == 3 * 2048
    assert cost.epoch(PROCGEN) == 3 * 2048 * 8
    assert cost.iteration(PROCGEN, 3) == 16_448 + 147_456
    drac = preset("procgen/bigfish", "drac", "ucb")
    assert cost.iteration(drac, 3) == 16_448 + 2 * 147_456


def test_ratios_against_the_largest_arm():
    assert cost.ratio(PROCGEN, 3) == 1
    assert cost.ratio(PROCGEN, 2) == pytest.approx((16_448 + 98_304) / (16_448 + 147_456))
    assert round(cost.ratio(PROCGEN, 2), 4) == 0.7001
    assert round(cost.ratio(PROCGEN, 2, minibatches=32), 4) == 0.6757


def test_formula_configuration_and_plans_need_no_torch():
    program = "import sys, adept.config, adept.cost, adept.engine, adept.presets; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def first_layer_flops(trainer: Trainer) -> int:
    """Return the FLOPs of the layers that take the observations, one row: their inputs need no gradient."""
    shape = trainer.environments.observation_shape
    found = []
    row = torch.zeros((1, *shape))

    def note(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if not inputs[0].requires_grad and isinstance(module, nn.Linear | nn.Conv2d):
            found.append(2 * module.weight[0].numel() * output[0].numel())

    hooks = [module.register_forward_hook(note) for module in trainer.network.modules()]  # type: ignore[arg-type]
    trainer.network(row)
    for hook in hooks:
        hook.remove()
    return sum(found)


CASES = [
    ("gymnasium/CartPole-v1", "ppo", {"environments": 2, "rollout_length": 32, "minibatch_size": 16}, 0.94),
    pytest.param(
        "minigrid/DoorKey-6x6", "ppo", {"environments": 4, "rollout_length": 16, "minibatch_size": 32}, 0.928,
        marks=pytest.mark.slow,
    ),
    pytest.param("pybullet/Hopper", "ppo", {"rollout_length": 128}, 0.938, marks=pytest.mark.slow),
    pytest.param(
        "procgen/bigfish", "ppo", {"environments": 2, "rollout_length": 4, "minibatch_size": 4}, 0.9807,
        marks=[pytest.mark.slow, pytest.mark.procgen],
    ),
    pytest.param(
        "procgen/bigfish", "drac", {"environments": 2, "rollout_length": 4, "minibatch_size": 4}, 0.9807,
        marks=[pytest.mark.slow, pytest.mark.procgen],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("env", "algo", "sizes", "least"), CASES)
def test_the_formula_against_the_counter_around_a_real_iteration(env, algo, sizes, least):
    config: Config = dataclasses.replace(preset(env, algo, "round-robin"), time_limit_ends=True, **sizes)
    trainer = Trainer(config, Execution(device="cpu", fast=False))
    try:
        trainer.collector.restart(0)
        with FlopCounterMode(display=False) as sampling:
            rollout = trainer.collector.collect()
        with FlopCounterMode(display=False) as update:
            list(
                trainer.learner.epochs(
                    rollout,
                    Settings(2, learning_rate=1e-4, clip_range=0.2, entropy_coefficient=0.01, augmentation="crop"),
                )
            )
    finally:
        trainer.close()
    forward = trainer.forward_flops
    counted = sampling.get_total_flops()
    # The critic alone is asked for the values after the rollout; where it shares nothing with the actor, that is less.
    spared = forward * cost.sampling(config) - counted
    assert 0 <= spared <= config.environments * forward
    # The backward pass costs twice the forward, but for the first layer's inputs, which need no gradient.
    passes = 2 * config.batch_size * (2 if algo == "drac" else 1)
    updating = forward * cost.epoch(config) * 2
    expected = updating - passes * first_layer_flops(trainer)
    assert update.get_total_flops() == expected
    assert least <= update.get_total_flops() / updating < 1


def test_the_records_cumulate_the_formula():
    config = dataclasses.replace(
        preset("gymnasium/CartPole-v1", "ppo", "round-robin"),
        arms=(3, 1), environments=2, rollout_length=16, minibatch_size=16, steps=96, monitor=False,
    )  # fmt: skip
    trainer = Trainer(config, Execution(device="cpu"))
    records = list(trainer)
    trainer.close()
    costs = [trainer.forward_flops * cost.iteration(config, epochs) for epochs in (3, 1, 3)]
    assert [record["flops"] for record in records] == list(itertools.accumulate(costs))
