"""What a CUDA device asks of the code, as far as it can be asked without one.

`fake_device.py` makes updates on a device that computes no numbers. What passes between host and device is tested here,
on the CPU, by the way of the device.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adept.config import Config, Execution
from adept.networks import TorchActor
from adept.training import Trainer, pick_device


def test_updates_stay_on_the_device() -> None:
    file = Path(__file__).with_name("fake_device.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, cwd=file.parent.parent, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "13 passed" in done.stdout


def small(env: str) -> Config:
    return Config(env, environments=2, rollout_length=8, minibatch_size=8, steps=16, normalize_observations=True)


def test_rows_that_pass_through_a_page_are_the_same() -> None:
    """On another device each step's observations pass through one page; nothing may be overwritten on the way."""
    found = []
    for paged in (False, True):
        trainer = Trainer(small("gymnasium/CartPole-v1"), Execution(device="cpu", fast=False))
        if paged:
            collector: Any = trainer.collector
            collector._page, collector._host = np.zeros_like(collector._host[0]), None
        trainer.collector.restart(0)
        rollouts = [trainer.collector.collect() for _ in range(2)]
        found.append([rollouts[1].observations.clone(), rollouts[1].advantages])
        trainer.close()
    for direct, through in zip(*found, strict=True):
        assert torch.equal(direct, through)


@pytest.mark.parametrize("env", ["gymnasium/CartPole-v1", "gymnasium/Pendulum-v1"])
def test_what_comes_back_in_one_transfer_is_the_same(env: str) -> None:
    trainer = Trainer(small(env), Execution(device="cpu", fast=False))
    observations = torch.from_numpy(trainer.environments.restart(1))
    noise = trainer.network.distribution.noise(np.random.default_rng(0), 2)
    actor = TorchActor(trainer.network, torch.device("cpu"))
    direct = actor.act(observations, noise)
    packed = actor._fetched(*(torch.from_numpy(part) for part in direct))
    trainer.close()
    for one, other in zip(direct, packed, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_a_device_that_is_not_here_is_refused() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="'cuda' cannot be used here"):
            pick_device("cuda")
        assert pick_device("auto") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ValueError, match="'cuda:99' cannot be used here"):
        pick_device("cuda:99")
    with pytest.raises(ValueError, match="'meta' cannot be used here"):
        pick_device("meta")
