"""The documentation site: every page is in its menu, and links hold on the site as they do in the repository."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("adept_docs_hooks", ROOT / "docs" / "hooks.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_page_is_twice_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = re.findall(r": ([\w/]+\.md)$", menu, re.MULTILINE)
    assert len(listed) > 10
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("README.md", "[studies](docs/studies.md#the-file)", "[studies](studies.md#the-file)"),
        ("README.md", "![x](docs/images/learning.png)", "![x](images/learning.png)"),
        ("docs/report.md", "[home](../README.md)", "[home](index.md)"),
        ("docs/report.md", "[loop](../examples/plain_loop.py)", "[loop](repository/examples/plain_loop.py.md)"),
        ("docs/report.md", "[records](../results/learning)", "`records`"),
        ("docs/report.md", "[all the records](../results/learning)", "all the records"),
        ("docs/report.md", "[paper](https://arxiv.org/abs/2501.12620)", "[paper](https://arxiv.org/abs/2501.12620)"),
        ("CONTRIBUTING.md", "[x](docs/schedulers.md)", "[x](../schedulers.md)"),
        ("CONTRIBUTING.md", "[`x.py`](examples/plain_loop.py)", "[`x.py`](examples/plain_loop.py.md)"),
        ("docs/report.md", "```\n[home](../README.md)\n```", "```\n[home](../README.md)\n```"),
    ],
)
def test_links_lead_to_the_file_on_the_site(hooks: ModuleType, page: str, link: str, expected: str) -> None:
    assert hooks.rewrite(link, page, hooks.site_address(page)) == expected


def test_a_page_of_the_site_knows_its_file(hooks: ModuleType) -> None:
    for path in ("README.md", "CONTRIBUTING.md", "docs/report.md", "examples/plain_loop.py"):
        assert hooks.repository_path(hooks.site_address(path)) == path


def test_a_notebook_becomes_a_page_with_its_output(hooks: ModuleType) -> None:
    outputs = [{"output_type": "stream", "text": ["3\n"]}, {"data": {"image/png": "AAAA"}}]
    cells = [
        {"cell_type": "markdown", "source": ["# A title"]},
        {"cell_type": "code", "source": ["print(3)"], "outputs": outputs},
    ]
    page = hooks._notebook("examples/x.ipynb", json.dumps({"cells": cells}))
    assert "# A title\n\n```python\nprint(3)\n```\n\n```text\n3\n```\n\n<img" in page
    assert 'src="data:image/png;base64,AAAA"' in page
