"""Write a report, or say where a written one no longer follows from its records."""

from __future__ import annotations

import functools
import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from adept.extras import require
from adept.report.analysis import Analysis, analyze
from adept.report.loading import load_comparison
from adept.report.scales import Normalization
from adept.report.statistics import RESAMPLES, Estimate
from adept.report.summary import Summary, summarize
from adept.report.tables import TABLES
from adept.report.wording import interval, markdown, number, percent
from adept.runs.files import write_aside
from adept.runs.foreign import read_json

PAGE, FACTS, README = "report.html", "report.json", "README.md"


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
    allow: tuple[str, ...] = ()
    """configuration keys in which methods may differ beyond those that the studies declare"""
    title: str | None = None
    """title of the page; by default the study's"""
    resamples: int = RESAMPLES
    """bootstrap resamples behind every interval"""

    def __post_init__(self) -> None:
        if self.resamples < 100:
            raise ValueError(f"resamples must be 100 or more, got {self.resamples}; intervals of fewer are noise")

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
    stale = set(_read_facts(output).get("files", [])) - files.keys()
    for name, content in files.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, functools.partial(_write, content))
    for name in stale:
        if _own_file(name):
            (output / name).unlink(missing_ok=True)
    return {"page": str(output / PAGE), **facts}


def check_report(options: ReportOptions) -> list[str]:
    """Return how a written report differs from what its records give; empty where it follows from them.

    Pictures are compared only under the matplotlib that made them; the tables of what they draw always.
    """
    output = options.output
    if not (output / FACTS).exists():
        return [f"{output / FACTS} is missing: there is no report to check; write it first"]
    files, _ = report_files(options)
    old = _read_facts(output)
    same_artist = old.get("made_with", {}).get("matplotlib") == metadata.version("matplotlib")
    found = []
    for name, content in files.items():
        path = output / name
        if not path.exists():
            found.append(f"{name} is missing")
        elif name == FACTS:
            if _comparable(old) != _comparable(json.loads(content)):
                found.append(f"{name} no longer follows from the records")
        elif path.suffix in (".png", ".svg") and not same_artist:
            continue
        elif not _equal(path.suffix, path.read_bytes(), content, same_artist):
            found.append(f"{name} no longer follows from the records")
    return found + [f"{name} is no longer made" for name in old.get("files", []) if name not in files]


def report_files(options: ReportOptions) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return every file of a report by its name, and the facts; the same records give the same bytes."""
    require("matplotlib", "train")
    from adept.report.figures import draw_all
    from adept.report.page import render_page

    comparison = load_comparison(
        options.directories, baseline=options.baseline, allow=options.allow, title=options.title
    )
    analysis = analyze(comparison, normalization=options.normalization, resamples=options.resamples)
    summary = summarize(analysis)
    drawings = draw_all(analysis)
    files = {PAGE: render_page(analysis, summary, drawings, list(TABLES)).encode()}
    for drawing in drawings:
        files |= {f"figures/{name}": content for name, content in drawing.files().items()}
    files |= {f"tables/{name}.csv": table(analysis).encode() for name, table in TABLES.items()}
    captions = [(drawing.name, drawing.title, drawing.caption) for drawing in drawings]
    files[README] = _readme(analysis, summary, captions).encode()
    facts = _facts(analysis, summary)
    facts["figures"] = {name: {"title": title, "caption": caption} for name, title, caption in captions}
    facts["files"] = sorted([*files, FACTS])
    facts["made_with"] = {name: metadata.version(name) for name in ("matplotlib", "numpy")}
    files[FACTS] = (json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
    return files, facts


def _facts(analysis: Analysis, summary: Summary) -> dict[str, Any]:
    comparison = analysis.comparison
    methods = []
    keep = {verdict.method: verdict.state for verdict in summary.keep}
    for method in comparison.methods:
        found = analysis.methods[method.name]
        methods.append({
            "name": method.name, "label": method.label, "done": found.done, "planned": found.planned,
            **{measure: _estimates(table) for measure, table in found.aggregates.items()},
            "standing": found.standing or None, "p": _number(found.p), "p_not_worse": _number(found.p_not_worse),
            "iqm_difference": _bounds(found.difference), "probability_of_improvement": _bounds(found.improvement),
            "compute": _number(found.compute),
            "update_compute": _number(found.update_compute), "processor_seconds": _number(found.processor),
            "epochs": _number(found.epochs), "kwh": _number(found.energy),
            "pareto": method.name in analysis.pareto,
            **({"keep": keep[method.name]} if method.name in keep else {}),
        })  # fmt: skip
    return {
        "title": comparison.title,
        "baseline": comparison.baseline,
        "criterion": comparison.criterion,
        "normalization": analysis.criterion_scale.kind if analysis.criterion_scale else None,
        "winner": analysis.winner,
        "use": {entry.place: {"method": entry.method, "text": entry.text} for entry in summary.epochs},
        "summary": summary.sentences,
        "methods": methods,
    }


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _bounds(estimate: Estimate | None) -> list[float | None] | None:
    return None if estimate is None else [_number(value) for value in (estimate.value, estimate.low, estimate.high)]


def _estimates(table: Mapping[str, Estimate]) -> dict[str, list[float | None] | None]:
    return {name: _bounds(estimate) for name, estimate in table.items()}


def _readme(analysis: Analysis, summary: Summary, captions: Iterable[tuple[str, str, str]]) -> str:
    """Return the findings as Markdown, for those who read where pages are not rendered."""
    comparison = analysis.comparison
    lines = [f"# {markdown(comparison.title)}", "", f"**{markdown(summary.headline)}**", ""]
    lines += [f"- {markdown(text)}" for text in summary.sentences[1:]]
    lines += ["", f"The interactive page is [{PAGE}]({PAGE}); numbers are in [tables](tables).", ""]
    lines += [f"IQM of the {markdown(analysis.criterion)}, {markdown(analysis.unit())}, with 95 % intervals:", ""]
    heads = ["method", "runs", "IQM", "against the baseline", "P(better)", "update FLOPs", "mean K"]
    lines += ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads))]
    for method in comparison.methods:
        found = analysis.methods[method.name]
        cells = [f"{found.done}/{found.planned}", interval(found.primary["iqm"] if found.primary else None),
                 found.standing or "–", interval(found.improvement), percent(found.update_compute),
                 number(found.epochs)]  # fmt: skip
        lines.append(f"| {markdown(method.label)} | " + " | ".join(cells) + " |")
    for name, title, caption in captions:
        lines += ["", f"## {markdown(title)}", "", f"![{markdown(title)}](figures/{name}.png)", ""]
        lines += [f"{markdown(caption)} ([SVG](figures/{name}.svg), [CSV](figures/{name}.csv))"]
    return "\n".join(lines) + "\n"


def _write(content: bytes, file: IO[bytes]) -> None:
    file.write(content)


def _own_file(name: str) -> bool:
    """Say whether a name may be one that a report wrote: a plain one at its top, in figures/ or in tables/."""
    folder, _, file = name.rpartition("/")
    return folder in ("", "figures", "tables") and re.fullmatch(r"\w[\w.-]*", file) is not None


def _read_facts(output: Path) -> dict[str, Any]:
    """Return what a written report says of itself; nothing where it cannot be read."""
    try:
        shape = {"files?": [str], "made_with?": {"matplotlib?": str}}
        facts: dict[str, Any] = read_json(output / FACTS, shape)
    except ValueError:
        return {}
    return facts


def _comparable(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key != "made_with"}


def _equal(suffix: str, old: bytes, new: bytes, same_artist: bool) -> bool:
    """Compare files; pictures by their pixels, since two builds of zlib pack the same ones differently.

    The figures within a page count only under the matplotlib that drew them.
    """
    if suffix == ".html" and not same_artist:
        old, new = (re.sub(rb"<svg.*?</svg>", b"", text, flags=re.S) for text in (old, new))
    if old == new or suffix != ".png":
        return old == new
    from matplotlib.image import imread

    first, second = (imread(io.BytesIO(data), format="png") for data in (old, new))
    return bool(first.shape == second.shape and abs(first - second).max() <= 2 / 255)
