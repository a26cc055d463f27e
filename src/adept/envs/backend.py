"""A backend: the source of environments, and the properties that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from adept.config import Config
from adept.envs.base import Environments


class Backend:
    """One source of environments.

    A new one is a file with a subclass, and one line in `adept.envs.BACKENDS`. Importing the file must stay cheap: what
    the environments need is imported by `make`.
    """

    name: ClassVar[str]
    """what stands before the slash in `backend/name`"""
    about: ClassVar[str]
    """description of its environments, in a few words"""
    tasks: ClassVar[tuple[str, ...]] = ()
    """names to begin with, for help"""
    has_test_levels: ClassVar[bool] = False
    """whether there are levels that training never sees; a run is then evaluated on them when it ends"""
    evaluation_environments: ClassVar[int] = 16
    """how many environments evaluation may step side by side"""
    microseconds: ClassVar[Mapping[int, tuple[float, float]]] = {}
    """by the passes that an algorithm makes over each row: per environment step of sampling, and per row and epoch of
    updating, in one process of one thread on a shared Xeon core; a rough guide for estimates"""
    paper_minibatches: ClassVar[int | None] = None
    """the paper's number of minibatches in its count of compute, where it is not ours (docs/studies.md)"""

    def make(
        self, config: Config, count: int, *, threads: int, render: bool, evaluating: bool, test_levels: bool
    ) -> Environments:
        """Return `count` environments of the configuration's task.

        Evaluation may ask for the game itself where training sees a changed one, and for levels of the test.
        """
        raise NotImplementedError

    def imports_code(self, task: str) -> bool:
        """Say whether making this task imports a module that its name names."""
        return False
