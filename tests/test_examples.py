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
    rows = re.findall(
        r"^(fixed 4|hindsight|bandit) +([\d.]+) ± [\d.]+ +(\d+) +([\d.]+)× +[\d.]+   (.*)$", plain_loop, re.M
    )
    assert [row[0] for row in rows] == ["fixed 4", "hindsight", "bandit"]
    # 3072 steps are 6 iterations of 8 environments × 64 steps.
    fixed, controlled, bandit = rows
    assert fixed[2:] == ("24", "1.00", "4: 100%")
    assert 6 <= int(controlled[2]) <= 24
    assert bandit[3] == "1.00"
    assert bandit[4].split()[::2] == ["4:", "2:", "1:"], "each arm is tried once"
    assert all(float(row[1]) > 8 for row in rows), "a CartPole episode lasts longer than that"


def test_plain_loop_ends_with_advice_on_the_fixed_epochs(plain_loop):
    advice = plain_loop.splitlines()[-1]
    assert advice.startswith("advice on fixed 4, seed 0: Updates move the policy by a KL of 0.00")
    assert advice.endswith("or use `Hindsight(policy)`.")  # five updates are too few for slopes, not for the KL


def test_plain_loop_has_its_lines_marked():
    text = (EXAMPLES / "plain_loop.py").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if "# ADEPT, " in line]
    assert [re.match(r"[\w.]+", line)[0] for line in lines] == ["hindsight", "settings", "hindsight.mark", "advice"]


def test_plain_loop_refuses_nonsense():
    done = run("plain_loop.py", "--seeds", "0")
    assert done.returncode == 2
    assert "--steps and --seeds must be at least 1" in done.stderr
