"""The parts of the page that are text and tables: every name from the records is escaped on its way in."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from adept.report.analysis import WORDS, Analysis, MethodResult
from adept.report.comparison import REACH
from adept.report.runs import STATES
from adept.report.scales import MARGIN
from adept.report.statistics import Estimate
from adept.report.summary import Summary
from adept.report.wording import bracket, duration, energy, number, percent, readable, settings


def table(header: Sequence[str], rows: Iterable[str], *, sortable: bool = False, kind: str = "") -> str:
    """Return a table that scrolls sideways where the screen is narrow; cells of the header are HTML."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    mark = (" data-sortable" if sortable else "") + (f' class="{kind}"' if kind else "")
    return (
        f'<div class="table"><table{mark}><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def cell(text: str, sort: float | None = None, kind: str = "") -> str:
    """Return a cell of escaped text, with the number it sorts by."""
    key = f' data-v="{sort:.6g}"' if sort is not None and not math.isnan(sort) else ""
    return f"<td{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}{key}>{escape(text)}</td>"


def estimate_cell(estimate: Estimate | None, best: float = math.nan) -> str:
    """Return a cell of a value with its interval below."""
    if estimate is None or not math.isfinite(estimate.value):
        return "<td>–</td>"
    spread = f'<small class="under">{bracket(estimate)}</small>' if estimate.has_interval else ""
    kind = ' class="best"' if estimate.value == best else ""
    return f'<td{kind} data-v="{estimate.value:.6g}">{escape(number(estimate.value))}{spread}</td>'


def tied(text: str) -> str:
    """Return escaped text whose intervals and percentages do not break over lines."""
    text = re.sub(r"(\S) \[(\S+?), (\S+?)\]", "\\1\u00a0[\\2,\u00a0\\3]", text)
    return escape(text.replace(" %", "\u00a0%"))


def badge(word: str) -> str:
    """Return a word as a badge."""
    return f'<span class="badge {word.replace(" ", "-")}">{word}</span>'


def row_of(analysis: Analysis, name: str, cells: Iterable[str]) -> str:
    """Return a method's row, with its colour, and marked where it is the baseline."""
    comparison = analysis.comparison
    index = [method.name for method in comparison.methods].index(name)
    base = ' class="base"' if name == comparison.baseline else ""
    head = f'<i class="dot" style="background:var(--m{index})"></i>{escape(comparison.label(name))}'
    return f'<tr{base} data-m="{index}"><th scope="row">{head}</th>{"".join(cells)}</tr>'


def findings(summary: Summary) -> str:
    """Return the summary: what differs, which K to use, what each scheduler is worth, what to beware of."""
    parts = [f'<p class="headline">{tied(summary.headline)}</p>']
    parts += [f"<p>{tied(text)}</p>" for text in (*summary.differences, summary.cells)]
    if summary.epochs:
        items = "".join(f"<dt>{escape(entry.place)}</dt><dd>{tied(entry.text)}</dd>" for entry in summary.epochs)
        parts.append(f'<h3>Which K should I use, and what does it save?</h3><dl class="epochs">{items}</dl>')
    if summary.hindsight:
        items = "".join(f"<dt>{escape(place)}</dt><dd>{tied(text)}</dd>" for place, text in summary.hindsight)
        parts.append(f'<h3>What the updates were worth, in hindsight</h3><dl class="epochs">{items}</dl>')
    if summary.keep:
        items = "".join(f"<li>{badge(verdict.state)}<span><b>{escape(verdict.label)}</b><small>{tied(verdict.reason)}"
                        "</small></span></li>" for verdict in summary.keep)  # fmt: skip
        parts.append(
            f'<h3>Does each adaptive method earn its keep against the fixed K?</h3><ul class="keep">{items}</ul>'
        )
    if summary.warnings:
        notices = "".join(f'<li class="notice">{escape(text)}</li>' for text in summary.warnings)
        parts.append(f'<ul class="notices">{notices}</ul>')
    return "\n".join(parts)


def methods(analysis: Analysis, summary: Summary) -> str:
    """Return the sortable table of methods; columns that no method has a number for are left out."""
    comparison, results = analysis.comparison, analysis.methods
    best = max(map(analysis.iqm, analysis.scored), default=math.nan)
    keep = {verdict.method: verdict.state for verdict in summary.keep}
    others = [measure for measure in WORDS if measure in analysis.scales and measure != comparison.criterion]

    def iqm(result: MethodResult, measure: str) -> Estimate | None:
        return result.aggregates[measure]["iqm"] if measure in result.aggregates else None

    def known(values: Iterable[float]) -> bool:
        return any(map(math.isfinite, values))

    columns: dict[str, list[str]] = {
        "Runs": [cell(f"{result.done}/{result.planned}", result.done, "few" if result.done < result.planned else "")
                 for result in results.values()],
        f"IQM, {analysis.criterion}": [estimate_cell(iqm(result, comparison.criterion), best)
                                       for result in results.values()],
        "Against the baseline": [f"<td>{badge(result.standing)}</td>" if result.standing else "<td>–</td>"
                                 for result in results.values()],
        "P(better than baseline)": [estimate_cell(result.improvement) for result in results.values()],
        "Update FLOPs": [cell(percent(result.update_compute) + (" ◆" if name in analysis.pareto else ""),
                              result.update_compute) for name, result in results.items()],
        "All FLOPs": [cell(percent(result.compute), result.compute) for result in results.values()],
        "Mean K": [cell(number(result.epochs), result.epochs) for result in results.values()],
    }  # fmt: skip
    if known(result.processor for result in results.values()):
        columns["Processor time"] = [cell(duration(result.processor), result.processor) for result in results.values()]
    if known(result.energy for result in results.values()):
        columns["Energy per run"] = [cell(energy(result.energy), result.energy) for result in results.values()]
    for measure in others:
        if any(measure in result.aggregates for result in results.values()):
            columns[f"IQM, {WORDS[measure]}"] = [estimate_cell(iqm(result, measure)) for result in results.values()]
    columns["Keep"] = [f"<td>{badge(keep[name])}</td>" if name in keep else "<td>–</td>" for name in results]
    rows = [row_of(analysis, name, [cells[place] for cells in columns.values()])
            for place, name in enumerate(results)]  # fmt: skip
    caption = (
        f"The criterion is the {analysis.quantity}; 95 % intervals below the values; one setting per "
        "method over all tasks. Against the baseline: tests of the IQM, corrected for the number of methods. ◆: on "
        "the Pareto front of score and update FLOPs. The table sorts by any column."
    )
    return f'{table(["Method", *columns], rows, sortable=True)}<p class="caption">{escape(caption)}</p>'


def task_tables(analysis: Analysis) -> str:
    """Return one table per task; the page shows that of the chosen one."""
    comparison, found = analysis.comparison, []
    for task in comparison.tasks:
        here = {method.name: result for method in comparison.methods
                if (result := analysis.tasks.get((method.name, task)))}  # fmt: skip
        base = analysis.tasks.get((comparison.baseline, task))
        best = max((result.score.value for result in here.values() if result.done), default=math.nan)
        tested = any(math.isfinite(result.test.value) for result in here.values())
        rows = []
        for name, result in here.items():
            spent = result.update_flops / base.update_flops if base else math.nan
            rows.append(row_of(analysis, name, [
                cell(f"{result.done}/{result.planned}", result.done, "few" if result.done < result.planned else ""),
                estimate_cell(result.score, best), estimate_cell(result.area),
                *([estimate_cell(result.test)] if tested else []),
                cell(number(100 * result.difference.value, 0) + " %" if result.difference else "–",
                     result.difference.value if result.difference else None),
                cell(number(result.p, 3), result.p), cell(percent(spent), spent),
                cell(number(result.epochs), result.epochs), cell(f"{result.reached}/{result.done}", result.reached),
                cell(readable(result.reach_steps), result.reach_steps),
            ]))  # fmt: skip
        header = ["Method", "Runs", "Final score", "Mean score", *(["Test score"] if tested else []), "Difference",
                  "p (Holm)", "Update FLOPs", "Mean K", "Reached", "Median steps"]  # fmt: skip
        caption = (
            f"Difference to the baseline: of the mean {analysis.quantity}; p is corrected for the method's tasks. "
            f"Reached: finished runs that came to a score of {number(comparison.thresholds[task])}, and the median of "
            "the steps until then (never: half of them or more did not)."
        )
        title = f"<h3>{escape(comparison.short[task])} in numbers</h3>"
        found.append(f'<div class="cells" data-task="{escape(task)}">{title}{table(header, rows, sortable=True)}'
                     f'<p class="caption">{escape(caption)}</p></div>')  # fmt: skip
    return "\n".join(found)


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


def unfinished(analysis: Analysis) -> str:
    """Return each run that is not finished, with its error."""
    comparison = analysis.comparison
    absent = sorted((run for run in comparison.runs if run.state != "done"), key=lambda run: STATES.index(run.state))
    if not absent:
        return '<p class="muted">Every planned run is finished.</p>'
    lines = [
        f"<tr>{cell(comparison.label(run.method), kind='text')}{cell(run.task, kind='text')}{cell(str(run.seed))}"
        f'<td><span class="badge {run.state}">{run.state}</span></td>{cell(run.error or "", kind="text")}</tr>'
        for run in absent
    ]
    rest = table(["Method", "Task", "Seed", "State", "Error"], lines, kind="words")
    return f'{rest}<p class="caption">These runs count nowhere.</p>'


def measured(analysis: Analysis) -> str:
    """Return how every number is defined."""
    comparison = analysis.comparison
    label = comparison.label(comparison.baseline)
    kinds = {
        "ratio": f"divided by {label}'s mean on the same task",
        "progress": f"turned into shares of {label}'s improvement: (score − start) / ({label}'s mean − start), start "
        f"being the first score of {label}",
        "budget": "shares of the budget of steps that were left when the score reached the threshold (0: never)",
        "none": "left as they are",
    }
    scale = analysis.criterion_scale
    texts = [
        f"Criterion: {analysis.criterion}, as the study declares it.",
        "Score: mean return of the last 100 training episodes. Final score: that at the end of the budget. Mean score: "
        "its mean over the run (the area under the learning curve). Smoothing: none beyond that.",
        f"Normalisation: values of the criterion are {kinds[scale.kind]}, taken as a constant." if scale else "",
        f"Intervals: 95 %, percentiles of {analysis.resamples:,} stratified bootstrap resamples (seeds resampled "
        "within each task), seeded, not corrected for the number of methods; none where a cell has one run.",
        "IQM: mean of the middle half of all runs. Optimality gap: average shortfall from 1. Probability of "
        "improvement: share of pairs of runs on the same task that are won, ties counting half, averaged over tasks.",
        f"Tests: permutation tests ({5 * analysis.resamples:,} draws; runs exchanged within each task) of the "
        "difference of IQMs over all tasks, or of means on one; p is corrected for the number of methods, or of tasks "
        f"(Holm). Not worse: the IQM is shown to be less than {percent(MARGIN)} below (of the baseline's score, or of "
        "the budget).",
        f"Update FLOPs: FLOPs of updates, and of judging them in hindsight, relative to {label}, averaged over tasks. "
        "All FLOPs: with the network's forward passes while sampling. The environments' own are not counted.",
        f"Reached: first step at which the score is at the study's threshold, or {percent(REACH)} of the way to the "
        "baseline's final mean.",
        "Keep: an adaptive method earns its keep if it is better than the best fixed K of equal or lower update FLOPs, "
        f"or not worse (within {percent(MARGIN)}) than the best fixed K of all at lower FLOPs where no fixed K that "
        "costs no more is shown to be so; and if it does not lie below the line between the fixed K around it. All "
        "tests made are corrected together (Holm).",
        "Only finished runs count; a method without a finished run on some task has no aggregate. Times are processor "
        "times, and left out where only wall time was recorded.",
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
        return ", ".join(settings(value)) or "–"
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
