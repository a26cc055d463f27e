"""One self-contained HTML page: text, tables and the figures' own SVGs; a script of ours draws the curves that move."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from importlib import resources

from adept.report import sections
from adept.report.analysis import Analysis
from adept.report.figures import FRAME, GRID, SOFT, Drawing
from adept.report.payload import payload, to_json
from adept.report.style import looks
from adept.report.summary import Summary
from adept.report.wording import counted

SECTIONS = {"glance": "Over all tasks", "epochs": "Epochs", "more": "More figures"}
"""Where figures stand; what is under more is folded up."""


def asset(name: str) -> str:
    """Return the text of a file that the page is put together from."""
    return (resources.files("adept.report") / "assets" / name).read_text(encoding="utf-8")


def render_page(analysis: Analysis, summary: Summary, drawings: Sequence[Drawing], tables: Sequence[str]) -> str:
    """Return the page."""
    comparison = analysis.comparison
    script = asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    seeds = sorted({len(comparison.planned(method.name, task)) for method in comparison.methods
                    for task in comparison.tasks} - {0})  # fmt: skip
    count = " to ".join(str(number) for number in dict.fromkeys([seeds[0], seeds[-1]])) if seeds else "no"
    parts = {
        "title": escape(comparison.title),
        "subtitle": escape(
            f"{counted(len(comparison.methods), 'method')}, {counted(len(comparison.tasks), 'task')}, {count} seeds "
            f"each; baseline {comparison.label(comparison.baseline)}; decided by {analysis.criterion}"
        ),
        "style": asset("page.css") + _colours(analysis),
        "script": script,
        "script_hash": f"'sha256-{digest}'",
        "data": to_json(payload(analysis)),
        "summary": sections.findings(summary),
        "methods": sections.methods(analysis, summary),
        "tasks": sections.task_tables(analysis),
        "scores": sections.scores(analysis),
        "unfinished": sections.unfinished(analysis),
        "measured": sections.measured(analysis),
        "configuration": sections.configuration(analysis),
        "files": _files(drawings, tables),
        **{place: _figures(analysis, drawings, place) for place in SECTIONS},
    }
    # One pass, so that nothing that is put in is looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], asset("page.html"))


def _colours(analysis: Analysis) -> str:
    appearance = list(looks(analysis.comparison).values())
    light = "".join(f"--m{index}:{look.light};" for index, look in enumerate(appearance))
    dark = "".join(f"--m{index}:{look.dark};" for index, look in enumerate(appearance))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


def _figures(analysis: Analysis, drawings: Sequence[Drawing], section: str) -> str:
    """Return a section with its figures; nothing where it has none."""
    parts = []
    for drawing in drawings:
        if drawing.section != section:
            continue
        body = (
            f'<div class="figure" role="img" aria-label="{escape(drawing.title)}">{inline(analysis, drawing)}</div>'
            f"<figcaption>{escape(drawing.caption)}</figcaption>"
        )
        if section == "more":
            parts.append(f"<details><summary>{escape(drawing.title)}</summary><figure>{body}</figure></details>")
        else:
            parts.append(f"<figure><h3>{escape(drawing.title)}</h3>{body}</figure>")
    figures = "\n".join(parts)
    return f'<section id="{section}">\n<h2>{SECTIONS[section]}</h2>\n{figures}\n</section>' if parts else ""


def inline(analysis: Analysis, drawing: Drawing) -> str:
    """Return a figure's SVG for the page: its ids made unique, its methods marked, its colours those of the theme."""
    svg = drawing.svg[drawing.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r">\s+<", "><", re.sub(r"\s+", " ", svg))
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'id="m(\d+)-\d+"', r'class="m\1"', svg)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{drawing.name}-", svg)
    svg = svg.replace("'DejaVu Sans'", "system-ui, sans-serif")
    colours = {SOFT: "soft", FRAME: "faint", GRID: "grid", "#ffffff": "ground", "#000000": "ink", "#1d2126": "ink"}
    theme = {**{look.light: f"m{index}" for index, look in enumerate(looks(analysis.comparison).values())}, **colours}
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: f"var(--{theme[match[0]]})" if match[0] in theme else match[0], svg)


def _files(drawings: Sequence[Drawing], tables: Sequence[str]) -> str:
    items = [
        f"<li>{escape(drawing.title)}: "
        + " · ".join(f'<a href="figures/{drawing.name}.{kind}">{kind.upper()}</a>' for kind in ("png", "svg", "csv"))
        + "</li>"
        for drawing in drawings
    ]
    items += [f'<li>Table of {name}: <a href="tables/{name}.csv">CSV</a></li>' for name in tables]
    note = "In the folder of this page; each figure has the CSV of what it draws beside it."
    return f'<ul class="plain columns">{"".join(items)}</ul><p class="caption">{note}</p>'
