"""The diffs for CleanRL's scripts have the lines of the guide, which the integration's tests run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def changed(diff: str) -> list[str]:
    return [line for line in diff.splitlines() if re.match(r"[+-](?![+-])", line)]


@pytest.mark.parametrize("script", ["ppo", "ppo_atari", "ppo_continuous_action"])
def test_a_diff_changes_the_lines_of_the_guide(script: str) -> None:
    guide = (EXAMPLES / "cleanrl_diff.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```diff\n(.*?)```", guide, re.DOTALL)
    diff = (EXAMPLES / "cleanrl" / f"{script}.diff").read_text(encoding="utf-8")
    assert changed(diff) == changed(block) != []
    assert diff.startswith(f"--- a/cleanrl/{script}.py\n+++ b/cleanrl/{script}.py\n")
    assert f"(cleanrl/{script}.diff)" in guide
    for head, body in re.findall(r"^@@ (.*?) @@\n((?:[ +-].*\n)*)", diff, re.MULTILINE):
        old, new = re.fullmatch(r"-\d+,(\d+) \+\d+,(\d+)", head).groups()  # type: ignore[union-attr]
        assert len(re.findall(r"^[ -]", body, re.MULTILINE)) == int(old)
        assert len(re.findall(r"^[ +]", body, re.MULTILINE)) == int(new)
