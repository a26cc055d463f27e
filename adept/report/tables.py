"""Tables as CSV: methods, methods by task, and every run; numbers with six significant digits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence

from adept.report.analysis import Analysis
from adept.report.statistics import METRICS, Estimate

Row = Sequence[object]


def csv_text(header: Sequence[str], rows: Iterable[Row]) -> str:
    """Return a table as CSV; a missing number is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


def cell(value: object) -> str:
    """Return one value as text."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value + 0.0:.6g}"
    return str(value)


def bounds(estimate: Estimate | None) -> list[float | None]:
    """Return value, low and high."""
    return [None, None, None] if estimate is None else [estimate.value, estimate.low, estimate.high]


def three(name: str) -> list[str]:
    """Name the columns of a value with its interval."""
    return [name, f"{name}_low", f"{name}_high"]


def methods_table(analysis: Analysis) -> str:
    """Return one row per method: aggregates, compute and how many runs they rest on."""
    header = ["method", "label", "runs_done", "runs_planned", "compute", "seconds", "epochs", "kwh"]
    header += [column for kind in ("train", "test") for metric in METRICS for column in three(f"{kind}_{metric}")]
    header += [*three("probability_of_improvement"), *three("area_steps"), *three("area_flops"), "pareto", "keep"]
    keep = {verdict.method: verdict.earned for verdict in analysis.verdicts}
    words = {True: "earned", False: "not earned", None: "unknown"}
    rows = []
    for method in analysis.comparison.methods:
        result = analysis.methods[method.name]
        row: list[object] = [method.name, method.label, result.done, result.planned]
        row += [result.compute, result.seconds, result.epochs, result.energy]
        for table in (result.train, result.test):
            for metric in METRICS:
                row += bounds(table[metric] if table else None)
        row += [*bounds(result.improvement), *bounds(result.area_steps), *bounds(result.area_flops)]
        row += [int(method.name in analysis.pareto), words[keep[method.name]] if method.name in keep else ""]
        rows.append(row)
    return csv_text(header, rows)


def tasks_table(analysis: Analysis) -> str:
    """Return one row per method and task."""
    header = ["task", "method", "runs_done", "runs_planned", *three("score"), *three("test"), "flops", "seconds",
              "epochs", "runs_reached_90_percent", "median_steps_to_90_percent"]  # fmt: skip
    rows: list[Row] = []
    for (method, task), result in sorted(analysis.tasks.items(), key=lambda item: _order(analysis, *item[0])):
        rows.append([task, method, result.done, result.planned, *bounds(result.score), *bounds(result.test),
                     result.flops, result.seconds, result.epochs, result.reached, result.reach_steps])  # fmt: skip
    return csv_text(header, rows)


def _order(analysis: Analysis, method: str, task: str) -> tuple[int, int]:
    names = [entry.name for entry in analysis.comparison.methods]
    return analysis.comparison.tasks.index(task), names.index(method)


def runs_table(analysis: Analysis) -> str:
    """Return one row per run, whatever its state."""
    comparison = analysis.comparison
    header = ["task", "method", "seed", "state", "steps", "score", "test", "flops", "seconds", "epochs", "error"]
    rows: list[Row] = []
    for run in sorted(comparison.runs, key=lambda run: (*_order(analysis, run.method, run.task), run.seed)):
        went = [float(run.steps[-1]), comparison.score(run), run.test] if len(run.steps) else [None, None, None]
        spent = [comparison.total(run, "flops"), comparison.total(run, "seconds")] if len(run.steps) else [None, None]
        epochs = float(run.epochs_done.sum()) if len(run.steps) else None
        rows.append([run.task, run.method, run.seed, run.state, *went, *spent, epochs, run.error])
    return csv_text(header, rows)


TABLES = {"methods": methods_table, "tasks": tasks_table, "runs": runs_table}
