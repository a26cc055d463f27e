"""The robots of PyBullet, on the lean backend."""

from __future__ import annotations

from adept.envs.base import Environments
from adept.envs.single import SingleEnvironments

TASKS = ("Ant", "HalfCheetah", "Hopper", "Walker2D")


def make(task: str, count: int) -> Environments:
    """Return environments of one robot: Ant, HalfCheetah, Hopper or Walker2D."""
    from adept.envs import bullet  # here, since it loads PyBullet

    return SingleEnvironments(task, lambda: bullet.make(task), count)
