from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from adept.commands.flops import accounting
from adept.envs.base import Discrete
from adept.flops import paper_forward_macs, pass_flops
from adept.networks import NETWORKS, ActorCritic, make_network
from adept.presets import preset
from adept.runs.panel import Progress, plain_line
from adept.training import train

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
    assert pass_flops(impala(), (3, 64, 64)).whole == 2 * macs == 61_218_816


def test_the_papers_count_is_that_of_the_linear_layers():
    assert paper_forward_macs(impala()) == 2048 * 256 + 256 * 15 + 256 * 1 == 528_384
    mlp = make_network("mlp", (4,), Discrete(2), 0)
    assert paper_forward_macs(mlp) == (4 * 64 + 64 * 64 + 64 * 2) + (4 * 64 + 64 * 64 + 64)
    assert pass_flops(mlp, (4,)).whole == 2 * paper_forward_macs(mlp)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_counts_as_pytorch_counts_it(name):
    shape = {"mlp": (4,), "minigrid": (3, 7, 7), "nature": (4, 84, 84)}.get(name, (3, 64, 64))
    network = make_network(name, shape, Discrete(5), 0)
    counts = pass_flops(network, shape)
    for count, call in zip(counts, (network, network.policy, network.values), strict=True):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            call(torch.zeros((1, *shape)))
        assert count == counter.get_total_flops() > 0


def test_a_start_does_not_load_pytorchs_compiler():
    program = (
        "import sys\nfrom adept.presets import preset\nfrom adept.training import Trainer\n"
        "Trainer(preset('gymnasium/CartPole-v1'))\nassert 'torch._dynamo' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_accounting_is_what_the_command_prints():
    result = accounting(dataclasses.replace(preset("gymnasium/CartPole-v1", scheduler="ucb"), arms=(4, 2, 1)))
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


@pytest.mark.parametrize("scheduler", ["fixed", "ucb", "hindsight"])
def test_monitoring_in_the_accounting_is_what_a_run_spends_on_it(scheduler):
    steps = 10 * 256
    config = dataclasses.replace(preset("gymnasium/CartPole-v1", scheduler=scheduler), steps=steps, monitor_every=3)
    config = dataclasses.replace(config, **({"arms": (3,)} if scheduler == "ucb" else {"epochs": 3}))
    records = list(train(config))
    assert accounting(config)["monitor_flops"] == records[-1]["monitor_flops"] > 0


def test_the_compute_of_a_run_and_of_the_accounting_agree_and_monitoring_is_apart():
    """ADEPT(U) whose arms are all K=4 costs 100 % of K=4, however much is monitored; the rest has its own number."""
    config = dataclasses.replace(preset("gymnasium/CartPole-v1", scheduler="ucb"), arms=(4,), steps=30 * 256)
    progress = Progress(config, accounting(config)["forward_flops"], 0)
    for record in train(config):
        progress.add(record)
    assert progress.compute == pytest.approx(1.0)
    assert progress.monitoring == pytest.approx(record["monitor_flops"] / record["flops"])
    assert 0.01 < progress.monitoring < 0.6
    assert "compute 100% of K=4  monitoring" in plain_line(progress)
