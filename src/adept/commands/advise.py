"""`adept advise`: recommend changes of learning rate, epochs and rewards from the records of a run."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adept.cli import parse, print_json
from adept.hindsight.advice import Advice
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
        print_json(as_json(advice))
    else:
        say("\n".join(advice.sentences))
    return 0


def as_json(advice: Advice) -> dict[str, Any]:
    """Return the advice as JSON-safe values, and in words; null where there is no number."""
    return {**_safe(dataclasses.asdict(advice)), "sentences": list(advice.sentences)}


def _safe(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _safe(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_safe(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
