"""`adept train`: train an agent, or continue an interrupted run."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from adept import envs, presets
from adept.cli import given, parse, print_json
from adept.config import Config, Execution
from adept.controllers import CONTROLLERS, make_controller
from adept.envs import make_environments
from adept.extras import require
from adept.presets import preset
from adept.runs.advice import read_advice
from adept.runs.panel import Screen, result_table
from adept.runs.records import CHECKPOINT_SECONDS, run_path
from adept.runs.runner import run_one
from adept.schedulers import paper_scheduler


@dataclass(frozen=True)
class TrainOptions:
    """Train an agent. The same command continues an interrupted run. Defaults follow the environment's preset."""

    config: Config
    execution: Execution = field(default_factory=Execution)
    out: Path = Path("runs")
    """folder that the run's own folder is made in"""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """time between checkpoints; it changes no number"""
    track: Literal["tensorboard", "wandb"] = "tensorboard"
    """where to log besides the run's folder; wandb comes on top of TensorBoard"""
    quiet: bool = False
    """show nothing while training"""
    json: bool = False
    """print one JSON object at the end, on stdout"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    description = f"{TrainOptions.__doc__}\n\nEnvironments:\n{envs.summary()}\n\nPresets:\n{presets.summary()}"
    options = parse(TrainOptions, "train", words, TrainOptions(default_config(words)), description)
    config = options.config
    make_environments(config, count=1).close()  # a mistake in the name shall leave no folder behind
    if options.track == "wandb":
        require("wandb", "wandb")
    path = run_path(options.out, config)
    title = f" {config.env} · {config.algo} · {config.scheduler} · seed {config.seed} "
    with Screen(title, quiet=options.quiet) as screen:
        summary = run_one(
            config, path, options.execution, on_start=screen.start, on_record=screen,
            checkpoint_seconds=options.checkpoint_seconds, wandb=options.track == "wandb",
        )  # fmt: skip
    advice = read_advice(path).sentences if config.watch and summary["state"] == "done" else ()
    if options.json:
        print_json({**summary, "advice": advice})
    else:
        Console().print(result_table(summary))
        for sentence in advice:
            Console().print(sentence, highlight=False)
    if summary["state"] == "interrupted":
        print(f"stopped; the same command continues from {path}", file=sys.stderr)
        return 130
    return 0


def default_config(words: list[str]) -> Config:
    """Return the preset of the environment, algorithm and scheduler named, every knob of the scheduler filled in."""
    named = given(words, "env", "algo", "scheduler", "arms")
    if "env" not in named:
        if not {"-h", "--help"} & set(words):
            raise ValueError("train: which environment? Give --env backend/name, for example minigrid/DoorKey-6x6")
        named["env"] = "minigrid/DoorKey-6x6"
    named.pop("arms", None)
    config = preset(**named)
    if config.scheduler in CONTROLLERS:
        chooser: Any = make_controller(config.scheduler, max(config.arms), seed=0, **config.scheduler_options)
    else:
        chooser = paper_scheduler(config.scheduler, config.arms, seed=0, **config.scheduler_options)
    return replace(config, scheduler_options=dict(chooser.options))
