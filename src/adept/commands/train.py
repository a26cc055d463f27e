"""`adept train`: train an agent, or continue an interrupted run."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from adept import envs, presets
from adept.cli import given, loading, parse, print_json
from adept.config import Config, Execution
from adept.extras import require
from adept.options import check_names
from adept.presets import preset
from adept.rules import RULES, rule_options
from adept.runs.advice import read_advice
from adept.runs.imports import import_named, named_code
from adept.runs.records import CHECKPOINT_SECONDS, run_path
from adept.schedulers import scheduler_class, scheduler_options
from adept.terminal import duration, make_console, warn

EXAMPLES = {
    "adept train --env gymnasium/CartPole-v1 --steps 50000": "the preset, with advice at the end",
    "adept train --env gymnasium/CartPole-v1 --steps 50000 --scheduler hindsight": "learning rate adapted",
    "adept train --env minigrid/DoorKey-6x6 --scheduler ucb": "the paper's bandit",
}
GUIDE = "\n".join((
    "train: --env is required: the environment as backend/name. Each of these takes about a minute on a CPU:",
    *(f"  {command:<79}# {what}" for command, what in EXAMPLES.items()),
    "`adept train --help` lists environments, presets and options; with --env ENV it shows the defaults for ENV.",
))  # fmt: skip
ALIASES = {
    "--gamma": "--discount", "--gae-lambda": "--gae-coefficient", "--update-epochs": "--epochs",
    "--n-epochs": "--epochs", "--num-envs": "--environments", "--n-envs": "--environments",
    "--num-steps": "--rollout-length", "--n-steps": "--rollout-length", "--lr": "--learning-rate",
    "--ent-coef": "--entropy-coefficient", "--vf-coef": "--value-coefficient", "--clip-coef": "--clip-range",
    "--batch-size": "--minibatch-size", "--max-grad-norm": "--max-gradient-norm", "--total-timesteps": "--steps",
    "--env-id": "--env",
}  # fmt: skip
"""Flags of CleanRL and Stable-Baselines3, and their names here."""
LONG_SECONDS = 24 * 3600.0
"""A run expected to take longer is warned of."""


@dataclass(frozen=True)
class TrainOptions:
    """Train an agent. The same command continues an interrupted run. Defaults follow the environment's preset."""

    config: Config
    execution: Execution = field(default_factory=Execution)
    out: Path = Path("runs")
    """folder that the run's own folder is made in"""
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    """time between checkpoints; it changes no number"""
    test_episodes: int | None = None
    """episodes played at the end, 0 for none; by default 100 where there are test levels (Procgen), else none"""
    track: Literal["tensorboard", "wandb"] = "tensorboard"
    """where to log besides the run's folder; wandb comes on top of TensorBoard"""
    quiet: bool = False
    """show nothing while training"""
    json: bool = False
    """print one JSON object at the end, on stdout"""

    def __post_init__(self) -> None:
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise ValueError(f"--checkpoint-seconds must be a number ≥ 0, got {self.checkpoint_seconds}")
        if self.test_episodes is not None and self.test_episodes < 0:
            raise ValueError(f"--test-episodes must be a whole number ≥ 0, got {self.test_episodes}")


def run(words: list[str]) -> int:
    """Carry out the command."""
    if not words:
        warn(f"adept: {GUIDE}")
        return 2
    parts = [word.partition("=") for word in words]
    words = [ALIASES.get(name, name) + equals + value for name, equals, value in parts]
    description = f"{TrainOptions.__doc__}\n\nEnvironments:\n{envs.summary()}\n\nPresets:\n{presets.summary()}"
    default = TrainOptions(default_config(words))
    docs = knob_docs(default.config.scheduler)
    hidden = () if docs else ("scheduler_options",)
    options = parse(
        TrainOptions, "train", words, default, description=description, docs=docs, aliases=ALIASES, hidden=hidden
    )
    with loading("PyTorch"):
        from adept.runs.panel import Screen, result_table
        from adept.runs.runner import run_one
    check(options)
    config, path = options.config, run_path(options.out, options.config)
    title = f" {config.env} · {config.algo} · {config.scheduler} · seed {config.seed} "
    with Screen(title, quiet=options.quiet) as screen:
        summary = run_one(
            config, path, options.execution, on_start=screen.start, on_record=screen, on_episode=screen.episode,
            checkpoint_seconds=options.checkpoint_seconds, wandb=options.track == "wandb",
            test_episodes=options.test_episodes,
        )  # fmt: skip
    advice = read_advice(path).sentences if config.monitor and summary["state"] == "done" else ()
    if options.json:
        print_json({**summary, "advice": advice})
    else:
        console = make_console()
        console.print(result_table(summary))
        console.print(f"folder: {summary['run']}", soft_wrap=True)  # to be copied whole
        for sentence in advice:
            console.print(sentence)
    if summary["state"] == "interrupted":
        warn(f"stopped; the same command continues from {path}")
        return 130
    return 0


def check(options: TrainOptions) -> None:
    """Find mistakes before a folder is made, and warn of what is large."""
    from adept.runs.runner import check_run
    from adept.studies.estimate import expected_epochs, rate_for

    config = options.config
    import_named(named_code(config))
    warnings = check_run(config, options.execution)
    if options.track == "wandb":
        require("wandb", "wandb")
    rate = rate_for(config, {})
    seconds = config.steps * rate.step(expected_epochs(config))
    if seconds > LONG_SECONDS:
        warnings.append(f"this may take {duration(seconds)} on one CPU core ({rate.source}); lower --steps to try it")
    if not options.quiet:
        for warning in warnings:
            warn(f"adept: warning: {warning}")


def default_config(words: list[str]) -> Config:
    """Return the preset of the environment, algorithm and scheduler named, every knob of the scheduler filled in.

    Without a scheduler the preset's epochs are fixed: the baseline that other runs are compared with.
    """
    named = given(words, "env", "algo", "scheduler")
    helping = bool({"-h", "--help"} & set(words))
    try:
        if "env" not in named and not helping:
            raise ValueError(
                "train: --env is required: the environment as backend/name, for example minigrid/DoorKey-6x6"
            )
        config = preset(**{"env": "minigrid/DoorKey-6x6", **named})
        wanted, other = ("--arms", "--epochs") if config.is_bandit else ("--epochs", "--arms")
        if other in {word.partition("=")[0] for word in words}:
            raise ValueError(f"train: --scheduler {config.scheduler} takes {wanted}, not {other}; see --help")
        if given(words, "epochs").get("epochs") == "0":  # which means the default in a configuration
            raise ValueError("train: --epochs must be a whole number ≥ 1, got 0; leave it out for the preset's")
        if ":" in config.scheduler:
            import_named([config.scheduler])
        return replace(config, scheduler_options=dict(config.rule().options))
    except ValueError:
        check_names(TrainOptions, "train", words, TrainOptions(preset("minigrid/DoorKey-6x6")), ALIASES)
        raise


def knob_docs(name: str) -> dict[str, str]:
    """Return what the options of a scheduler or rule mean, by the section Args of its docs; none has none."""
    cls: type[Any] = RULES[name] if name in RULES else scheduler_class(name)
    names = rule_options(cls) if name in RULES else scheduler_options(cls)
    section = inspect.cleandoc(cls.__doc__ or "").partition("Args:\n")[2]
    found = re.findall(r"^    (\w+): ((?:.|\n        )+)", section, re.MULTILINE)
    written = {key: " ".join(text.split()).rstrip(".") for key, text in found}
    return {key: f"{name}: {written.get(key, 'an option of its own')}" for key in names}
