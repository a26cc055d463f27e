from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from adept.config import Config, Execution
from adept.envs.base import Discrete
from adept.flops import (
    accounting,
    forward_flops,
    iteration_flops,
    paper_forward_macs,
    ratio,
    sampling_flops,
    update_flops,
)
from adept.networks import ActorCritic, make_network
from adept.presets import preset
from adept.training import Trainer

PROCGEN = preset("procgen/bigfish", "ppo", "ucb")


def impala() -> ActorCritic:
    return make_network("impala", (3, 64, 64), Discrete(15), 0)


def test_forward_pass_of_impala_by_hand():
    # Convolutions of 3 × 3: in·out·9 MACs at each of the output's places.
    sides, channels, macs, inputs = (64, 32, 16), (16, 32, 32), 0, 3
    for side, output in zip(sides, channels, strict=True):
        macs += inputs * output * 9 * side**2 + 4 * output * output * 9 * (side // 2) ** 2
        inputs = output
    assert macs == 30_081_024
    macs += 32 * 8 * 8 * 256 + 256 * 15 + 256
    assert forward_flops(impala(), (3, 64, 64)) == 2 * macs == 61_218_816


def test_the_papers_count_is_that_of_the_linear_layers():
    assert paper_forward_macs(impala()) == 2048 * 256 + 256 * 15 + 256 * 1 == 528_384
    mlp = make_network("mlp", (4,), Discrete(2), 0)
    assert paper_forward_macs(mlp) == (4 * 64 + 64 * 64 + 64 * 2) + (4 * 64 + 64 * 64 + 64)
    assert forward_flops(mlp, (4,)) == 2 * paper_forward_macs(mlp)


def test_the_formula_by_hand():
    assert sampling_flops(1, PROCGEN) == 257 * 64
    assert update_flops(1, PROCGEN, 2) == 3 * 2048 * 8 * 2
    assert iteration_flops(10, PROCGEN, 3) == 10 * (16_448 + 147_456)
    drac = preset("procgen/bigfish", "drac", "ucb")
    assert iteration_flops(1, drac, 3) == 16_448 + 2 * 147_456


def test_ratios_against_the_largest_arm():
    assert ratio(PROCGEN, 3) == 1
    assert ratio(PROCGEN, 2) == pytest.approx((16_448 + 98_304) / (16_448 + 147_456))
    assert round(ratio(PROCGEN, 2), 4) == 0.7001
    assert round(ratio(PROCGEN, 2, minibatches=32), 4) == 0.6757


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
            trainer.learner.update(rollout, 2, learning_rate=1e-4)
    finally:
        trainer.close()
    forward = trainer.forward_flops
    counted = sampling.get_total_flops()
    # The critic alone is asked for the values after the rollout; where it shares nothing with the actor, that is less.
    spared = sampling_flops(forward, config) - counted
    assert 0 <= spared <= config.environments * forward
    # The backward pass costs twice the forward, but for the first layer's inputs, which need no gradient.
    passes = 2 * config.batch_size * (2 if algo == "drac" else 1)
    expected = update_flops(forward, config, 2) - passes * first_layer_flops(trainer)
    assert update.get_total_flops() == expected
    assert least <= update.get_total_flops() / update_flops(forward, config, 2) < 1


def test_accounting_is_what_the_command_prints():
    result = accounting(dataclasses.replace(preset("gymnasium/CartPole-v1"), arms=(4, 2, 1)))
    assert result["forward_flops"] == 2 * result["paper_forward_macs"]
    assert list(result["per_arm"]) == ["4", "2", "1"]
    assert result["per_arm"]["4"]["ratio"] == 1
    mean = sum(entry["iteration_flops"] for entry in result["per_arm"].values()) / 3
    assert result["ratio_round_robin"] == pytest.approx(mean / result["per_arm"]["4"]["iteration_flops"])
    assert "paper" not in result


@pytest.mark.procgen
@pytest.mark.slow
def test_accounting_of_procgen():
    result = accounting(PROCGEN)
    assert result["forward_flops"] == 61_218_816
    assert result["paper_forward_macs"] == 528_384
    assert round(result["ratio_round_robin"], 4) == 0.7001
    assert result["minibatches"] == 8
    assert result["paper"] == {"forward_macs": 528_384, "minibatches": 32, "ratio_round_robin": pytest.approx(0.67571)}
    assert [round(result["per_arm"][arm]["ratio"], 4) for arm in "321"] == [1.0, 0.7001, 0.4002]


def test_the_records_cumulate_the_formula():
    config = dataclasses.replace(
        preset("gymnasium/CartPole-v1", "ppo", "round-robin"),
        arms=(3, 1), environments=2, rollout_length=16, minibatch_size=16, steps=96,
    )  # fmt: skip
    trainer = Trainer(config, Execution(device="cpu"))
    records = list(trainer)
    trainer.close()
    costs = [iteration_flops(trainer.forward_flops, config, epochs) for epochs in (3, 1, 3)]
    assert [record["flops"] for record in records] == list(itertools.accumulate(costs))
