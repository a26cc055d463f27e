"""Updates on a device that is not the CPU, with PyTorch's fake tensors; `test_device.py` runs it as a process.

Fake tensors compute shapes, types and devices, and no numbers: an operation between tensors of two devices is the error
that it is on CUDA. A build of PyTorch for the CPU knows no CUDA; the device here is of its own kind. It must be made
known before autograd starts, hence a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration

from adept.algorithms import ALGORITHMS
from adept.algorithms.augmentations import AUGMENTATIONS
from adept.algorithms.autograd import Autograd
from adept.algorithms.learner import Learner
from adept.config import Config
from adept.envs.base import ActionSpace, Continuous, Discrete
from adept.networks import make_network
from adept.rollout import Rollout
from adept.rules import Settings

ROWS = 8
NAME = "pretend"
KINDS: dict[str, tuple[tuple[int, ...], ActionSpace]] = {
    "mlp": ((5,), Continuous((-1.0, -1.0), (1.0, 1.0))),
    "minigrid": ((3, 7, 7), Discrete(3)),
    "impala": ((3, 64, 64), Discrete(4)),
    "nature": ((4, 84, 84), Discrete(4)),
}


@pytest.fixture(scope="module")
def device() -> torch.device:
    """A device that is not the CPU; it can be made known once per process."""
    if not hasattr(torch, NAME):
        backend_registration._setup_privateuseone_for_python_backend(NAME)
    return torch.device(NAME, 0)


@pytest.fixture
def elsewhere(device: torch.device) -> Iterator[torch.device]:
    """The device, while tensors on it hold no numbers."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield device


def moved(network: nn.Module, device: torch.device) -> Any:
    """Return a network with parameters on the device; `Module.to` cannot exchange fake ones for others."""
    for part in network.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = nn.Parameter(torch.zeros(parameter.shape, device=device))
    return network


def rollout_on(device: torch.device, network: Any, shape: tuple[int, ...]) -> Rollout:
    images = len(shape) == 3
    columns = [torch.zeros(ROWS, device=device) for _ in range(4)]
    actions = torch.zeros((ROWS, *network.distribution.action_shape), device=device,
                          dtype=network.distribution.action_dtype)  # fmt: skip
    observations = torch.zeros((ROWS, *shape), device=device, dtype=torch.uint8 if images else torch.float32)
    return Rollout(observations, actions, *columns, 0.0, (), (), 0.0, 0.0, 2)


def update(device: torch.device, name: str, algo: str, plan: Settings) -> dict[str, torch.Tensor]:
    """Make the gradient steps of one epoch, go back to a snapshot, and judge rows; return all that came of it."""
    shape, actions = KINDS[name]
    config = Config("gymnasium/x", algo=algo, environments=2, rollout_length=4, minibatch_size=4, steps=8)
    with torch.utils._python_dispatch._disable_current_modes():
        network = make_network(name, shape, actions, 0)
    network = moved(network, device)
    loss = ALGORITHMS[algo].make_loss(config, shape, torch.device("cpu"))  # its generator: a device's is never fake
    learner = Learner(config, Autograd(config, network, loss))
    rollout = rollout_on(device, network, shape)
    (epoch,) = learner.epochs(rollout, plan)
    before = learner.snapshot()
    learner.restore(before)
    with learner.at(before.parameters):
        log_probs = learner.log_probs(rollout, torch.arange(3, device=device))
    return {"means": epoch.means, "log_probs": log_probs, "mean": before.mean, "square": before.square}


def test_operations_between_two_devices_are_noticed(elsewhere: torch.device) -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.zeros(3, device=elsewhere) + torch.zeros(3)
    with pytest.raises(RuntimeError, match="device"):
        nn.functional.linear(torch.zeros(2, 3, device=elsewhere), torch.zeros(4, 3))


@pytest.mark.parametrize("name", KINDS)
def test_an_update_stays_on_the_device(elsewhere: torch.device, name: str) -> None:
    metrics = update(elsewhere, name, "ppo", Settings(1, learning_rate=1e-3, clip_range=0.2, entropy_coefficient=0.01))
    assert {value.device for value in metrics.values()} == {elsewhere}


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
def test_augmentations_stay_on_the_device(elsewhere: torch.device, augmentation: str) -> None:
    metrics = update(
        elsewhere,
        "impala",
        "drac",
        Settings(1, learning_rate=1e-3, clip_range=0.2, entropy_coefficient=0.01, augmentation=augmentation),
    )
    assert {value.device for value in metrics.values()} == {elsewhere}
