"""`adept demo`: the README's main job, a small study from nothing to its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from adept.cli import parse, print_json
from adept.report import ReportOptions, build_report
from adept.runs.summary import summary
from adept.runs.text import flops as cost
from adept.runs.text import number
from adept.studies.driver import run_study
from adept.studies.engines.local import LocalEngine
from adept.studies.grid import load_study
from adept.studies.results import StudyResults


@dataclass(frozen=True)
class DemoOptions:
    """Train PPO with fixed epochs and with ADEPT(U), two seeds each, and write a report. The same command continues."""

    out: Path = Path("runs/demo")
    """folder of the demo's study"""
    study: str = "demo"
    """another small study to run instead: a shipped one's name, or a TOML file"""
    workers: int = 2
    """runs side by side"""
    json: bool = False
    """print one JSON object at the end, on stdout"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(DemoOptions, "demo", words)
    results = run_study(load_study(options.study), options.out, LocalEngine(options.workers))
    facts = build_report(ReportOptions((options.out,)))
    rows = method_rows(results)
    if options.json:
        print_json({"methods": rows, "page": facts["page"], "summary": facts.get("summary")})
    else:
        show(results, rows)
        folder = Path(facts["page"]).parent
        pictures = sorted((folder / "figures").glob("*curves*.png"))
        print(f"\nreport    {facts['page']}")
        print(f"picture   {pictures[0] if pictures else folder / 'figures'}")
    return 1 if results.counts()["failed"] else 0


def method_rows(results: StudyResults) -> list[dict[str, Any]]:
    """Return a row per method: means over its finished runs, and how many of them there are."""
    rows = []
    for method in results.study.methods:
        cells = [cell for cell in results.cells if cell.method == method.name]
        done = [summary(cell.path) for cell in cells if cell.state == "done"]
        means = {name: _mean([each[name] for each in done]) for name in ("score", "epochs", "flops", "seconds")}
        rows.append({"method": method.label, "runs": f"{len(done)}/{len(cells)}", **means})
    return rows


def show(results: StudyResults, rows: Sequence[dict[str, Any]]) -> None:
    """Print the table of methods."""
    table = Table(title=results.study.title, title_justify="left", title_style="bold")
    for name in ("method", "runs", "return", "epochs", "FLOPs", "seconds"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for row in rows:
        cells = (number(row["score"]), f"{row['epochs']:,.0f}", cost(row["flops"]), f"{row['seconds']:.0f}")
        table.add_row(row["method"], row["runs"], *cells)
    console = Console()
    console.print(table)
    console.print("means over the seeds; return is that of the last 100 training episodes", style="dim")


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else float("nan")
