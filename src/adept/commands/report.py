"""`adept report`: statistics, figures and one page from stored runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from adept.cli import loading, parse, print_json
from adept.options import Positional
from adept.report import ReportOptions, build_report, check_report
from adept.terminal import say, warn


@dataclass(frozen=True)
class ReportCommand(ReportOptions):
    """Write a report of studies, of runs of `adept train`, or of TensorBoard logs."""

    directories: Positional[tuple[Path, ...]]
    """folders of studies, of runs of `adept train`, or of TensorBoard logs laid out as METHOD/TASK/RUN or with
    CleanRL's run names"""
    check: bool = False
    """write nothing; fail where the written report no longer follows from the records"""
    json: bool = False
    """print the facts as one JSON object, on stdout"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(ReportCommand, "report", words)
    if options.check:
        differences = check_report(options)
        for difference in differences:
            warn(f"adept: {difference}")
        return 1 if differences else 0
    with loading("the runs, then drawing", "matplotlib"):
        facts = build_report(options)
    if options.json:
        print_json(facts)
    else:
        say(facts["page"])
    return 0
