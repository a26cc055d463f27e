"""Processes killed at random moments, and environments that fail: what is resumed equals the uninterrupted run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from adept.config import Config, Execution
from adept.rules import RULES
from adept.runs.checkpoints import load_checkpoint
from adept.runs.records import read_status
from adept.runs.runner import run_one
from adept.studies.results import load_results
from tests.faults import worlds
from tests.faults.campaign import Campaign, Fault, command, ended, forked, hang_limit, require_nothing_left

END_SECONDS = 900
MOST_KILLS = 40
CLOCK = ("seconds", "processor_seconds", "rows")
"""What differs between a run and its repetition: times, and what stands for rows that hold times."""


def small(env: str, iterations: int = 12, **settings: Any) -> Config:
    base: dict[str, Any] = {"environments": 2, "rollout_length": 16, "minibatch_size": 16, "restart_every": 5,
                            "steps": 32 * iterations, "scheduler": "ucb"}  # fmt: skip
    base |= {"epochs": 2} if settings.get("scheduler") in RULES else {"arms": (2, 1)}
    return Config(env=env, **base | settings)


def families() -> dict[str, Config]:
    """Return a small run of each kind that has states of its own."""
    found = {
        "gymnasium": small("gymnasium/CartPole-v1", normalize_observations=True, normalize_rewards=True),
        "hindsight": small("gymnasium/CartPole-v1", scheduler="hindsight", monitor_every=2),
        "kl-rate": small("gymnasium/Pendulum-v1", scheduler="kl-rate"),
        "thompson and stopping rules": small(
            "gymnasium/Acrobot-v1", scheduler="thompson", stopping={"target-kl": 0.01, "held-out": 0.25}
        ),
    }
    if importlib.util.find_spec("pybullet"):
        found["pybullet"] = small("pybullet/Hopper", normalize_observations=True, iterations=8)
    if importlib.util.find_spec("envpool"):
        found["minigrid"] = small("minigrid/DoorKey-5x5", scheduler="hindsight", monitor_every=2)
        found["gymnasium vector"] = small("envpool/CartPole-v1", scheduler="round-robin")
        procgen = {"iterations": 6, "restart_every": 4}
        found["procgen"] = small("procgen/bigfish", **procgen)
        found["drac"] = small("procgen/bigfish", algo="drac", augmentation_scheduler="ucb", **procgen)
    return found


def run(config: Config, path: Path) -> None:
    """Carry out a run with a checkpoint after every iteration."""
    run_one(config, path, Execution(device="cpu"), checkpoint_seconds=0.0, test_episodes=0)


def lines_of(path: Path) -> list[list[str]]:
    """Return the rows of a run without those of the clock."""
    header, *lines = [line.split(",") for line in (path / "iterations.csv").read_text().splitlines()]
    keep = [index for index, name in enumerate(header) if "seconds" not in name]
    return [[line[index] for index in keep] for line in [header, *lines]]


def require_equal(path: Path, whole: Path) -> None:
    """Refuse a run that is not the other one, row by row and in its last state."""
    if read_status(path)["state"] != "done":
        raise Fault(f"{path} is not done: {read_status(path)}")
    if lines_of(path) != lines_of(whole):
        raise Fault(f"the rows of {path} are not those of the uninterrupted run")
    one, other = load_checkpoint(path), load_checkpoint(whole)
    assert one is not None
    assert other is not None
    clock = dict.fromkeys(CLOCK)
    same = one[0] | clock == other[0] | clock and one[1].keys() == other[1].keys()
    if not same or not all(np.array_equal(one[1][name], other[1][name], equal_nan=True) for name in one[1]):
        raise Fault(f"the last checkpoint of {path} is not that of the uninterrupted run")
    require_nothing_left(path)


def finish(config: Config, path: Path, said: Path) -> float:
    """Let a run end, and return how long it took."""
    started = time.monotonic()
    status = ended(forked(lambda: run(config, path), said), END_SECONDS)
    if status != 0:
        raise Fault(f"a run that nobody touched ended with {status}: {said.read_text()[-2000:]}")
    return time.monotonic() - started


def kill_family(campaign: Campaign, name: str, config: Config, kills: int) -> None:
    """Kill a run at random moments until it has been killed so often, then let it end; one case per kill."""
    rng = campaign.rng(f"kills {name}")
    folder = campaign.folder / f"kills-{name.replace(' ', '-')}"
    folder.mkdir()
    said = folder / "said.txt"
    with hang_limit(END_SECONDS):
        seconds = finish(config, folder / "whole", said)
    number = attempts = 0
    while number < kills and attempts < MOST_KILLS:
        attempts += 1
        path = folder / f"killed-{attempts}"
        with hang_limit(END_SECONDS):
            while number < kills:
                child = forked(lambda path=path: run(config, path), said)  # type: ignore[misc]
                if (status := ended(child, rng.uniform(0.0, 0.8 * seconds))) is not None:
                    if status != 0:
                        raise Fault(f"{name}: a resumed run ended with {status}: {said.read_text()[-2000:]}")
                    break
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                number += 1
                with campaign.case(f"SIGKILL {number} of {name}"):
                    if read_status(path)["state"] not in ("missing", "interrupted", "done"):
                        raise Fault(f"after a kill the run counts as {read_status(path)['state']}")
            finish(config, path, said)
            require_equal(path, folder / "whole")
    shutil.rmtree(folder)


FAILURES = {
    "reward 40": "reward", "observation 40": "not finite", "step 40": "RuntimeError", "reset 40": "RuntimeError",
    "shape 40": "an observation of shape (1,)", "terminated 40": "terminated is nan",
}  # fmt: skip
"""What the environment does from which of its steps on, and a part of what must be said."""


def resume_after_failure(campaign: Campaign) -> None:
    """A run that failed on NaN or on an error of its environment says so, and continues when that is mended."""
    worlds.register()
    folder = campaign.folder / "failures"
    folder.mkdir()
    switch = folder / "switch"
    os.environ[worlds.SWITCH] = str(switch)
    words = ["train", "--env", "gymnasium/faults/Sick-v0", "--steps", "384", "--environments", "2",
             "--rollout-length", "16", "--minibatch-size", "16", "--restart-every", "5", "--device", "cpu",
             "--checkpoint-seconds", "0", "--quiet", "--json"]  # fmt: skip
    command([*words, "--out", str(folder / "whole")], allowed=(0,))
    whole = next((folder / "whole").glob("*/*"))
    for kind, expected in FAILURES.items():
        with campaign.case(f"an environment that fails: {kind}"):
            switch.write_text(kind)
            out = folder / kind.replace(" ", "-")
            for _ in range(2):  # the second start fails as the first, and loses nothing
                _, _, said = command([*words, "--out", str(out)], allowed=(2,))
                if expected not in said or "gymnasium/faults/Sick-v0" not in said or "continues" not in said:
                    raise Fault(f"the error is not named: {said}")
            path = next(out.glob("*/*"))
            if read_status(path)["state"] != "failed":
                raise Fault(f"the run counts as {read_status(path)['state']}")
            switch.unlink()
            command([*words, "--out", str(out)], allowed=(0,))
            require_equal(path, whole)
    del os.environ[worlds.SWITCH]


def look_while_starting(campaign: Campaign, study: Path, starts: int) -> None:
    """`study status` and `study pack` while runs start, go on and are killed: no traceback, and no start is refused."""
    rng = campaign.rng("look")
    cell = load_results(study).cells[0]
    said = campaign.folder / "starts.txt"
    for number in range(starts):
        shutil.rmtree(cell.path, ignore_errors=True)
        with campaign.case(f"study status while run {number + 1} starts"):
            child = forked(lambda: run(cell.config, cell.path), said)
            deadline = time.monotonic() + rng.uniform(0.05, 1.0)
            while (status := ended(child, 0.0)) is None and time.monotonic() < deadline:
                command(["study", "status", str(study), "--json"], allowed=(0,))
                command(["advise", str(cell.path)])
            if status is None and number % 2:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            elif status is None:
                status = ended(child, END_SECONDS)
            if status not in (None, 0):
                raise Fault(f"a start was disturbed by looking: {said.read_text()[-2000:]}")
    finish(cell.config, cell.path, said)
