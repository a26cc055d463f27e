"""`adept report`: statistics, figures and one page from stored runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro.conf

from adept.cli import parse, print_json
from adept.report import ReportOptions, build_report, check_report


@dataclass(frozen=True)
class ReportCommand(ReportOptions):
    """Write a report of one or several studies, or of other people's TensorBoard logs."""

    directories: tyro.conf.Positional[tuple[Path, ...]]
    """folders of studies, or of TensorBoard logs laid out as METHOD/TASK/RUN or with CleanRL's run names"""
    check: bool = False
    """write nothing; fail where the written report no longer follows from the records"""
    json: bool = False
    """print the facts as one JSON object, on stdout"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(ReportCommand, "report", words)
    if not options.directories:
        raise ValueError("report: of which study? Give its folder, for example results/minigrid")
    if options.check:
        differences = check_report(options)
        for difference in differences:
            print(f"adept: {difference}", file=sys.stderr)
        return 1 if differences else 0
    facts = build_report(options)
    if options.json:
        print_json(facts)
    else:
        print(facts["page"])
    return 0
