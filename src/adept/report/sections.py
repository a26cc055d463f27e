"""The parts of the page that are text and tables: every name from the records is escaped on its way in."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from adept.report.analysis import WORDS, Analysis, MethodResult, TaskResult
from adept.report.comparison import REACH
from adept.report.normalization import MARGIN
from adept.report.statistics import NONE, Estimate
from adept.report.summary import Summary
from adept.report.text import bracket, number, percent, readable
from adept.report.verdicts import fixed_word
from adept.runs.records import STATES
from adept.terminal import duration

Result = MethodResult | TaskResult


def asset(name: str) -> str:
    """Return a file that pages are made of."""
    return (resources.files("adept.report") / "assets" / name).read_text(encoding="utf-8")


def table(header: Sequence[str], rows: Iterable[Iterable[str]], kind: str, marks: Sequence[str] = ()) -> str:
    """Return a table that scrolls sideways where the screen is narrow; heads, cells and marks of rows are HTML."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    body = "".join(f"<tr{mark}>{''.join(row)}</tr>" for row, mark in itertools.zip_longest(rows, marks, fillvalue=""))
    return f'<div class="table"><table {kind}><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def cell(text: str, sort: float = math.nan, kind: str = "", under: str = "") -> str:
    """Return a cell of escaped text, with the number it sorts by, and what stands small below it."""
    marks = (f' class="{kind}"' if kind else "") + (f' data-v="{sort:.6g}"' if not math.isnan(sort) else "")
    small = f'<small class="under">{escape(under)}</small>' if under else ""
    return f"<td{marks}>{escape(text)}{small}</td>"


def estimate_cell(estimate: Estimate, best: float = math.nan) -> str:
    """Return a cell of a value with its interval below."""
    kind, under = "best" if estimate.value == best else "", bracket(estimate) if estimate.has_interval else ""
    return cell(number(estimate.value), estimate.value, kind, under)


def number_cell(value: float, say: Callable[[float], str] = number) -> str:
    """Return a cell of a number in words."""
    return cell("–" if math.isnan(value) else say(value), value)


def tied(text: str) -> str:
    """Return escaped text whose intervals and percentages do not break over lines."""
    text = re.sub(r"(\S) \[(\S+?), (\S+?)\]", "\\1\u00a0[\\2,\u00a0\\3]", text)
    return escape(re.sub(r"\bp ([=<]) ", "p\u00a0\\1\u00a0", text.replace(" %", "\u00a0%")))


def badge(word: str) -> str:
    """Return a word as a badge."""
    return f'<span class="badge {word.replace(" ", "-")}">{word}</span>'


def words(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of text."""
    cells = [[cell(text, kind="text") for text in row] for row in rows]
    return table([escape(head) for head in header], cells, 'class="words"')


def dot(index: int) -> str:
    """Return a method's colour."""
    return f'<i class="dot" style="background:var(--m{index})"></i>'


def by_method(analysis: Analysis, results: Mapping[str, Result], columns: Mapping[str, Callable[..., str]]) -> str:
    """Return a sortable table with a row per method; a column makes its cell from the method's name and result.

    A column that has nothing for any method is left out.
    """
    comparison = analysis.comparison
    here = [(index, method) for index, method in enumerate(comparison.methods) if method.name in results]
    runs = [cell(f"{found.done}/{found.planned}", found.done, "few" if found.done < found.planned else "")
            for found in (results[method.name] for _, method in here)]  # fmt: skip
    cells = {"Runs": runs} | {title: [make(method.name, results[method.name]) for _, method in here]
                              for title, make in columns.items()}  # fmt: skip
    cells = {title: made for title, made in cells.items() if set(made) != {cell("–")}}
    if len(here) > 1 and len(set(cells.get("Mean epochs", ()))) == 1:
        del cells["Mean epochs"]
    heads = [f'<th scope="row">{dot(index)}{escape(method.label)}</th>' for index, method in here]
    marks = [(' class="base"' if method.name == comparison.baseline else "") + f' data-m="{index}"'
             for index, method in here]  # fmt: skip
    return table(["Method", *cells], zip(heads, *cells.values(), strict=True), "data-sortable", marks)


def findings(summary: Summary) -> str:
    """Return the summary: the answer, what to do next, which setting to use, how adaptive methods stand, warnings."""
    parts = [f'<p class="headline">{tied(summary.headline)}</p>']
    parts += [f"<p>{tied(text)}</p>" for text in (*summary.differences, summary.cells)]
    steps = "".join(f"<li>{tied(text)}</li>" for text in summary.following)
    parts += [f'<aside class="next"><h3>What to do next</h3><ol>{steps}</ol></aside>'] if steps else []
    for title, entries in (
        (summary.question, [(entry.place, entry.text) for entry in summary.epochs]),
        ("Were the updates too short or too long?", summary.hindsight),
    ):
        items = "".join(f"<dt>{escape(place)}</dt><dd>{tied(text)}</dd>" for place, text in entries)
        parts += [f'<h3>{title}</h3><dl class="epochs">{items}</dl>'] if items else []
    items = "".join(f'<li><i class="mark {verdict.state.replace(" ", "-")}" aria-hidden="true"></i><span>'
                    f"<b>{escape(verdict.label)}</b> {tied(verdict.claim)}<small>{tied(verdict.reason)}</small></span>"
                    "</li>" for verdict in summary.keep)  # fmt: skip
    title = "Is choosing during the run better than a fixed setting?"
    parts += [f'<h3>{title}</h3><ul class="keep">{items}</ul>'] if items else []
    notices = "".join(f'<li class="notice">{escape(text)}</li>' for text in summary.warnings)
    parts += [f'<ul class="notices">{notices}</ul>'] if notices else []
    return "\n".join(parts)


def methods(analysis: Analysis) -> str:
    """Return the sortable table of methods."""
    best = max(map(analysis.iqm, analysis.scored), default=math.nan)
    columns: dict[str, Callable[[str, MethodResult], str]] = {
        f"IQM, {analysis.criterion}": lambda name, result: estimate_cell(result.iqm, best),
        "Against the baseline": lambda name, result: f"<td>{badge(result.standing) if result.standing else '–'}</td>",
        "P(better than baseline)": lambda name, result: estimate_cell(result.improvement),
        "Update FLOPs": lambda name, result: cell(
            percent(result.update_compute) + (" ◆" if name in analysis.pareto else ""), result.update_compute
        ),
        "All FLOPs": lambda name, result: number_cell(result.compute, percent),
        "Monitoring": lambda name, result: number_cell(
            result.phases.get("monitoring") or math.nan, lambda share: f"{100 * share:.1f} %"
        ),
        "Mean epochs": lambda name, result: number_cell(result.epochs),
        "Processor time": lambda name, result: number_cell(result.processor, duration),
        "Energy per run": lambda name, result: number_cell(
            result.energy, lambda kwh: f"{1000 * kwh:.3g} Wh" if kwh < 1 else f"{kwh:.3g} kWh"
        ),
    }
    for measure, word in WORDS.items():
        if measure != analysis.comparison.criterion:
            columns[f"IQM, {word}"] = functools.partial(_iqm_cell, measure)
    caption = (
        f"The criterion is the {analysis.quantity}; 95 % intervals below the values; one setting per "
        "method over all tasks. Against the baseline: tests of the IQM, corrected for the number of methods. ◆: on "
        "the Pareto front of score and update FLOPs. The table sorts by any column."
    )
    return f'{by_method(analysis, analysis.methods, columns)}<p class="caption">{escape(caption)}</p>'


def _iqm_cell(measure: str, _: str, result: MethodResult) -> str:
    return estimate_cell(result.aggregates.get(measure, {}).get("iqm", NONE))


def task_table(analysis: Analysis, task: str) -> str:
    """Return the table of a task; the page shows that of the chosen one."""
    comparison = analysis.comparison
    here = analysis.on_task(task)
    base = here[comparison.baseline].update_flops if comparison.baseline in here else math.nan
    best = max((result.score.value for result in here.values() if result.done), default=math.nan)
    columns: dict[str, Callable[[str, TaskResult], str]] = {
        "Final score": lambda name, result: estimate_cell(result.score, best),
        "Mean score": lambda name, result: estimate_cell(result.area),
        "Test score": lambda name, result: estimate_cell(result.test),
        "Difference": lambda name, result: number_cell(result.difference.value, lambda gap: f"{100 * gap:.0f} %"),
        "p (Holm)": lambda name, result: number_cell(result.p, lambda p: number(p, 3)),
        "Update FLOPs": lambda name, result: number_cell(result.update_flops / base, percent),
        "Mean epochs": lambda name, result: number_cell(result.epochs),
        "Reached": lambda name, result: cell(f"{result.reached}/{result.done}", result.reached),
        "Median steps": lambda name, result: number_cell(result.reach_steps, readable),
    }
    caption = (
        f"Difference to the baseline: of the mean {analysis.quantity}; p is corrected for the method's tasks. "
        f"Reached: finished runs that came to a score of {number(comparison.thresholds[task])}, and the median of "
        "the steps until then (never: half of them or more did not)."
    )
    return (
        f'<div class="cells" data-task="{escape(task)}"><h3>{escape(comparison.short[task])} in numbers</h3>'
        f'{by_method(analysis, here, columns)}<p class="caption">{escape(caption)}</p></div>'
    )


def scores(analysis: Analysis) -> str:
    """Return scores by task, with the winner of each one in a column that says how it was found."""
    comparison, rows = analysis.comparison, []
    heads = [f"{dot(index)}{escape(method.label)}" for index, method in enumerate(comparison.methods)]
    for task in comparison.tasks:
        here = analysis.on_task(task)
        known = {name: found.score.value for name, found in here.items() if found.done}
        best = max(known, key=lambda name: known[name], default="")
        cells = [f'<th scope="row">{escape(comparison.short[task])}</th>',
                 cell(comparison.label(best) if best else "–", kind="text")]  # fmt: skip
        for method in comparison.methods:
            found = here.get(method.name)
            runs = f"{found.done}/{found.planned}" if found and found.done < found.planned else ""
            kinds = " ".join(kind for kind, holds in (("best", method.name == best), ("few", runs)) if holds)
            value = known.get(method.name, math.nan)
            text, under = (number(value), runs) if method.name in known else (runs or "not planned", "")
            cells.append(cell(text, value, kinds, under))
        rows.append(cells)
    caption = (
        "Mean return of the last 100 training episodes, averaged over finished runs. The second column names the "
        "best method of each task, selected after the fact: to choose so, one would have had to run them all, and the "
        "best of several noisy means is too high. Fractions such as 4/5 are finished of planned runs."
    )
    listed = table(["Task", "Selected after the fact", *heads], rows, 'data-sortable class="tasks"')
    return f'{listed}<p class="caption">{escape(caption)}</p>'


def unfinished(analysis: Analysis) -> str:
    """Return each run that is not finished, with its error."""
    comparison = analysis.comparison
    absent = sorted((run for run in comparison.runs if run.state != "done"), key=lambda run: STATES.index(run.state))
    if not absent:
        return '<p class="muted">Every planned run is finished.</p>'
    rows = [[cell(comparison.label(run.method), kind="text"), cell(run.task, kind="text"), cell(str(run.seed)),
             f"<td>{badge(run.state)}</td>", cell(run.error or "", kind="text")] for run in absent]  # fmt: skip
    listed = table(["Method", "Task", "Seed", "State", "Error"], rows, 'class="words"')
    return f'{listed}<p class="caption">These runs count nowhere.</p>'


def measured(analysis: Analysis) -> str:
    """Return how every number is defined: the lines of measured.txt, some of which hold in one case, and the notes."""
    comparison = analysis.comparison
    cases = {"", analysis.scale.kind if analysis.scale else ""}
    cases |= {"adaptive"} if any(method.adaptive for method in comparison.methods) else set()
    lines = re.findall(r"^(?:\[(\w+)\] )?(.+)$", asset("measured.txt"), re.MULTILINE)
    texts = [
        text.format(
            criterion=analysis.criterion, baseline=comparison.label(comparison.baseline), kind=fixed_word(analysis),
            resamples=analysis.resamples, draws=5 * analysis.resamples, margin=percent(MARGIN), reach=percent(REACH),
        )
        for case, text in lines if case in cases
    ]  # fmt: skip
    return f'<ul class="plain">{"".join(f"<li>{escape(text)}</li>" for text in (*texts, *comparison.notes))}</ul>'


def configuration(analysis: Analysis) -> str:
    """Return what methods differ in, what they share, and what the runs were made with."""
    comparison, parts = analysis.comparison, []
    own = {method.label: method.config.to_dict() for method in comparison.methods if method.config is not None}
    if own:
        keys = [key for key in comparison.declared if len({repr(values.get(key)) for values in own.values()}) > 1]
        rows = [[label, *(_value(values.get(key)) for key in keys)] for label, values in own.items()]
        parts += ["<h3>What methods differ in</h3>", words(["Method", *keys], rows)]
        parts.append(f'<p class="caption">Declared keys: {escape(", ".join(comparison.declared) or "none")}. Every run '
                     "was checked: runs on one task are equal in all others but the seed.</p>")  # fmt: skip
    configs = [run.config.to_dict() for run in comparison.runs if run.config is not None]
    shared = {key: " | ".join({repr(values.get(key)): _value(values.get(key)) for values in configs}.values())
              for key in dict.fromkeys(key for values in configs for key in values)
              if key not in (*comparison.declared, "seed")}  # fmt: skip
    for title, heads, found in (
        ("What all methods share", ["Key", "Value (several: they go by task)"], shared),
        ("Versions and machines", ["What", "Value"], _versions(analysis)),
    ):
        if found:
            parts.append(f"<details><summary>{title}</summary>{words(heads, list(found.items()))}</details>")
    return "\n".join(parts) or '<p class="muted">Imported logs carry no configuration.</p>'


def _value(value: Any) -> str:
    if isinstance(value, dict):
        options = (f"{name} {item}" if isinstance(item, str) else f"{name} {item:g}" for name, item in value.items())
        return ", ".join(options) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "–" if value is None else str(value)


def _versions(analysis: Analysis) -> dict[str, str]:
    """Return every distinct version, commit and machine, with how many runs it made where there are several."""
    found: dict[str, Counter[str]] = {}
    for start in (start for run in analysis.comparison.runs for start in run.starts[-1:]):
        values = {key: start.get(key) for key in ("commit", "python", "platform", "processor", "cores", "accelerator")}
        if start.get("dirty"):
            values["commit"] = f"{values['commit']} (modified)"
        for key, value in {**values, **dict(sorted(start.get("packages", {}).items()))}.items():
            if value is not None:
                found.setdefault(key, Counter())[str(value)] += 1
    return {
        key: " | ".join(f"{value} ({count} runs)" if len(counts) > 1 else value
                        for value, count in sorted(counts.items()))
        for key, counts in found.items()
    }  # fmt: skip
