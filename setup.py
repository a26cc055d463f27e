"""Give the package index the README with links that work there; everything else is in pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def for_an_index(readme: str, source: str | None) -> str:
    """Return the README for a page that has none of the repository's files next to it.

    With the address of the source, links to files become absolute. Without one, a link becomes its text and the file's
    path, and images are left out.
    """

    def picture(match: re.Match[str]) -> str:
        return f"![{match[1]}]({source}/{match[2]})" if source else ""

    def link(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if source:
            return f"[{text}]({source}/{target})"
        return f"`{target}`" if text == target else f"{text} (`{target}`)"

    file = r"(?!https?:|#)([^)\s]+)"
    readme = re.sub(rf"!\[([^]]*)\]\({file}\)\n*", picture, readme)
    return re.sub(rf"(?<!!)\[([^]]*)\]\({file}\)", link, readme)


if __name__ == "__main__":
    # Python 3.10 has no tomllib.
    source = re.search(r'^Source = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    setup(
        long_description=for_an_index((ROOT / "README.md").read_text(encoding="utf-8"), source and source[1]),
        long_description_content_type="text/markdown",
    )
