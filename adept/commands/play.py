"""`adept play`: make a video of a run's policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from adept.cli import parse
from adept.runs.evaluation import write_video


@dataclass(frozen=True)
class PlayOptions:
    """Write a video of a run's newest checkpoint at play."""

    run: Annotated[Path, tyro.conf.Positional]
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


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(PlayOptions, "play", words)
    count = write_video(
        options.run, options.video, episodes=options.episodes, levels=options.levels,
        deterministic=options.deterministic, seed=options.seed,
    )  # fmt: skip
    print(f"{options.video}: {count} pictures")
    return 0
