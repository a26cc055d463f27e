"""`adept play`: make a video of a run's policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from adept.cli import loading, parse
from adept.options import Positional
from adept.terminal import say


@dataclass(frozen=True)
class PlayOptions:
    """Write a video of episodes played with a run's newest checkpoint."""

    run: Positional[Path]
    """the run's folder"""
    video: Path
    """file to write, ending in .mp4 or .gif"""
    episodes: int = 1
    """episodes to show"""
    levels: Literal["test", "train"] = "test"
    """Procgen only: the full distribution of levels, or those trained on"""
    deterministic: bool = False
    """take the most likely action instead of sampling"""
    seed: int = 0
    """of the episodes"""
    trust: bool = False
    """import the module that the run's environment names (gymnasium/module:Id)"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(PlayOptions, "play", words)
    with loading("PyTorch"):
        from adept.runs.evaluation import write_video
    count = write_video(
        options.run, options.video, episodes=options.episodes, levels=options.levels,
        deterministic=options.deterministic, seed=options.seed, trust=options.trust,
    )  # fmt: skip
    say(f"{options.video}: {count} frames")
    return 0
