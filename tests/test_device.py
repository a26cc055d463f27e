"""What a CUDA device asks of the code, as far as it can be asked without one.

`fake_device.py` makes updates on a device that computes no numbers. What passes between host and device is tested here,
on the CPU, by the way of the device.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from adept.config import Config, Execution
from adept.training import Trainer, pick_device


def test_updates_stay_on_the_device() -> None:
    file = Path(__file__).with_name("fake_device.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, cwd=file.parent.parent, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "13 passed" in done.stdout


def test_rows_that_are_copied_to_a_device_are_the_same() -> None:
    config = Config("gymnasium/CartPole-v1", environments=2, rollout_length=8, minibatch_size=8, steps=16)
    found = []
    for copied in (False, True):
        trainer = Trainer(replace(config, normalize_observations=True), Execution(device="cpu", fast=False))
        if copied:
            trainer.collector._host = None
        trainer.collector.restart(0)
        rollouts = [trainer.collector.collect() for _ in range(2)]
        found.append([rollouts[1].observations.clone(), rollouts[1].advantages])
        trainer.close()
    for direct, through in zip(*found, strict=True):
        assert torch.equal(direct, through)


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
