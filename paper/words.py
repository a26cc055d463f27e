"""Numbers with their intervals as words, and tables, for Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adept.report.statistics import Estimate
from adept.report.text import percent


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> str:
    """Return a Markdown table; the last columns, as many as said, stand to the right."""
    marks = ["---"] * (len(header) - right) + ["---:"] * right
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, marks, *rows])


def thousands(estimate: Estimate) -> str:
    """Return a difference in steps with its interval, in thousands."""
    return signed(estimate, 1 / 1000, " k")


def signed(estimate: Estimate, scale: float, unit: str = "") -> str:
    """Return a scaled difference with its interval, in whole numbers with their signs."""
    value, low, high = (scale * value for value in (estimate.value, estimate.low, estimate.high))
    return f"{round(value):+d}{unit}" + (f" [{round(low):+d}, {round(high):+d}]" if estimate.has_interval else "")


def percent_interval(estimate: Estimate) -> str:
    """Return a share with its interval, in percent."""
    low, high = (f"{100 * value:.0f}" for value in (estimate.low, estimate.high))
    return f"{100 * estimate.value:.0f} % [{low}, {high}]" if estimate.has_interval else percent(estimate.value)


def points(estimate: Estimate) -> str:
    """Return a difference of normalised scores with its interval, in percent of the preset's score."""
    value, low, high = (100 * value for value in (estimate.value, estimate.low, estimate.high))
    return f"{value:+.1f} %" + (f" [{low:+.1f}, {high:+.1f}]" if estimate.has_interval else "")
