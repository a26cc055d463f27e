"""Numbers as people say them, in every command and panel alike."""

from __future__ import annotations

import math


def number(value: float) -> str:
    """Return a number in a few digits, or a dash where there is none."""
    return "–" if math.isnan(value) else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Return a length of time in the two units that matter."""
    if not math.isfinite(seconds):
        return "?"
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    if seconds < 48 * 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{seconds / 86400:.1f} days"


def flops(count: float | None) -> str:
    """Return FLOPs with the prefix that fits; a question mark where they are not known."""
    if count is None:
        return "?"
    power = min(6, int(math.log10(count) // 3)) if count >= 1 else 0
    return f"{count / 1000**power:.4g} {('', 'k', 'M', 'G', 'T', 'P', 'E')[power]}FLOP"
