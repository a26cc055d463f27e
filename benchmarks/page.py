"""Write measured tables into a page, between the marks of their block."""

from __future__ import annotations

import re
from pathlib import Path


def written(text: str, block: str, content: str) -> str:
    """Return a page with the content of one marked block replaced."""
    marker = re.compile(rf"(<!-- results: {block} -->\n).*?(<!-- end of results -->)", re.DOTALL)
    if not marker.search(text):
        raise ValueError(f"the page has no block {block!r}")
    return marker.sub(lambda found: f"{found[1]}\n{content.strip()}\n\n{found[2]}", text)


def write(block: str, content: str, page: Path) -> str:
    """Replace a block of a page; return the page's name."""
    page.write_text(written(page.read_text(encoding="utf-8"), block, content), encoding="utf-8")
    return page.name
