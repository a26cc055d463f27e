"""sbx: PPO of Stable-Baselines3's interface in JAX."""

from __future__ import annotations

from collections.abc import Callable

from sbx import PPO

from benchmarks.rivals.sb3 import make_with
from benchmarks.rivals.tasks import Task


def make(task: Task) -> Callable[[], int]:
    """Return what runs one iteration and tells its steps."""
    return make_with(PPO, task)
