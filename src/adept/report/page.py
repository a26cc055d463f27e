"""One self-contained HTML page: text, tables and the figures' own SVGs; a script of ours draws the curves that move."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape

from adept.report import sections
from adept.report.analysis import Analysis
from adept.report.curves import payload, to_json
from adept.report.figures import FRAME, GRID, SOFT, Drawing
from adept.report.style import looks
from adept.report.summary import Summary
from adept.report.tables import TABLES
from adept.report.text import counted

SECTIONS = {"axis_figure": "Over the axis", "glance": "Over all tasks", "epochs": "Epochs", "more": "More figures"}
"""Where figures stand; what is under more is folded up."""


def render_page(analysis: Analysis, summary: Summary, drawings: Sequence[Drawing]) -> str:
    """Return the page."""
    comparison = analysis.comparison
    script, colours = sections.asset("page.js"), list(looks(comparison).values())
    light, dark = ("".join(f"--m{index}:{getattr(look, ground)};" for index, look in enumerate(colours))
                   for ground in ("light", "dark"))  # fmt: skip
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "title": escape(comparison.title),
        "subtitle": escape(
            f"{counted(len(comparison.methods), 'method')}, {counted(len(comparison.tasks), 'task')}, "
            f"{comparison.seeds(comparison.tasks)} each; baseline {comparison.label(comparison.baseline)}; decided by "
            f"{analysis.criterion}"
        ),
        "style": f"{sections.asset('page.css')}:root{{{light}}}\n@media screen and (prefers-color-scheme: dark)"
        f"{{:root{{{dark}}}}}\n",
        "script": script,
        "script_hash": f"'sha256-{digest}'",
        "data": to_json(payload(analysis)),
        "summary": sections.findings(summary),
        "methods": sections.methods(analysis),
        "tasks": "\n".join(sections.task_table(analysis, task) for task in comparison.tasks),
        "scores": sections.scores(analysis),
        "unfinished": sections.unfinished(analysis),
        "measured": sections.measured(analysis),
        "configuration": sections.configuration(analysis),
        "files": _files(drawings),
        **{place: _figures(analysis, drawings, place) for place in SECTIONS},
    }
    # One pass, so that nothing that is put in is looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], sections.asset("page.html"))


def _figures(analysis: Analysis, drawings: Sequence[Drawing], section: str) -> str:
    """Return a section with its figures; nothing where it has none."""
    frame = "<details><summary>{}</summary><figure>{}</figure></details>" if section == "more" else (
        "<figure><h3>{}</h3>{}</figure>")  # fmt: skip
    parts = []
    for drawing in (drawing for drawing in drawings if drawing.section == section):
        title = escape(drawing.title)
        body = f'<div class="figure" role="img" aria-label="{title}">{_inline(analysis, drawing)}</div>'
        parts.append(frame.format(title, f"{body}<figcaption>{escape(drawing.caption)}</figcaption>"))
    figures = "\n".join(parts)
    return f'<section id="{section}">\n<h2>{SECTIONS[section]}</h2>\n{figures}\n</section>' if parts else ""


def _inline(analysis: Analysis, drawing: Drawing) -> str:
    """Return a figure's SVG for the page: its ids made unique, its methods marked, its colours those of the theme."""
    svg = drawing.svg[drawing.svg.index("<svg") :]
    for pattern, text in (
        (r"(?s)<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", ""),
        (r"\s+", " "),
        (r"> <", "><"),
        (r' xmlns(:xlink)?="[^"]*"| version="[^"]*"|(?<= )xlink:(?=href)', ""),
        (r'id="m(\d+)-\d+"', r'class="m\1"'),
        (r'(\bid="|href="#|url\(#)', rf"\g<1>{drawing.name}-"),
        (r"'DejaVu Sans'", "system-ui, sans-serif"),
    ):
        svg = re.sub(pattern, text, svg)
    colours = {SOFT: "soft", FRAME: "faint", GRID: "grid", "#ffffff": "ground", "#000000": "ink", "#1d2126": "ink"}
    theme = {**{look.light: f"m{index}" for index, look in enumerate(looks(analysis.comparison).values())}, **colours}
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: f"var(--{theme[match[0]]})" if match[0] in theme else match[0], svg)


def _files(drawings: Sequence[Drawing]) -> str:
    links = {escape(drawing.title): [f"figures/{drawing.name}.{kind}" for kind in ("png", "svg", "csv")]
             for drawing in drawings} | {f"Table of {name}": [f"tables/{name}.csv"] for name in TABLES}  # fmt: skip
    items = [
        f"<li>{title}: {' · '.join(f'<a href={chr(34)}{name}{chr(34)}>{name[-3:].upper()}</a>' for name in names)}</li>"
        for title, names in links.items()
    ]
    note = "In the folder of this page; each figure has the CSV of what it draws beside it."
    return f'<ul class="plain columns">{"".join(items)}</ul><p class="caption">{note}</p>'
