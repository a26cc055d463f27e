"""What all tests share."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("RAY_worker_niceness", "0")  # beside other work, Ray's workers would starve

if importlib.util.find_spec("gymnasium"):  # absent in the environments of some integrations
    from tests import tiny

    tiny.register()


@pytest.fixture(scope="module")
def the_only_ray() -> Iterator[None]:
    """Wait until no other tests on this machine have a cluster of Ray, and keep them from one: two must not meet."""
    with (Path(tempfile.gettempdir()) / "adept-tests-ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def double() -> Iterator[None]:
    """Compute in float64: two ways to one result then differ by far less than any mistake would make them.

    In float32 they may not. Rounding decides which of two places wins under max-pooling, and Adam makes a whole step of
    a gradient that is almost zero; how both turn out depends on the processor.
    """
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
