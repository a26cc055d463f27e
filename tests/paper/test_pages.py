"""What docs/results.md and its appendix say: the measures by hand, and the pages held to their records."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from adept.config import Config
from adept.studies.grid import load_study
from adept.studies.packing import read_pack
from paper import choices
from paper.__main__ import filled

ROOT = Path(__file__).parent.parent.parent


def test_detrending_takes_a_straight_line_away_and_keeps_what_is_fast():
    ramp = np.arange(60.0)
    inside = slice(choices.WINDOW, -choices.WINDOW)
    np.testing.assert_allclose(choices.detrended(ramp)[inside], 0, atol=1e-9)
    fast = np.where(np.arange(60) % 2, 1.0, -1.0)
    left = choices.detrended(ramp + fast)[inside]
    assert np.abs(left - fast[inside]).max() <= 1 / choices.WINDOW + 1e-9
    assert math.isnan(choices.correlation(np.ones(5), np.arange(5.0)))
    assert choices.correlation(np.arange(5.0), -np.arange(5.0)) == pytest.approx(-1)


def test_an_arm_is_held_with_nine_tenths_of_the_last_fifty_updates():
    early, late = np.full(100, 1), np.full(45, 4)
    holds = np.concatenate([early, np.full(5, 2), late])
    wavers = np.concatenate([early, np.full(6, 2), late[1:]])
    runs = [SimpleNamespace(epochs=holds), SimpleNamespace(epochs=wavers), SimpleNamespace(epochs=early)]
    evidence = SimpleNamespace(
        config=lambda name: SimpleNamespace(arms=(4, 2, 1)),
        comparison=SimpleNamespace(finished=lambda name, task: runs),
        tasks=("t",),
    )
    assert choices.held(evidence, "ucb") == {4: 1, 2: 0, 1: 1}  # type: ignore[arg-type]


def test_blocks_are_filled_and_text_around_them_stays():
    page = "a\n<!-- results: one -->\nold\n<!-- end of results -->\nb\n"
    once = filled(page, {"one": "new\n"})
    assert once == "a\n<!-- results: one -->\n\nnew\n\n<!-- end of results -->\nb\n"
    assert filled(once, {"one": "new\n"}) == once
    with pytest.raises(KeyError):
        filled(page, {})


def test_committed_studies_with_a_former_option_are_read_as_what_ran():
    for name in ("tournament", "tournament-2"):
        study = load_study(str(ROOT / "results" / name / "study.toml"))
        config = study.config("ucb", study.tasks[0], study.seeds[0])
        assert (config.scheduler, config.scheduler_options) == ("standardized-ucb", {})
        assert study.method("ucb").label == "standardised UCB {K,K/2,1}"
    packed = read_pack(ROOT / "results" / "tournament" / "records.zip")
    recorded = packed["ucb", "pybullet/Hopper", 111].config
    assert recorded["scheduler_options"] == {"scale": "auto"}, "as it was written"
    study = load_study(str(ROOT / "results" / "tournament" / "study.toml"))
    assert Config.from_dict(recorded) == study.config("ucb", "pybullet/Hopper", 111)


@pytest.mark.slow
def test_the_pages_of_results_follow_from_the_records():
    command = [sys.executable, "-m", "paper", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_papers_page_is_short():
    words = re.findall(r"\S*\w\S*", (ROOT / "docs" / "paper.md").read_text(encoding="utf-8"))  # not the bars of tables
    assert len(words) <= 1400


def test_the_results_page_is_short():
    words = len((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    assert words < 4000
