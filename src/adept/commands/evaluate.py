"""`adept eval`: score a run's policy over many episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from adept.cli import given, loading, parse, print_json
from adept.config import Execution
from adept.envs import backend_of
from adept.options import Positional
from adept.runs.records import append_evaluation, read_config
from adept.terminal import number, say, show_status, warn


@dataclass(frozen=True)
class EvalOptions:
    """Play episodes with a run's newest checkpoint and add the score to its evaluation.csv."""

    run: Positional[Path]
    """the run's folder"""
    episodes: int = 100
    """episodes to play"""
    levels: Literal["test", "train"] = "test"
    """the full distribution of levels, or those trained on; the same where a backend has no levels (all but Procgen)"""
    deterministic: bool = False
    """take the most likely action instead of sampling"""
    seed: int = 0
    """of the episodes"""
    execution: Execution = field(default_factory=Execution)
    trust: bool = False
    """import the module that the run's environment names (gymnasium/module:Id)"""
    json: bool = False
    """print one JSON object"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(EvalOptions, "eval", words)
    with loading("PyTorch"):
        from adept.runs.evaluation import evaluate
        from adept.runs.runner import check_threads
    check_threads(options.execution)
    row, returns = evaluate(
        options.run, episodes=options.episodes, levels=options.levels, deterministic=options.deterministic,
        seed=options.seed, execution=options.execution, trust=options.trust, on_episode=show_episode,
    )  # fmt: skip
    append_evaluation(options.run, row)
    config = read_config(options.run)
    has_levels = backend_of(config).has_test_levels
    if not has_levels and "levels" in given(words, "levels"):
        note = f"{config.env} has no levels that training leaves out: --levels {options.levels} changes nothing"
        warn(f"adept: note: {note}")
    if options.json:
        print_json({**row, "returns": returns})
    else:
        spread = number(row["return_std"])
        say(f"return {number(row['return_mean'])} ± {spread} (standard deviation over {row['episodes']} episodes)")
        levels = f"; {row['levels']} levels" if has_levels else ""
        say(f"length {number(row['length_mean'])}; policy of step {row['step']:,}{levels}")
    return 0


def show_episode(ended: int, episodes: int) -> None:
    """Show on a terminal how many episodes have ended."""
    show_status("" if ended == episodes else f"playing: {ended} of {episodes} episodes")
