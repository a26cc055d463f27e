"""Records of studies that were packed with former options."""

from __future__ import annotations

from pathlib import Path

from adept.config import Config
from adept.studies.grid import load_study
from adept.studies.packing import read_pack

ROOT = Path(__file__).parent.parent.parent


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
