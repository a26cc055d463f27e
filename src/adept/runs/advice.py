"""What a run's records say about its learning rate and epochs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adept import cost
from adept.config import Config
from adept.hindsight.advice import Advice, advise
from adept.runs.records import read_config, read_iterations


def advice_of(config: Config, columns: Mapping[str, npt.NDArray[np.float64]]) -> Advice:
    """Return the advice that follows from the columns of a run with this configuration."""
    done = columns.get("epochs_done")
    if done is None or not len(done):
        return advise(columns)
    return advise(columns, epoch_flops=cost.epoch_flops(config, float(columns["flops"][0]), float(done[0])))


def read_advice(path: Path) -> Advice:
    """Return the advice that follows from a run's folder."""
    return advice_of(read_config(path), read_iterations(path))
