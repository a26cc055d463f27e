"""Engines: ways of carrying out the cells of a study. A new one is one file and one case in `adept study`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from adept.studies.results import Cell
from adept.studies.work import Settings

TICK_SECONDS = 0.5
"""An engine yields at least this often, with an event or with None."""


@dataclass(frozen=True)
class Event:
    """Something happened to a cell."""

    kind: Literal["started", "retried", "done", "interrupted", "failed"]
    cell: Cell
    error: str | None = None


class Engine(Protocol):
    """Carry out cells, in their order where it can, and go on when some fail."""

    description: str
    here: bool
    """whether cells run on this machine"""

    def run(self, cells: Sequence[Cell], settings: Settings) -> Iterator[Event | None]:
        """Yield events as they come; closing the iterator stops the work under way, which saves itself first."""
