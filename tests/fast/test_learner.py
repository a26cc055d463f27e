from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch

from adept.algorithms.learner import Learner, mean_metrics
from adept.algorithms.ppo import PPO
from adept.config import Config, Execution
from adept.fast.actors import make_actor
from adept.fast.gradients import ByHand, make_gradients
from adept.fast.passes import by_hand
from adept.networks import ActorCritic, make_network
from adept.rollout import Rollout
from adept.rules import Settings
from adept.training import Trainer
from tests.fast.cases import CASES, both, fast_learner, make_case, make_config, make_rollout, reference_learner

CPU = torch.device("cpu")
SAME = {"rtol": 0.0, "atol": 1e-9}
"""What separates two ways to the same update in float64: tens of gradient steps of the `double` fixture.

A gradient is a sum of at most some thousand products, so wrong by at most 1e3 · 1.1e-16 of its clipped norm, 0.5. Adam
turns that into at most learning rate / ε = 1e-3 / 1e-5 as much. Twenty-four steps: 24 · 100 · 0.5e-13 ≈ 1e-10.
"""

Maker = Callable[[ActorCritic, Config], Learner]


def update(learner: Learner, rollout: Rollout, epochs: int, critic: float | None = None) -> dict[str, float]:
    plan = Settings(epochs, learning_rate=1e-3, clip_range=0.2, entropy_coefficient=0.01, critic_learning_rate=critic)
    return mean_metrics(list(learner.epochs(rollout, plan)))


def assert_same_updates(case: str, rollouts: int, epochs: int, distinct: int = 0, critic: float | None = None) -> None:
    """Make the same updates with both, of rollouts with so many distinct observations if given."""
    config = make_config(minibatch_size=64 if distinct else 32)
    network = make_case(case)
    reference, fast = reference_learner(copy.deepcopy(network), config), fast_learner(network, config)
    for seed in range(rollouts):
        rollout = make_rollout(case, reference.network, config.batch_size, seed)
        if distinct:
            rollout.observations.copy_(rollout.observations[torch.arange(config.batch_size) ** 2 % distinct])
        expected, metrics = update(reference, rollout, epochs, critic), update(fast, rollout, epochs, critic)
        assert metrics == pytest.approx(expected, rel=1e-7, abs=1e-9)
        assert list(metrics) == list(expected)
    for one, other in zip(reference.network.parameters(), fast.network.parameters(), strict=True):
        torch.testing.assert_close(other, one, **SAME)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("critic", [None, 5e-4])
@pytest.mark.parametrize("case", CASES)
def test_updates_equal_the_reference(case: str, critic: float | None) -> None:
    assert_same_updates(case, rollouts=3, epochs=2, critic=critic)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("distinct", [1, 7, 40])
def test_repeated_observations_count_as_often_as_they_occur(distinct: int) -> None:
    """Equal rows share one pass through the network; actions, advantages and the rest stay their own."""
    assert_same_updates("minigrid-categorical", rollouts=1, epochs=3, distinct=distinct)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("case", CASES)
@both
def test_a_learning_rate_of_its_own_moves_the_critic_alone(case: str, make: Maker) -> None:
    """With a rate of 0 for all the rest, only the critic moves; with 0 for the critic, all but it."""
    config, network = make_config(), make_case(case)
    own = {name for name, _ in network.named_parameters() if ".critic." in name}
    assert 0 < len(own) < len(list(network.parameters()))
    rollout = make_rollout(case, network, config.batch_size)
    for rate, critic, moving in ((0.0, 1e-3, own), (1e-3, 0.0, None)):
        learner = make(copy.deepcopy(network), config)
        plan = Settings(1, learning_rate=rate, clip_range=0.2, entropy_coefficient=0.01, critic_learning_rate=critic)
        list(learner.epochs(rollout, plan))
        before = dict(network.named_parameters())
        moved = {name for name, after in learner.network.named_parameters() if not torch.equal(after, before[name])}
        assert moved == (own if moving else before.keys() - own)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("saver", "loader"), [(reference_learner, fast_learner), (fast_learner, reference_learner)])
def test_a_checkpoint_of_one_loads_in_the_other(saver: Maker, loader: Maker) -> None:
    config, case = make_config(), "minigrid-categorical"
    saved = saver(make_case(case), config)
    rollout = make_rollout(case, saved.network, config.batch_size)
    update(saved, rollout, 1)
    loaded = loader(make_case(case, seed=2), config)
    values, arrays = copy.deepcopy(saved.state())
    loaded.load(values, arrays)
    assert {name: array.dtype for name, array in loaded.state()[1].items()} == {
        name: array.dtype for name, array in arrays.items()
    }
    for name, array in loaded.state()[1].items():
        np.testing.assert_array_equal(array, arrays[name])
    for one in (saved, loaded):
        update(one, rollout, 1)
    for name, array in saved.state()[1].items():
        np.testing.assert_allclose(loaded.state()[1][name], array, **SAME)


def test_before_the_first_step_nothing_of_adam_is_saved_and_loading_that_forgets() -> None:
    config, case = make_config(), "mlp-gaussian"
    fresh, used = fast_learner(make_case(case), config), fast_learner(make_case(case, 2), config)
    values, arrays = copy.deepcopy(fresh.state())
    assert arrays.keys() == reference_learner(make_case(case), config).state()[1].keys()
    rollout = make_rollout(case, fresh.network, config.batch_size)
    update(used, rollout, 1)
    used.load(values, arrays)
    for one in (fresh, used):
        update(one, rollout, 1)
    for name, array in fresh.state()[1].items():
        np.testing.assert_array_equal(used.state()[1][name], array)


def offered(name: str, shape: tuple[int, ...], *, wanted: bool = True, **settings: object) -> list[str]:
    config = make_config(**{"environments": 1, "steps": 10_000} | settings)
    network, execution = make_network(name, shape, CASES["mlp-categorical"][2], 0), Execution(fast=wanted)
    loss = PPO(config, shape, CPU)
    parts = (make_actor(network, CPU, execution), make_gradients(config, network, loss, execution))
    return [type(part).__name__ for part in parts]


def test_small_networks_on_the_cpu_have_replacements() -> None:
    assert offered("minigrid", (3, 7, 7)) == ["FastActor", "ByHand"]
    assert offered("mlp", (26,)) == ["FastActor", "ByHand"]


def test_everything_else_has_none() -> None:
    assert offered("mlp", (26,), wanted=False) == ["TorchActor", "Autograd"]
    assert offered("impala", (3, 64, 64)) == ["TorchActor", "Autograd"]
    assert offered("minigrid", (3, 7, 7), algo="drac") == ["FastActor", "Autograd"]
    assert not by_hand(make_network("mlp", (26,), CASES["mlp-categorical"][2], 0).double(), Execution())


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
    assert type(whole.learner.gradients) is ByHand
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
    records, reference = (list(Trainer(config, Execution(device="cpu", fast=fast))) for fast in (True, False))
    for one, other in zip(records, reference, strict=True):
        for name in ("gae_return", "policy_loss", "value_loss", "entropy", "approx_kl"):
            assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-4)
