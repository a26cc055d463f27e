"""Controllers: from what the last update left behind to the epochs and the learning rate of the next one.

A new controller is one new file and one line in `CONTROLLERS`.
"""

from __future__ import annotations

import inspect
from typing import Any

from adept.controllers.adam_rel import AdamRel
from adept.controllers.base import Choice, Controller, Evidence
from adept.controllers.distance import Distance
from adept.controllers.hindsight import Hindsight
from adept.controllers.hypergradient import Hypergradient
from adept.controllers.kl_epochs import KLEpochs
from adept.controllers.kl_rate import KLRate
from adept.controllers.kl_rate_minibatch import KLRateMinibatch
from adept.names import unknown_name

CONTROLLERS: dict[str, type[Controller]] = {
    "hindsight": Hindsight,
    "distance": Distance,
    "kl-rate": KLRate,
    "kl-rate-minibatch": KLRateMinibatch,
    "kl-epochs": KLEpochs,
    "hypergradient": Hypergradient,
    "adam-rel": AdamRel,
}

__all__ = [
    "CONTROLLERS",
    "AdamRel",
    "Choice",
    "Controller",
    "Distance",
    "Evidence",
    "Hindsight",
    "Hypergradient",
    "KLEpochs",
    "KLRate",
    "KLRateMinibatch",
    "controller_options",
    "make_controller",
]


def make_controller(name: str, epochs: int, *, seed: int = 0, **options: Any) -> Controller:
    """Build a controller by its name in `CONTROLLERS`, starting from the preset's epochs per update."""
    if name not in CONTROLLERS:
        raise unknown_name("controller", name, CONTROLLERS)
    cls = CONTROLLERS[name]
    allowed = controller_options(cls)
    for option in options:
        if option not in allowed:
            raise unknown_name(f"option of controller {name!r}:", option, allowed)
    return cls(epochs, seed=seed, **options)


def controller_options(cls: type[Controller]) -> list[str]:
    """Return the names of a controller's own knobs: its constructor's named parameters but the seed."""
    named = inspect.signature(cls).parameters.values()
    return [each.name for each in named if each.kind is inspect.Parameter.KEYWORD_ONLY and each.name != "seed"]
