"""Numbers and names in words, the same in sentences, tables, figures and captions."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from adept.report.statistics import Estimate
from adept.terminal import prefixed


def number(value: float, digits: int = 2) -> str:
    """Return a number as a reader wants it; a dash where there is none."""
    if not math.isfinite(value):
        return "never" if value == math.inf else "–"
    return f"{value:.{digits}f}" if abs(value) < 100 else f"{value:,.0f}"


def interval(estimate: Estimate, digits: int = 2) -> str:
    """Return a value with its interval."""
    text = number(estimate.value, digits)
    return f"{text} {bracket(estimate, digits)}" if estimate.has_interval else text


def bracket(estimate: Estimate, digits: int = 2) -> str:
    """Return the interval alone."""
    return f"[{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def signed(estimate: Estimate) -> str:
    """Return a difference with its sign."""
    return interval(estimate) if estimate.value < 0 else f"+{interval(estimate)}"


def percent(value: float) -> str:
    """Return a share as a whole number of percent."""
    return f"{100 * value:.0f} %" if math.isfinite(value) else "–"


def p_text(value: float) -> str:
    """Return a p-value."""
    return f"p = {value:.2g}" if value >= 0.001 else "p < 0.001"


def readable(value: float) -> str:
    """Return a large number with a letter: 245,760 as 246k."""
    return prefixed(value, 3) if math.isfinite(value) else number(value)


def listing(names: Sequence[str]) -> str:
    """Join names: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def wrapped(text: str, most: int = 32) -> str:
    """Break a long name into lines; nothing of it is cut off."""
    return "\n".join(textwrap.wrap(text, most, break_on_hyphens=False)) or text


def markdown(text: str) -> str:
    """Escape what Markdown and HTML would read as markup."""
    escaped = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{letter}" if letter in "`*_[]|#" else letter for letter in escaped)
