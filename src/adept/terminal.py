"""What reaches a terminal: text without control characters or markup, and numbers as people write them."""

from __future__ import annotations

import io
import logging
import math
import re
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 240
"""Columns of a table that is not printed on a terminal: lines are not folded."""
ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor, change colours or turn the direction of writing; not tabs and line ends."""


def inert(text: str) -> str:
    r"""Return text whose control characters are spelled out, as in \x1b."""
    return ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: object, stream: IO[str] | None = None) -> None:
    """Print a line, by default on stdout. Everything that this package prints passes here or through `make_console`."""
    print(inert(str(text)), file=stream, flush=stream is not None)


def warn(text: object) -> None:
    """Print a line on stderr."""
    say(text, sys.stderr)


def show_status(text: str) -> None:
    """Show a line on stderr in the place of the last one; an empty text clears it. Only where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{inert(text)}", end="", file=sys.stderr, flush=True)


def make_console(*, stderr: bool = False) -> Console:
    """Return a console of rich's to which all text is text: no markup, no emoji, no control characters."""
    from rich.console import Console
    from rich.text import Text

    class InertConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(inert(text), **options)

    looked_at = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if looked_at else WIDTH
    return InertConsole(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None, *, right_from: int | None = None
) -> Table:
    """Return a table of rich's, whose columns are aligned to the right from one on."""
    from rich.table import Table

    made = Table(title=title, title_justify="left")
    for place, name in enumerate(header):
        right = right_from is not None and place >= right_from
        made.add_column(name, justify="right" if right else "left", no_wrap=not right and right_from is not None)
    for row in rows:
        made.add_row(*row)
    return made


def set_up_streams() -> None:
    """Log warnings on stderr as inert lines; letters that a stream cannot encode are spelled out on it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(InertFormatter("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


class InertFormatter(logging.Formatter):
    """Format log records as inert text."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        return inert(super().format(record))


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


def prefixed(value: float, digits: int, gap: str = "") -> str:
    """Return a number with the letter of its power of a thousand."""
    power = min(6, int(math.log10(abs(value)) // 3)) if abs(value) >= 1 else 0
    return f"{value / 1000**power:.{digits}g}{gap}{('', 'k', 'M', 'G', 'T', 'P', 'E')[power]}"


def flops(count: float | None) -> str:
    """Return FLOPs with the prefix that fits; a question mark where they are not known."""
    return "?" if count is None or not math.isfinite(count) else f"{prefixed(count, 4, ' ')}FLOP"
