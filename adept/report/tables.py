"""Tables as CSV: methods, methods by task, and every run; numbers with six significant digits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence

from adept.report.analysis import Analysis
from adept.report.statistics import METRICS, Estimate
from adept.report.verdicts import keep_verdicts

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
    """Return one row per method: aggregates of every measure, tests, compute and how many runs they rest on."""
    measures = [measure for measure, scale in analysis.scales.items() if scale]
    header = ["method", "label", "runs_done", "runs_planned", "compute", "update_compute", "processor_seconds",
              "epochs", "kwh", "standing", "p", "p_not_worse", *three("iqm_difference"),
              *three("probability_of_improvement"), "pareto", "keep"]  # fmt: skip
    header += [column for measure in measures for metric in METRICS for column in three(f"{measure}_{metric}")]
    keep = {verdict.method: verdict.state for verdict in keep_verdicts(analysis)}
    rows = []
    for method in analysis.comparison.methods:
        found = analysis.methods[method.name]
        row: list[object] = [method.name, method.label, found.done, found.planned, found.compute, found.update_compute,
                             found.processor, found.epochs, found.energy, found.standing, found.p, found.p_not_worse,
                             *bounds(found.difference), *bounds(found.improvement),
                             int(method.name in analysis.pareto), keep.get(method.name, "")]  # fmt: skip
        for measure in measures:
            table = found.aggregates.get(measure)
            row += [value for metric in METRICS for value in bounds(table[metric] if table else None)]
        rows.append(row)
    return csv_text(header, rows)


def tasks_table(analysis: Analysis) -> str:
    """Return one row per method and task."""
    header = ["task", "method", "runs_done", "runs_planned", *three("score"), *three("mean_score"), *three("test"),
              *three("difference"), "p", "flops", "update_flops", "processor_seconds", "epochs", "runs_reached",
              "median_steps_to_reach"]  # fmt: skip
    rows: list[Row] = []
    for (method, task), found in sorted(analysis.tasks.items(), key=lambda item: _order(analysis, *item[0])):
        rows.append([task, method, found.done, found.planned, *bounds(found.score), *bounds(found.area),
                     *bounds(found.test), *bounds(found.difference), found.p, found.flops, found.update_flops,
                     found.processor, found.epochs, found.reached, found.reach_steps])  # fmt: skip
    return csv_text(header, rows)


def _order(analysis: Analysis, method: str, task: str) -> tuple[int, int]:
    names = [entry.name for entry in analysis.comparison.methods]
    return analysis.comparison.tasks.index(task), names.index(method)


def runs_table(analysis: Analysis) -> str:
    """Return one row per run, whatever its state."""
    comparison = analysis.comparison
    header = ["task", "method", "seed", "state", "steps", "score", "mean_score", comparison.criterion, "test", "flops",
              "update_flops", "processor_seconds", "epochs", "error"]  # fmt: skip
    rows: list[Row] = []
    for run in sorted(comparison.runs, key=lambda run: (*_order(analysis, run.method, run.task), run.seed)):
        values: list[float | None] = [None] * 9
        if len(run.steps):
            measures = (comparison.measure(run, name) for name in ("mean-score", comparison.criterion, "test"))
            spent = (comparison.total(run, column) for column in ("flops", "update_flops", "processor"))
            values = [float(run.steps[-1]), comparison.score(run), *measures, *spent, float(run.epochs_done.sum())]
        rows.append([run.task, run.method, run.seed, run.state, *values, run.error])
    return csv_text(header, rows)


TABLES = {"methods": methods_table, "tasks": tasks_table, "runs": runs_table}
