"""The first iterations of nine runs, stored before a refactoring and compared after it, number for number.

    python -m tests.golden write FOLDER    # at the commit before
    python -m tests.golden check FOLDER    # at the commit after; ends with status 1 where a number differs

Numbers are compared bit for bit, so that a folder serves the machine that wrote it alone. Timings are left out.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from adept.config import Config, Execution
from adept.presets import preset
from adept.training import train

ITERATIONS = 12
TIMES = ("seconds", "time/")
OLD_NAMES = {
    "stride": "lr_scale",
    "critic_stride": "critic_lr_scale",
    "update_worth": "update_gain",
    "update_worth_error": "update_gain_error",
    "controller_distance": "rule_distance",
    "controller_z": "rule_z",
    "controller_critic": "rule_critic",
    "distance": "rule_distance",
    "z": "rule_z",
    "critic": "rule_critic",
    "gain_x0.5": "gain/x0.5",
    "gain_x1.5": "gain/x1.5",
    "gain_x2": "gain/x2",
    "gain_epoch_1": "gain/1",
    "gain_epoch_2": "gain/2",
    "gain_epoch_3": "gain/3",
}
"""Columns by their names of before, translated when a stored folder is read."""


def trained(config: Config, *, fast: bool = True) -> Iterator[dict[str, float]]:
    """Yield the records of a run in the trainer."""
    config = replace(config, steps=40 * config.batch_size, seed=7)
    yield from islice(train(config, Execution(device="cpu", fast=fast)), ITERATIONS)


def optimizing_for(config: Config, what: str) -> Config:
    """Return a configuration of hindsight that saves samples or compute."""
    try:
        return replace(config, scheduler_options={"optimize_for": what})
    except ValueError:
        return replace(config, scheduler_options={"dear": what})


def small_drac() -> Config:
    """Return DrAC on Procgen at a size for the CPU."""
    config = preset("procgen/bigfish", "drac", "ucb")
    return replace(config, environments=4, rollout_length=32, minibatch_size=64, network="nature")


def stable_baselines() -> Iterator[dict[str, float]]:
    """Yield the logged numbers and the parameters of Stable-Baselines3's PPO with hindsight."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.logger import KVWriter, Logger

    from adept.integrations.sb3 import AdeptCallback

    rows: list[dict[str, float]] = []

    class Kept(KVWriter):
        def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
            rows.append({name: float(value) for name, value in key_values.items() if isinstance(value, int | float)})

        def close(self) -> None:
            pass

    model = sb3.PPO("MlpPolicy", "CartPole-v1", seed=7, n_steps=256, n_epochs=4, device="cpu")
    model.set_logger(Logger(None, [Kept()]))
    model.learn(ITERATIONS * 256, callback=AdeptCallback("hindsight"), log_interval=1)
    yield from rows
    yield {"parameters": float(sum(each.detach().double().sum() for each in model.policy.parameters()))}


RUNS: dict[str, Callable[[], Iterator[dict[str, float]]]] = {
    "cartpole-ucb": lambda: trained(preset("gymnasium/CartPole-v1", scheduler="ucb")),
    "cartpole-ucb-reference": lambda: trained(preset("gymnasium/CartPole-v1", scheduler="ucb"), fast=False),
    "procgen-drac": lambda: trained(small_drac()),
    "doorkey-thompson": lambda: trained(preset("minigrid/DoorKey-6x6", scheduler="thompson")),
    "doorkey-samples": lambda: trained(
        optimizing_for(preset("minigrid/DoorKey-6x6", scheduler="hindsight"), "samples")
    ),
    "cheetah-compute": lambda: trained(
        optimizing_for(preset("pybullet/HalfCheetah", scheduler="hindsight"), "compute")
    ),
    "cheetah-fixed": lambda: trained(preset("pybullet/HalfCheetah", scheduler="fixed")),
    "pendulum-kl-rate": lambda: trained(preset("envpool/Pendulum-v1", scheduler="kl-rate")),
    "sb3-hindsight": stable_baselines,
}


def today(name: str) -> str:
    """Return a column's name of today."""
    prefix, slash, last = name.rpartition("/")
    return prefix + slash + OLD_NAMES.get(last, last)


def kept(row: dict[str, float]) -> dict[str, str]:
    """Return a row as text that says each number exactly, without timings."""
    kept_names = (name for name in row if not any(part in name for part in TIMES))
    return {today(name): float(row[name]).hex() for name in sorted(kept_names)}


def differences(before: list[dict[str, str]], after: list[dict[str, str]]) -> Iterator[str]:
    """Yield what differs between two runs, a line each."""
    if len(before) != len(after):
        yield f"{len(before)} rows before, {len(after)} after"
    for number, (old, new) in enumerate(zip(before, after, strict=False), 1):
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                values = [math.nan if each is None else float.fromhex(each) for each in (old.get(name), new.get(name))]
                yield f"row {number}, {name}: {values[0]!r} before, {values[1]!r} after"


def main(action: str, folder: Path, *names: str) -> int:
    """Write or check the stored runs; return how many differ."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names or RUNS:
        rows, file = [kept(row) for row in RUNS[name]()], folder / f"{name}.json"
        if action == "write":
            file.write_text(json.dumps(rows, indent=1), encoding="utf-8")
            continue
        stored = [{today(key): value for key, value in row.items()} for row in json.loads(file.read_text())]
        found = list(differences(stored, rows))
        failed += bool(found)
        print(f"{name}: {'equal' if not found else f'{len(found)} differences'}", *found[:5], sep="\n    ")
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])))
