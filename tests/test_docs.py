"""The documentation: links hold on the site as in the repository, commands have the options shown, examples run."""

from __future__ import annotations

import itertools
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from adept.cli import main
from adept.studies.grid import load_study

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
SETTINGS = ("--env", "--scheduler")
"""Options on which the options of `adept train` depend."""


def blocks(page: str, language: str = "") -> list[str]:
    """Return the code blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for marked, block in found if marked == language]


def commands(page: str) -> list[list[str]]:
    """Return the words of every `adept …` in the blocks and in the text of a page, without placeholders."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for block in blocks(page) for line in block.splitlines() if line.startswith("adept ")]
    found = [re.split("#|&&", line)[0] for line in (*lines, *re.findall(r"`(adept [^`]+)`", text))]
    return [line.replace(" ENV", " gymnasium/CartPole-v1").split()[1:] for line in found]


@pytest.fixture(scope="module")
def hooks() -> SimpleNamespace:
    pytest.importorskip("mkdocs")
    return SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "hooks.py")))


def test_no_page_is_twice_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = re.findall(r": ([\w/]+\.md)$", menu, re.MULTILINE)
    assert len(listed) > 10
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("README.md", "[studies](docs/studies.md#the-file)", "[studies](studies.md#the-file)"),
        ("README.md", "![x](docs/images/hindsight.svg)", "![x](images/hindsight.svg)"),
        ("docs/studies.md", "[home](../README.md)", "[home](index.md)"),
        ("docs/studies.md", "[loop](../examples/plain_loop.py)", "[loop](repository/examples/plain_loop.py.md)"),
        ("docs/studies.md", "[records](../results/sb3-savings)", "`records`"),
        ("docs/studies.md", "[all the records](../results/sb3-savings)", "all the records"),
        ("docs/studies.md", "[paper](https://arxiv.org/abs/2501.12620)", "[paper](https://arxiv.org/abs/2501.12620)"),
        ("CONTRIBUTING.md", "[x](docs/schedulers.md)", "[x](../schedulers.md)"),
        ("CONTRIBUTING.md", "[`x.py`](examples/plain_loop.py)", "[`x.py`](examples/plain_loop.py.md)"),
        ("docs/studies.md", "```\n[home](../README.md)\n```", "```\n[home](../README.md)\n```"),
    ],
)
def test_links_lead_to_the_file_on_the_site(hooks: SimpleNamespace, page: str, link: str, expected: str) -> None:
    assert hooks.rewrite(link, page, hooks.site_address(page)) == expected


def test_a_page_of_the_site_knows_its_file(hooks: SimpleNamespace) -> None:
    for path in ("README.md", "CONTRIBUTING.md", "docs/studies.md", "examples/plain_loop.py"):
        assert hooks.repository_path(hooks.site_address(path)) == path


def test_a_notebook_becomes_a_page_with_its_output(hooks: SimpleNamespace) -> None:
    outputs = [{"output_type": "stream", "text": ["3\n"]}, {"data": {"image/png": "AAAA"}}]
    cells = [
        {"cell_type": "markdown", "source": ["# A title"]},
        {"cell_type": "code", "source": ["print(3)"], "outputs": outputs},
    ]
    page = hooks._notebook("examples/x.ipynb", json.dumps({"cells": cells}))
    assert "# A title\n\n```python\nprint(3)\n```\n\n```text\n3\n```\n\n<img" in page
    assert 'src="data:image/png;base64,AAAA"' in page


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_options_shown_and_studies_exist(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command, *words in commands(page):
        if command == "study" and words and words[0] not in ("status", "pack", "NAME", "mine.toml"):
            assert load_study(str(ROOT / words[0]) if "/" in words[0] else words[0]).tasks
        flags = [word for word in words if word.startswith("--") and word != "--help"]
        if flags:
            given = [each for flag, value in itertools.pairwise(words) if flag in SETTINGS for each in (flag, value)]
            with pytest.raises(SystemExit):
                main([command, *given, "--help"])
            shown = capsys.readouterr().out.split()
            assert not [flag for flag in flags if flag not in shown], words


def test_the_study_of_the_page_is_a_study(tmp_path: Path) -> None:
    (declared,) = blocks("docs/studies.md", "toml")
    (tmp_path / "mine.toml").write_text(declared, encoding="utf-8")
    study = load_study(str(tmp_path / "mine.toml"))
    assert study.config("ucb", "gymnasium/Acrobot-v1", 5).arms == (4, 2, 1)  # the preset's K, its half, 1
