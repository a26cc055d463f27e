"""`adept eval`: score a run's policy over many episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from adept.cli import parse, print_json
from adept.config import Execution
from adept.runs.evaluation import evaluate
from adept.runs.panel import number
from adept.runs.records import append_evaluation


@dataclass(frozen=True)
class EvalOptions:
    """Play episodes with a run's newest checkpoint and add the score to its evaluation.csv."""

    run: Annotated[Path, tyro.conf.Positional]
    """the run's folder"""
    episodes: int = 100
    """episodes to play"""
    levels: Literal["test", "train"] = "test"
    """Procgen only: the full distribution of levels, or those trained on"""
    deterministic: bool = False
    """take the most likely action instead of sampling"""
    seed: int = 0
    """of the episodes"""
    execution: Execution = field(default_factory=Execution)
    json: bool = False
    """print one JSON object"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(EvalOptions, "eval", words)
    result = evaluate(
        options.run, episodes=options.episodes, levels=options.levels, deterministic=options.deterministic,
        seed=options.seed, execution=options.execution,
    )  # fmt: skip
    row = result.row()
    append_evaluation(options.run, row)
    if options.json:
        print_json({**row, "returns": result.returns})
    else:
        spread = number(row["return_std"])
        print(f"return {number(row['return_mean'])} ± {spread} (deviation over {row['episodes']} episodes)")
        print(f"length {number(row['length_mean'])}; policy of step {row['step']:,}; {row['levels']} levels")
    return 0
