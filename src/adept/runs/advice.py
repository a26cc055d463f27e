"""Advice on a run from its records, and the configuration that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
    flops = None
    if done is not None and len(done):
        flops = cost.epoch_flops(config, float(columns["flops"][0]), float(done[0]))
    return advise(columns, epoch_flops=flops, rewards_scaled=config.normalize_rewards)


def read_advice(path: Path) -> Advice:
    """Return the advice that follows from a run's folder."""
    return advice_of(read_config(path), read_iterations(path))


def follow(config: Config, advice: Advice) -> Config:
    """Return the configuration of the next run: every recommendation carried out, the rest as it was."""
    actions = {each.action for each in advice.recommendations}
    followed = replace(config, learning_rate=config.learning_rate * advice.factor("learning-rate"))
    if "epochs" in actions and not config.is_bandit:
        followed = replace(followed, epochs=max(1, round(config.epochs * advice.factor("epochs"))))
    if "kl-limit" in actions and "target-kl" in config.stopping:
        limit = config.stopping["target-kl"] * advice.factor("kl-limit")
        followed = replace(followed, stopping={**config.stopping, "target-kl": limit})
    if "scale-rewards" in actions:
        followed = replace(followed, normalize_rewards=True)
    if "hindsight" in actions:
        epochs = followed.epochs or max(followed.choices)
        followed = replace(followed, scheduler="hindsight", scheduler_options={}, epochs=epochs, arms=())
    return followed
