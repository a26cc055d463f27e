"""The parts of the page that are text and tables: every name from the records is escaped on its way in."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from adept.report.analysis import REACH, Analysis
from adept.report.curves import phase_flops, phase_seconds
from adept.report.statistics import Estimate
from adept.report.style import PHASES
from adept.report.summary import Summary, number, percent, unit

STATES = ("failed", "missing", "interrupted", "running")


def table(header: Sequence[str], rows: Iterable[str], *, sortable: bool = False, kind: str = "") -> str:
    """Return a table that scrolls sideways where the screen is narrow; cells of the header are HTML."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    mark = (" data-sortable" if sortable else "") + (f' class="{kind}"' if kind else "")
    return (
        f'<div class="table"><table{mark}><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def cell(text: str, sort: float | None = None, kind: str = "") -> str:
    """Return a cell of escaped text, with the number it sorts by."""
    key = f' data-v="{sort:.6g}"' if sort is not None and math.isfinite(sort) else ""
    return f"<td{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}{key}>{escape(text)}</td>"


def tied(text: str) -> str:
    """Return escaped text whose intervals and percentages do not break over lines."""
    text = re.sub(r"(\S) \[(\S+?), (\S+?)\]", "\\1\u00a0[\\2,\u00a0\\3]", text)
    return escape(text.replace(" %", "\u00a0%"))


def findings(summary: Summary) -> str:
    """Return the summary: headline, significance, compute, what each scheduler is worth, what to beware of."""
    parts = [f'<p class="headline">{tied(summary.headline)}</p>']
    parts += [f"<p>{tied(text)}</p>" for text in (summary.significance, summary.compute, summary.cells) if text]
    if summary.keep:
        items = "".join(
            f'<li><span class="badge {worth.state.replace(" ", "-")}">{worth.state}</span>'
            f"<span><b>{escape(worth.label)}</b><small>{tied(worth.reason)}</small></span></li>"
            for worth in summary.keep
        )
        parts.append(f'<h3>Does each scheduler earn its keep?</h3><ul class="keep">{items}</ul>')
    if summary.warnings:
        notices = "".join(f'<li class="notice">{escape(text)}</li>' for text in summary.warnings)
        parts.append(f'<ul class="notices">{notices}</ul>')
    return "\n".join(parts)


def _estimate(estimate: Estimate | None, best: float = math.nan) -> str:
    if estimate is None or not math.isfinite(estimate.value):
        return "<td>–</td>"
    spread = f"[{number(estimate.low)}, {number(estimate.high)}]" if estimate.has_interval else ""
    spread = f'<small class="under">{spread}</small>' if spread else ""
    kind = ' class="best"' if estimate.value == best else ""
    return f'<td{kind} data-v="{estimate.value:.6g}">{escape(number(estimate.value))}{spread}</td>'


def methods(analysis: Analysis) -> str:
    """Return the sortable table of methods."""
    comparison = analysis.comparison
    tested = any(result.test for result in analysis.methods.values())
    metered = any(math.isfinite(result.energy) for result in analysis.methods.values())
    header = ["Method", "Runs", "IQM", "P(better than baseline)", "Compute", "Time per run",
              *(["Energy per run"] if metered else []), "Mean K",
              "Area, equal steps", "Area, equal FLOPs", *(["Test IQM"] if tested else []), "Keep"]  # fmt: skip
    best = max((result.train["iqm"].value for result in analysis.methods.values() if result.train), default=math.nan)
    words = {verdict.method: {True: "earned", False: "not earned", None: "unknown"}[verdict.earned]
             for verdict in analysis.verdicts}  # fmt: skip
    rows = []
    for index, method in enumerate(comparison.methods):
        result = analysis.methods[method.name]
        keep = words.get(method.name)
        badge = f'<span class="badge {keep.replace(" ", "-")}">{keep}</span>' if keep else "–"
        front = " ◆" if method.name in analysis.pareto else ""
        cells = [
            f'<th scope="row"><i class="dot" style="background:var(--m{index})"></i>{escape(method.label)}</th>',
            cell(f"{result.done}/{result.planned}", result.done, "few" if result.done < result.planned else ""),
            _estimate(result.train["iqm"] if result.train else None, best),
            _estimate(result.improvement),
            cell(percent(result.compute) + front, result.compute),
            cell(duration(result.seconds), result.seconds),
            *([cell(energy(result.energy), result.energy)] if metered else []),
            cell(number(result.epochs), result.epochs),
            _estimate(result.area_steps),
            _estimate(result.area_flops),
        ]
        if tested:
            cells.append(_estimate(result.test["iqm"] if result.test else None))
        base = ' class="base"' if method.name == comparison.baseline else ""
        rows.append(f"<tr{base}>{''.join(cells)}<td>{badge}</td></tr>")
    caption = (
        f"Scores {unit(analysis)}, 95 % intervals in brackets; one setting per method over all tasks. ◆ marks the "
        "Pareto front of score and compute. Areas are mean heights of the learning curve, up to the budget of steps, "
        "and up to the FLOPs of the thriftiest method. The table sorts by any column."
    )
    return f'{table(header, rows, sortable=True)}<p class="caption">{escape(caption)}</p>'


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 90:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 5400 else f"{seconds / 3600:.3g} h"


def energy(kilowatt_hours: float) -> str:
    """Return an energy in watt-hours, or in kilowatt-hours where those are many."""
    if not math.isfinite(kilowatt_hours):
        return "–"
    return f"{1000 * kilowatt_hours:.3g} Wh" if kilowatt_hours < 1 else f"{kilowatt_hours:.3g} kWh"


def scores(analysis: Analysis) -> str:
    """Return scores by task, with the winner of each one in a column that says how it was found."""
    comparison = analysis.comparison
    header = ["Task", "Selected after the fact"]
    header += [f'<i class="dot" style="background:var(--m{index})"></i>{escape(method.label)}'
               for index, method in enumerate(comparison.methods)]  # fmt: skip
    rows = []
    for task in comparison.tasks:
        known = {name: found.score for (name, place), found in analysis.tasks.items() if place == task and found.done}
        best = max(known, key=lambda name: known[name].value) if known else None
        cells = [f'<th scope="row">{escape(comparison.short[task])}</th>']
        cells.append(cell(comparison.label(best) if best else "–", kind="text"))
        for method in comparison.methods:
            found = analysis.tasks.get((method.name, task))
            if found is None:
                cells.append("<td>not planned</td>")
                continue
            few = f" <small>{found.done}/{found.planned}</small>" if found.done < found.planned else ""
            kinds = " ".join(kind for kind, holds in (("best", method.name == best), ("few", few)) if holds)
            text = escape(number(found.score.value))
            cells.append(f'<td class="{kinds}" data-v="{found.score.value:.6g}">{text}{few}</td>' if found.done
                         else f'<td class="few">0/{found.planned}</td>')  # fmt: skip
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = (
        "Mean return of the last 100 training episodes, averaged over finished runs. The second column names the "
        "best method of each task, selected after the fact: to choose so, one would have had to run them all, and the "
        "best of several noisy means is too high. Fractions such as 4/5 are finished of planned runs."
    )
    return f'{table(header, rows, sortable=True, kind="tasks")}<p class="caption">{escape(caption)}</p>'


def phases(analysis: Analysis) -> str:
    """Return the share of time and FLOPs by phase as bars."""
    comparison = analysis.comparison
    rows = []
    for index, method in enumerate(comparison.methods):
        seconds, flops = phase_seconds(comparison, method.name), phase_flops(comparison, method.name)
        if seconds and flops:
            rows.append(
                f'<tr><th scope="row"><i class="dot" style="background:var(--m{index})"></i>{escape(method.label)}</th>'
                f"<td>{_bar(seconds)}</td><td>{_bar(flops)}</td></tr>"
            )
    if not rows:
        return '<p class="muted">No finished run has recorded its phases.</p>'
    swatches = "".join(
        f'<span class="swatch"><i style="background:{colour}"></i>{phase}</span>' for phase, colour in PHASES.items()
    )
    caption = (
        "Wall-clock time and FLOPs of all finished runs by phase: stepping the environments, the network while "
        "sampling, the update, and the rest. The environments' own FLOPs are not counted."
    )
    return (
        f'<p class="legend">{swatches}</p>{table(["Method", "Wall-clock time, %", "FLOPs, %"], rows)}'
        f'<p class="caption">{escape(caption)}</p>'
    )


def _bar(shares: dict[str, float]) -> str:
    parts = []
    for phase, share in shares.items():
        light = ' class="light"' if phase in ("sampling", "rest") else ""
        text = f"{100 * share:.0f}" if share >= 0.07 else ""
        parts.append(f'<i{light} style="width:{100 * share:.2f}%;background:{PHASES[phase]}" title="{phase} '
                     f'{100 * share:.1f} %">{text}</i>')  # fmt: skip
    return f'<div class="bar">{"".join(parts)}</div>'


def cells(analysis: Analysis) -> str:
    """Return finished of planned runs for every method and task, and each run that is not finished, with its error."""
    comparison = analysis.comparison
    rows = []
    for index, method in enumerate(comparison.methods):
        row = [f'<th scope="row"><i class="dot" style="background:var(--m{index})"></i>{escape(method.label)}</th>']
        for task in comparison.tasks:
            found = analysis.tasks.get((method.name, task))
            few = "few" if found and found.done < found.planned else ""
            row.append(cell(f"{found.done}/{found.planned}" if found else "–", kind=few))
        rows.append(f"<tr>{''.join(row)}</tr>")
    grid = table(["Finished of planned runs", *(escape(comparison.short[task]) for task in comparison.tasks)], rows)
    absent = [run for run in comparison.runs if run.state != "done"]
    absent.sort(key=lambda run: STATES.index(run.state))
    if not absent:
        return f'{grid}<p class="caption">Every planned run is finished.</p>'
    lines = [
        f"<tr>{cell(comparison.label(run.method), kind='text')}{cell(run.task, kind='text')}{cell(str(run.seed))}"
        f'<td><span class="badge {run.state}">{run.state}</span></td>{cell(run.error or "", kind="text")}</tr>'
        for run in absent
    ]
    rest = table(["Method", "Task", "Seed", "State", "Error"], lines, kind="words")
    return f"{grid}<h3 style='margin-top:24px'>Runs that are not finished and count nowhere</h3>{rest}"


def measured(analysis: Analysis) -> str:
    """Return how every number is defined."""
    comparison = analysis.comparison
    label = comparison.label(comparison.baseline)
    kinds = {
        "ratio": f"divided by {label}'s mean score on the same task",
        "progress": f"turned into shares of {label}'s improvement: (score − start) / ({label}'s mean − start), start "
        f"being the first score of {label}",
        "none": "left as they are",
    }
    scale = analysis.scale
    texts = [
        "Score: mean return of the last 100 training episodes at the end of the budget. Smoothing: none beyond that.",
        f"Normalisation: scores are {kinds[scale.kind]}, taken as a constant." if scale else "",
        f"Intervals: 95 %, percentiles of {analysis.resamples:,} stratified bootstrap resamples (seeds resampled "
        "within each task), seeded; none where a cell has one run. Those of the table are not corrected for the "
        "number of methods; the sentence on significance is.",
        "IQM: mean of the middle half of all runs. Optimality gap: average shortfall from 1. Probability of "
        "improvement: share of pairs of runs on the same task that are won, ties counting half, averaged over tasks.",
        "Compute: FLOPs of the network for sampling and updates, relative to the baseline, averaged over tasks.",
        f"Reached {percent(REACH)}: first step at which the score is at {percent(REACH)} of the baseline's final mean.",
        "Keep: a scheduler earns its keep if its runs beat those of fixed K=1 on score (the interval of the "
        "probability lies above ½) and it spends less compute than always using its largest arm.",
        "Only finished runs count; a method without a finished run on some task has no aggregate.",
        *comparison.notes,
    ]
    return f'<ul class="plain">{"".join(f"<li>{escape(text)}</li>" for text in texts if text)}</ul>'


def configuration(analysis: Analysis) -> str:
    """Return what methods differ in, what they share, and what the runs were made with."""
    comparison = analysis.comparison
    parts = []
    known = [method for method in comparison.methods if method.config is not None]
    configs = [run.config.to_dict() for run in comparison.runs if run.config is not None]
    if known:
        own = {method.name: method.config.to_dict() for method in known if method.config is not None}
        keys = [key for key in comparison.declared if len({repr(values.get(key)) for values in own.values()}) > 1]
        rows = ["<tr>" + cell(method.label, kind="text")
                + "".join(cell(_value(own[method.name].get(key)), kind="text") for key in keys) + "</tr>"
                for method in known]  # fmt: skip
        parts += ["<h3>What methods differ in</h3>", table(["Method", *map(escape, keys)], rows, kind="words")]
        parts.append(f'<p class="caption">Declared keys: {escape(", ".join(comparison.declared) or "none")}. Every run '
                     "was checked: runs on one task are equal in all others but the seed.</p>")  # fmt: skip
    if configs:
        names = dict.fromkeys(key for values in configs for key in values)
        shared = {key: {repr(values.get(key)): values.get(key) for values in configs} for key in names
                  if key not in (*comparison.declared, "seed")}  # fmt: skip
        lines = [f"<tr>{cell(key, kind='text')}{cell(' | '.join(map(_value, found.values())), kind='text')}</tr>"
                 for key, found in shared.items()]  # fmt: skip
        head = ["Key", "Value (several: they go by task)"]
        parts.append(f"<details><summary>What all methods share</summary>{table(head, lines, kind='words')}</details>")
    versions = _versions(analysis)
    if versions:
        lines = [f"<tr>{cell(key, kind='text')}{cell(text, kind='text')}</tr>" for key, text in versions]
        head = ["What", "Value"]
        parts.append(f"<details><summary>Versions and machines</summary>{table(head, lines, kind='words')}</details>")
    return "\n".join(parts) or '<p class="muted">Imported logs carry no configuration.</p>'


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item:g}" for key, item in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)


def _versions(analysis: Analysis) -> list[tuple[str, str]]:
    """Return every distinct version, commit and machine, with how many runs it made where there are several."""
    found: dict[str, Counter[str]] = {}
    for run in analysis.comparison.runs:
        for start in run.starts[-1:]:
            values = {
                key: start.get(key) for key in ("commit", "python", "platform", "processor", "cores", "accelerator")
            }
            if start.get("dirty"):
                values["commit"] = f"{values['commit']} (modified)"
            for key, value in {**values, **dict(sorted(start.get("packages", {}).items()))}.items():
                if value is not None:
                    found.setdefault(key, Counter())[str(value)] += 1
    return [
        (key, " | ".join(f"{value} ({count} runs)" if len(counts) > 1 else value
                         for value, count in sorted(counts.items())))
        for key, counts in found.items()
    ]  # fmt: skip
