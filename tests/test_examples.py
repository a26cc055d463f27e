"""The examples run as scripts, on little."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def plain_loop() -> str:
    done = run("plain_loop.py", "--steps", "3072", "--seeds", "2")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plain_loop_prints_return_epochs_and_shares_of_every_method(plain_loop):
    rows = re.findall(r"^(fixed \d|ADEPT\(\w\)) +([\d.]+) ± [\d.]+ +(\d+) +[\d.]+   (.*)$", plain_loop, re.MULTILINE)
    # 3072 steps are 6 iterations of 8 environments × 64 steps.
    assert {row[0]: int(row[2]) for row in rows[:3]} == {"fixed 4": 24, "fixed 1": 6, "ADEPT(R)": 14}
    assert [row[0] for row in rows[3:]] == ["ADEPT(U)", "ADEPT(G)"]
    assert rows[0][3] == "4: 100%"
    assert rows[2][3].split() == ["4:", "33%", "2:", "33%", "1:", "33%"]
    assert all(float(row[1]) > 8 for row in rows), "a CartPole episode lasts longer than that"


def test_plain_loop_has_the_two_lines_marked():
    text = (EXAMPLES / "plain_loop.py").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if "# ADEPT, " in line]
    assert [line.split(" = ")[0] for line in lines] == ["scheduler", "epochs"]


def test_plain_loop_refuses_nonsense():
    done = run("plain_loop.py", "--seeds", "0")
    assert done.returncode == 2
    assert "--steps and --seeds must be at least 1" in done.stderr
