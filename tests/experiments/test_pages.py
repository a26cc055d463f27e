"""The one writer of generated blocks: what it fills, and that the committed pages follow from their records."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import BLOCKS, MARKER, filled, main, pages

ROOT = Path(__file__).parent.parent.parent


def test_blocks_are_filled_and_text_around_them_stays() -> None:
    page = "a\n<!-- results: one -->\nold\n<!-- end of results -->\nb\n"
    once = filled(page, {"one": "new"}.__getitem__)
    assert once == "a\n<!-- results: one -->\n\nnew\n\n<!-- end of results -->\nb\n"
    assert filled(once, {"one": "new"}.__getitem__) == once
    with pytest.raises(KeyError):
        filled(page, {}.__getitem__)


def test_every_block_has_a_writer_and_stands_somewhere() -> None:
    used = {found[2] for page in pages() for found in MARKER.finditer(page.read_text(encoding="utf-8"))}
    assert used == set(BLOCKS)


def test_a_page_that_no_longer_follows_is_named(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("experiments.__main__.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("<!-- results: learning -->\n\nby hand\n\n<!-- end of results -->\n", encoding="utf-8")
    assert main([str(page), "--check"]) == 1
    assert capsys.readouterr().out == "page.md no longer follows from the records\n"
    assert main([str(page)]) == 0
    assert "| CartPole-v1, 100 k | 5 |" in page.read_text(encoding="utf-8")
    assert main([str(page), "--check"]) == 0


@pytest.mark.slow
def test_the_pages_follow_from_the_records() -> None:
    command = [sys.executable, "-m", "experiments", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("page", "most"), [("paper", 1400), ("results", 1200)])
def test_pages_are_short(page: str, most: int) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert len(re.findall(r"\S*\w\S*", text)) <= most  # without the bars of tables
