"""Make links between the repository's files work on the site as well: MkDocs sees only the folder docs/.

The README becomes the home page. A file outside docs/ that a page links to becomes a page (Markdown, Python, notebooks)
or a picture below repository/. Links to folders and to other files become plain text.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
SHOWN = {".md", ".py", ".ipynb", ".png", ".svg"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, and every file outside docs/ that a page links to."""
    waiting = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    waiting += [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        address = site_address(path)
        if address and not path.startswith("docs/"):
            files.append(_file(path, address, config))
        if path.endswith(".md"):
            waiting += [target for target in targets(path) if site_address(target)]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point each link to where its file is on the site."""
    address = page.file.src_uri
    return rewrite(markdown, repository_path(address), address)


def site_address(path: str) -> str | None:
    """Return where a file of the repository is on the site, or None where it is not shown."""
    if path == "README.md":
        return "index.md"
    if not (ROOT / path).is_file() or Path(path).suffix not in SHOWN:
        return None
    if path.startswith("docs/"):
        return None if path.endswith(".py") else path.removeprefix("docs/")
    return f"repository/{path}" + ("" if path.endswith((".md", ".png", ".svg")) else ".md")


def repository_path(address: str) -> str:
    """Return the file of the repository that a page of the site is made from."""
    if address == "index.md":
        return "README.md"
    if not address.startswith("repository/"):
        return f"docs/{address}"
    path = address.removeprefix("repository/")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def targets(path: str) -> list[str]:
    """Return the files that a page of the repository links to."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return [_resolve(path, match[3]) for part in FENCE.split(text)[::2] for match in LINK.finditer(part)]


def rewrite(markdown: str, path: str, address: str) -> str:
    """Return a page's text with links that hold at its address on the site."""

    def moved(match: re.Match[str]) -> str:
        mark, text, target, anchor = match.groups()
        found = site_address(_resolve(path, target))
        if found is None:
            return text if text.startswith("`") or " " in text else f"`{text}`"
        return f"{mark}[{text}]({posixpath.relpath(found, posixpath.dirname(address) or '.')}{anchor or ''})"

    parts = FENCE.split(markdown)
    return "".join(part if index % 2 else LINK.sub(moved, part) for index, part in enumerate(parts))


def _resolve(path: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _file(path: str, address: str, config: MkDocsConfig) -> File:
    source = ROOT / path
    render = {".py": _code, ".ipynb": _notebook}.get(source.suffix)
    if render is None:
        return File.generated(config, address, abs_src_path=str(source))
    return File.generated(config, address, content=render(path, source.read_text(encoding="utf-8")))


def _code(path: str, text: str) -> str:
    return f"# {path}\n\n```python\n{text.rstrip()}\n```\n"


def _notebook(path: str, text: str) -> str:
    parts = [f"The notebook `{path}`, with its output.\n"]
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [_output(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="output" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    text: Callable[[Any], str] = "".join
    return f"```text\n{text(output.get('text') or data.get('text/plain', '')).rstrip()}\n```"
