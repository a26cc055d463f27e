from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from adept.algorithms.learner import Learner
from adept.algorithms.ppo import make_loss
from adept.config import Config, Execution
from adept.fast import FastLearner, choose_actor, choose_learner
from adept.networks import ActorCritic, make_network
from adept.training import Trainer
from tests.fast.cases import CASES, make_case, make_config, make_rollout

CPU = torch.device("cpu")
SAME = {"rtol": 0.0, "atol": 1e-9}
"""What separates two ways to the same update in float64: tens of gradient steps of the `double` fixture.

A gradient is a sum of at most some thousand products, so wrong by at most 1e3 · 1.1e-16 of its clipped norm, 0.5. Adam
turns that into at most learning rate / ε = 1e-3 / 1e-5 as much. Twenty-four steps: 24 · 100 · 0.5e-13 ≈ 1e-10.
"""


def learner(kind: type[Learner], network: ActorCritic, config: Config) -> Learner:
    return kind(config, network, make_loss(config), CPU)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("case", CASES)
def test_updates_equal_the_reference(case: str) -> None:
    config = make_config()
    network = make_case(case)
    reference = learner(Learner, copy.deepcopy(network), config)
    fast = learner(FastLearner, network, config)
    for seed in range(3):
        rollout = make_rollout(case, reference.network, config.batch_size, seed)
        expected = reference.update(rollout, 2, learning_rate=1e-3)
        stats = fast.update(rollout, 2, learning_rate=1e-3)
        assert stats.metrics == pytest.approx(expected.metrics, rel=1e-7, abs=1e-9)
        assert list(stats.metrics) == list(expected.metrics)
        assert (stats.epochs_done, stats.gradient_steps) == (expected.epochs_done, expected.gradient_steps)
    for one, other in zip(reference.network.parameters(), fast.network.parameters(), strict=True):
        torch.testing.assert_close(other, one, **SAME)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("distinct", [1, 7, 40])
def test_repeated_observations_count_as_often_as_they_occur(distinct: int) -> None:
    """Equal rows share one pass through the network; actions, advantages and the rest stay their own."""
    config, case = make_config(minibatch_size=64), "minigrid-categorical"
    network = make_case(case)
    reference, fast = learner(Learner, copy.deepcopy(network), config), learner(FastLearner, network, config)
    rollout = make_rollout(case, network, config.batch_size)
    chosen = torch.arange(config.batch_size) ** 2 % distinct
    rollout.observations.copy_(rollout.observations[chosen])
    for one in (reference, fast):
        one.update(rollout, 3, learning_rate=1e-3)
    for one, other in zip(reference.network.parameters(), fast.network.parameters(), strict=True):
        torch.testing.assert_close(other, one, **SAME)


def test_the_stop_rule_is_asked_after_each_epoch() -> None:
    config, network = make_config(), make_case("mlp-categorical")
    asked: list[float] = []
    rollout = make_rollout("mlp-categorical", network, config.batch_size)
    stats = learner(FastLearner, network, config).update(
        rollout, 5, lambda metrics: bool(asked.append(metrics["approx_kl"])) or len(asked) == 2, learning_rate=1e-3
    )
    assert (stats.epochs, stats.epochs_done, len(asked)) == (5, 2, 2)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("saver", "loader"), [(Learner, FastLearner), (FastLearner, Learner)])
def test_a_checkpoint_of_one_loads_in_the_other(saver: type[Learner], loader: type[Learner]) -> None:
    config, case = make_config(), "minigrid-categorical"
    saved = learner(saver, make_case(case), config)
    rollout = make_rollout(case, saved.network, config.batch_size)
    saved.update(rollout, 1, learning_rate=1e-3)
    loaded = learner(loader, make_case(case, seed=2), config)
    values, arrays = copy.deepcopy(saved.state())
    loaded.load(values, arrays)
    assert {name: array.dtype for name, array in loaded.state()[1].items()} == {
        name: array.dtype for name, array in arrays.items()
    }
    for name, array in loaded.state()[1].items():
        np.testing.assert_array_equal(array, arrays[name])
    for one in (saved, loaded):
        one.update(rollout, 1, learning_rate=1e-3)
    for name, array in saved.state()[1].items():
        np.testing.assert_allclose(loaded.state()[1][name], array, **SAME)


def test_before_the_first_step_nothing_of_adam_is_saved_and_loading_that_forgets() -> None:
    config, case = make_config(), "mlp-gaussian"
    fresh, used = learner(FastLearner, make_case(case), config), learner(FastLearner, make_case(case, 2), config)
    values, arrays = copy.deepcopy(fresh.state())
    assert arrays.keys() == learner(Learner, make_case(case), config).state()[1].keys()
    rollout = make_rollout(case, fresh.network, config.batch_size)
    used.update(rollout, 1, learning_rate=1e-3)
    used.load(values, arrays)
    for one in (fresh, used):
        one.update(rollout, 1, learning_rate=1e-3)
    for name, array in fresh.state()[1].items():
        np.testing.assert_array_equal(used.state()[1][name], array)


def test_a_loss_that_is_no_number_stops_the_run() -> None:
    config, network = make_config(), make_case("mlp-gaussian")
    rollout = make_rollout("mlp-gaussian", network, config.batch_size)
    rollout.returns[5] = float("nan")
    with pytest.raises(ValueError, match="finite"):
        learner(FastLearner, network, config).update(rollout, 1, learning_rate=1e-3)


def test_the_choice() -> None:
    cases = (
        ("mlp", (26,), {}, Execution(), "VectorActor", "FastLearner"),
        ("mlp", (376,), {}, Execution(), "FastActor", "FastLearner"),
        ("mlp", (26,), {"environments": 16}, Execution(), "VectorActor", "FastLearner"),
        ("mlp", (26,), {"environments": 64}, Execution(), "FastActor", "FastLearner"),
        ("mlp", (26,), {}, Execution(fast=False), "TorchActor", "Learner"),
        ("minigrid", (3, 7, 7), {}, Execution(), "FastActor", "FastLearner"),
        ("minigrid", (3, 7, 7), {"algo": "drac"}, Execution(), "FastActor", "Learner"),
        ("impala", (3, 64, 64), {}, Execution(), "TorchActor", "Learner"),
    )
    for name, shape, settings, execution, actor, updater in cases:
        config = make_config(**{"environments": 1, "steps": 10_000} | settings)
        network = make_network(name, shape, CASES["mlp-categorical"][2], 0)
        assert type(choose_actor(config, network, CPU, execution)).__name__ == actor
        assert type(choose_learner(config, network, make_loss(config), CPU, execution)).__name__ == updater
    doubled = make_network("mlp", (26,), CASES["mlp-categorical"][2], 0).double()
    assert type(choose_learner(make_config(), doubled, make_loss(make_config()), CPU, Execution())) is Learner


@pytest.mark.parametrize(
    ("env", "network"),
    [("gymnasium/CartPole-v1", "mlp"), ("gymnasium/Pendulum-v1", "mlp"), ("minigrid/DoorKey-6x6", "minigrid")],
)
def test_a_run_is_the_same_twice_and_when_resumed(env: str, network: str) -> None:
    normalize = network == "mlp"
    config = make_config(env=env, network=network, normalize_observations=normalize, steps=128 * 6, restart_every=4)

    def parameters(trainer: Trainer) -> torch.Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in trainer.network.parameters()])

    whole, again, first, second = (Trainer(config, Execution(device="cpu")) for _ in range(4))
    assert type(whole.learner) is FastLearner
    list(whole), list(again)
    records = iter(first)
    for _ in range(3):
        next(records)
    second.load(*copy.deepcopy(first.state()))
    list(second)
    assert torch.equal(parameters(whole), parameters(again))
    assert torch.equal(parameters(whole), parameters(second))


def test_a_run_follows_the_reference() -> None:
    """On a smooth task: no action is a choice that rounding could tip, and 96 steps multiply it by less than 100."""
    config = make_config(env="gymnasium/Pendulum-v1", steps=128 * 3, normalize_observations=True)
    fast, reference = (list(Trainer(config, Execution(device="cpu", fast=fast))) for fast in (True, False))
    for one, other in zip(fast, reference, strict=True):
        for name in ("gae_return", "policy_loss", "value_loss", "entropy", "approx_kl"):
            assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-4)
