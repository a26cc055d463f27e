"""Every committed report is what its committed records give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adept.report import ReportOptions, check_report

pytest.importorskip("matplotlib")

RESULTS = Path(__file__).parent.parent.parent / "results"
REPORTS = sorted(folder.parent for folder in RESULTS.glob("*/report"))


def test_there_are_reports_to_check() -> None:
    assert {"minigrid", "pybullet", "procgen-cpu"} <= {folder.name for folder in REPORTS}


@pytest.mark.slow
@pytest.mark.parametrize("folder", REPORTS, ids=lambda folder: folder.name)
def test_a_committed_report_follows_from_its_records(folder: Path) -> None:
    assert check_report(ReportOptions((folder,))) == [], f"run `adept report results/{folder.name}` and commit it"
    report = folder / "report"
    written = json.loads((report / "report.json").read_text(encoding="utf-8"))["files"]
    found = sorted(path.relative_to(report).as_posix() for path in report.rglob("*") if path.is_file())
    assert found == written, "files that the report did not write are stale"
