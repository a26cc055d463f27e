"""Procgen in easy mode, in EnvPool's native version; its Qt libraries come from a wheel, no system package."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from functools import cache
from pathlib import Path

from adept.config import Config
from adept.envs.backend import Backend
from adept.envs.base import Environments
from adept.envs.pool import PoolEnvironments
from adept.extras import MissingExtra, require
from adept.names import unknown_name

GAMES = (
    "bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot",
    "heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder", "starpilot",
)  # fmt: skip

# In the order in which they depend on each other.
_QT_LIBRARIES = ("libicudata.so.56", "libicuuc.so.56", "libicui18n.so.56", "libQt5Core.so.5", "libQt5Gui.so.5")


class Procgen(Backend):
    """Sixteen games, each with as many levels as there are seeds: `levels` of them for training, all for the test."""

    name = "procgen"
    about = "Procgen's sixteen games, easy mode"
    tasks = GAMES
    has_test_levels = True
    microseconds = {1: (1000.0, 2300.0), 2: (1700.0, 3900.0)}  # noqa: RUF012
    paper_minibatches = 32  # which contradicts its own 64 · 256 / 2048 = 8

    def make(
        self, config: Config, count: int, *, threads: int, render: bool, test_levels: bool, **_: bool
    ) -> Environments:
        """Return environments of one game on levels 0 … levels - 1, or on the full distribution for the test."""
        if config.task not in GAMES:
            raise unknown_name("Procgen game", config.task, GAMES)
        load_qt()
        options = {"num_levels": 0 if test_levels else config.levels, "start_level": 0}
        return PoolEnvironments(f"{config.task.capitalize()}Easy-v0", count, threads=threads, render=render, **options)


@cache
def load_qt() -> None:
    """Load the Qt libraries of the `PyQt5-Qt5` wheel for EnvPool's Procgen to link against."""
    spec = importlib.util.find_spec("PyQt5")
    folders = list(spec.submodule_search_locations or []) if spec else []
    for name in _QT_LIBRARIES:
        found = next((path for folder in folders if (path := Path(folder, "Qt5", "lib", name)).exists()), None)
        if found is None:
            raise MissingExtra(f"Procgen needs {name} of the wheel PyQt5-Qt5: pip install 'adept-rl[envpool]'")
        ctypes.CDLL(str(found), mode=ctypes.RTLD_GLOBAL)
    # EnvPool tries the libraries when it is first imported, and remembers a failure.
    module = require("envpool.procgen", "envpool")
    if getattr(module, "_PROCGEN_IMPORT_ERROR", None) is not None:
        importlib.reload(module)
