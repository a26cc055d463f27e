"""Schedulers that fail, for tests of how studies take it; importable by worker processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from adept.schedulers import RoundRobin


class Broken(RoundRobin[int]):
    """Fails at its fourth choice, every time."""

    def _choose(self) -> int:
        if self.diagnostics()["choices/2"] >= 2:
            raise RuntimeError("the fourth choice is too hard")
        return super()._choose()


class KilledOnce(RoundRobin[int]):
    """Kills its process at some choice, if the file that the environment names is there, and removes it first."""

    def _choose(self) -> int:
        file = Path(os.environ["ADEPT_TEST_KILL"])
        if self.diagnostics()["choices/2"] >= 2 and file.exists():
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._choose()
