"""What the commands print tables with."""

from __future__ import annotations

import math
import sys

from rich.console import Console


def make_console() -> Console:
    """Return a console; where nobody looks, lines are not folded."""
    return Console(width=None if sys.stdout.isatty() else 240)


def cost(flops: float | None) -> str:
    """Return FLOPs with the prefix that fits."""
    if flops is None:
        return "?"
    power = min(6, int(math.log10(flops) // 3)) if flops >= 1 else 0
    return f"{flops / 1000**power:.4g} {('', 'k', 'M', 'G', 'T', 'P', 'E')[power]}FLOP"
