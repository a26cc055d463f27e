"""Write a report, or say where a written one no longer follows from its records."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adept.extras import require
from adept.report.analysis import Analysis, analyze
from adept.report.axis import points
from adept.report.loading import load_comparison
from adept.report.normalization import Normalization
from adept.report.statistics import RESAMPLES, Estimate
from adept.report.summary import Summary, summarize
from adept.report.tables import TABLES, method_rows
from adept.report.text import interval, markdown, number, percent
from adept.runs.parsing import read_json
from adept.runs.safe_io import LARGEST_TABLE, read_bytes, replace_files

if TYPE_CHECKING:
    from adept.report.figures import Drawing

PAGE, FACTS, README = "report.html", "report.json", "README.md"
MOST_RESAMPLES = 1_000_000


@dataclass(frozen=True)
class ReportOptions:
    """What a report is made from, and how."""

    directories: tuple[Path, ...]
    """folders of studies, of runs, or of TensorBoard logs laid out as METHOD/TASK/RUN or with CleanRL's run names"""
    out: Path | None = None
    """where the report goes; by default into report/ of a single folder"""
    baseline: str | None = None
    """name of the method that scores are normalised by; by default the study's"""
    normalization: Normalization = "auto"
    """ratio to the baseline, progress (share of the baseline's improvement, where scores may be negative), or none"""
    title: str | None = None
    """title of the page; by default the study's"""
    resamples: int = RESAMPLES
    """bootstrap resamples behind every interval"""

    def __post_init__(self) -> None:
        if not 100 <= self.resamples <= MOST_RESAMPLES:
            raise ValueError(
                f"--resamples must be at most {MOST_RESAMPLES:,}, and 100 or more (intervals of fewer are noise), got "
                f"{self.resamples:,}"
            )

    @property
    def output(self) -> Path:
        """The folder that is written."""
        if self.out is not None:
            return self.out
        if len(self.directories) != 1:
            raise ValueError("a report of several folders needs --out: say where it goes")
        return self.directories[0] / "report"


def build_report(options: ReportOptions) -> dict[str, Any]:
    """Write page, figures and tables, and return the facts as one JSON-safe object."""
    files, facts = report_files(options)
    output = options.output
    # The list of files comes first: a report that is interrupted can be written again.
    replace_files(output, {FACTS: files[FACTS], **files}, _read_facts(output).get("files", []))
    return {"page": str(output / PAGE), **facts}


def check_report(options: ReportOptions) -> list[str]:
    """Return how a written report differs from what its records give; empty where it follows from them.

    Pictures are compared only under the matplotlib that made them; the tables of what they draw always.
    """
    output = options.output
    if not (output / FACTS).exists():
        return [f"{output / FACTS} is missing: there is no report to check; write it first"]
    files, facts = report_files(options)
    old = _read_facts(output)
    same_artist = old.get("made_with", {}).get("matplotlib") == metadata.version("matplotlib")
    same_facts = {**old, "made_with": None} == {**facts, "made_with": None}
    found = []
    for name, content in files.items():
        path = output / name
        if not path.exists():
            found.append(f"{name} is missing")
        elif not (same_facts if name == FACTS else _equal(path, content, same_artist)):
            found.append(f"{name} no longer follows from the records")
    return found + [f"{name} is no longer made" for name in old.get("files", []) if name not in files]


def report_files(options: ReportOptions) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return every file of a report by its name, and the facts; the same records give the same bytes."""
    require("matplotlib", "train")
    from adept.report.figures import draw_all
    from adept.report.page import render_page

    comparison = load_comparison(options.directories, baseline=options.baseline, title=options.title)
    analysis = analyze(comparison, normalization=options.normalization, resamples=options.resamples)
    summary = summarize(analysis)
    drawings = draw_all(analysis)
    files = {PAGE: render_page(analysis, summary, drawings).encode()}
    for drawing in drawings:
        files |= {f"figures/{name}": content for name, content in drawing.files().items()}
    files |= {f"tables/{name}.csv": table(analysis).encode() for name, table in TABLES.items()}
    files[README] = _readme(analysis, summary, drawings).encode()
    facts = {
        "title": comparison.title,
        "baseline": comparison.baseline,
        "criterion": comparison.criterion,
        "normalization": analysis.scale.kind if analysis.scale else None,
        "winner": analysis.winner,
        "use": {entry.place: {"method": entry.method, "text": entry.text} for entry in summary.epochs},
        "summary": summary.sentences,
        "methods": [_plain(row) for row in method_rows(analysis)],
        "figures": {drawing.name: {"title": drawing.title, "caption": drawing.caption} for drawing in drawings},
        "files": sorted([*files, FACTS]),
        "made_with": {name: metadata.version(name) for name in ("matplotlib", "numpy")},
    }
    if over_axis := points(analysis):
        facts["axis"] = [_plain(vars(point)) for own in over_axis.values() for point in own]
    files[FACTS] = (json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    return files, facts


def _plain(value: object) -> Any:
    """Return a value as JSON has it: six digits, an estimate as value, low and high, null where there is none."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Estimate):
        return [_plain(bound) for bound in (value.value, value.low, value.high)] if value else None
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _readme(analysis: Analysis, summary: Summary, drawings: Iterable[Drawing]) -> str:
    """Return the findings as Markdown, for those who read where pages are not rendered."""
    heads = ["method", "runs", "IQM", "against the baseline", "P(better)", "update FLOPs", "mean epochs"]
    lines = [
        f"# {markdown(analysis.comparison.title)}", "", f"**{markdown(summary.headline)}**", "",
        *(f"- {markdown(text)}" for text in summary.sentences[1:]), "",
        f"The interactive page is [{PAGE}]({PAGE}); numbers are in [tables](tables).", "",
        f"IQM of the {markdown(analysis.criterion)}, {markdown(analysis.unit())}, with 95 % intervals:", "",
        *("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads))),
    ]  # fmt: skip
    for name, found in analysis.methods.items():
        cells = [markdown(analysis.comparison.label(name)), f"{found.done}/{found.planned}", interval(found.iqm),
                 found.standing or "–", interval(found.improvement), percent(found.update_compute),
                 number(found.epochs)]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    for drawing in drawings:
        title, file = markdown(drawing.title), f"figures/{drawing.name}"
        lines += ["", f"## {title}", "", f"![{title}]({file}.png)", "",
                  f"{markdown(drawing.caption)} ([SVG]({file}.svg), [CSV]({file}.csv))"]  # fmt: skip
    return "\n".join(lines) + "\n"


def _read_facts(output: Path) -> dict[str, Any]:
    """Return what a written report says of itself; nothing where it cannot be read."""
    try:
        return dict(read_json(output / FACTS, {"files?": [str], "made_with?": {"matplotlib?": str}}))
    except ValueError:
        return {}


def _equal(path: Path, new: bytes, same_artist: bool) -> bool:
    """Compare a file; pictures by their pixels, since two builds of zlib pack the same ones differently.

    Figures, and those within a page, count only under the matplotlib that drew them.
    """
    old = read_bytes(path, LARGEST_TABLE)
    if old == new or (path.suffix in (".png", ".svg") and not same_artist):
        return True
    if path.suffix == ".html" and not same_artist:
        old, new = (re.sub(rb"<svg.*?</svg>", b"", text, flags=re.S) for text in (old, new))
    if path.suffix != ".png":
        return old == new
    from matplotlib.image import imread

    try:
        first, second = (imread(io.BytesIO(data), format="png") for data in (old, new))
    except Exception:  # whatever a decoder of pictures raises where they are damaged
        return False
    return bool(first.shape == second.shape and abs(first - second).max() <= 2 / 255)
