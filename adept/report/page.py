"""One self-contained HTML page: text and tables from here, charts by a small script of ours, no network.

A charting library would add some four megabytes to every committed report and slow its opening; the handful of
charts that a report needs are a few hundred lines, follow dark mode, and can be read.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from importlib import resources

from adept.report import sections
from adept.report.analysis import Analysis
from adept.report.figures import Drawing
from adept.report.payload import payload, to_json
from adept.report.style import looks
from adept.report.summary import Summary


def asset(name: str) -> str:
    """Return the text of a file that the page is put together from."""
    return (resources.files("adept.report") / "assets" / name).read_text(encoding="utf-8")


def render_page(analysis: Analysis, summary: Summary, drawings: Sequence[Drawing], tables: Sequence[str]) -> str:
    """Return the page."""
    comparison = analysis.comparison
    script = asset("charts.js") + asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    captions = {drawing.name: drawing.caption for drawing in drawings}
    seeds = sorted({len(comparison.planned(method.name, task)) for method in comparison.methods
                    for task in comparison.tasks} - {0})  # fmt: skip
    count = " to ".join(str(number) for number in dict.fromkeys([seeds[0], seeds[-1]])) if seeds else "no"
    parts = {
        "title": escape(comparison.title),
        "subtitle": escape(
            f"{_count(len(comparison.methods), 'method')}, {_count(len(comparison.tasks), 'task')}, "
            f"{count} seeds each; baseline {comparison.label(comparison.baseline)}"
        ),
        "style": asset("page.css") + _colours(analysis),
        "script": script,
        "script_hash": f"'sha256-{digest}'",
        "data": to_json(payload(analysis)),
        "summary": sections.findings(summary),
        "scatter_caption": escape(captions.get("score-against-compute", "")),
        "profile_caption": escape(captions.get("performance-profile", "")),
        "methods": sections.methods(analysis),
        "scores": sections.scores(analysis),
        "phases": sections.phases(analysis),
        "cells": sections.cells(analysis),
        "measured": sections.measured(analysis),
        "configuration": sections.configuration(analysis),
        "files": _files(drawings, tables),
    }
    # One pass, so that nothing that is put in is looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], asset("page.html"))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _colours(analysis: Analysis) -> str:
    appearance = list(looks(analysis.comparison).values())
    light = "".join(f"--m{index}:{look.light};" for index, look in enumerate(appearance))
    dark = "".join(f"--m{index}:{look.dark};" for index, look in enumerate(appearance))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


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
