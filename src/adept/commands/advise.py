"""`adept advise`: recommend changes of learning rate, epochs and rewards from the records of a run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from adept.cli import parse, print_json
from adept.options import Positional
from adept.runs.advice import read_advice
from adept.terminal import say


@dataclass(frozen=True)
class AdviseOptions:
    """Say whether a run's updates were too short or too long, which epochs gained nothing, and what to change."""

    run: Positional[Path]
    """the run's folder; it may still be running"""
    json: bool = False
    """print one JSON object"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(AdviseOptions, "advise", words)
    advice = read_advice(options.run)
    if options.json:
        print_json({**dataclasses.asdict(advice), "sentences": advice.sentences})
    else:
        say("\n".join(advice.sentences))
    return 0
