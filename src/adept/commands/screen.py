"""What the commands print tables with."""

from __future__ import annotations

import sys

from rich.console import Console


def make_console() -> Console:
    """Return a console; where nobody looks, lines are not folded."""
    return Console(width=None if sys.stdout.isatty() else 240)
