"""Tables as CSV: methods, methods by task, every run, and what figures draw; numbers with six significant digits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping

import numpy as np

from adept.report.analysis import Analysis
from adept.report.statistics import METRICS, NONE, Estimate
from adept.report.verdicts import against_fixed

Block = Mapping[str, object]
"""Columns by name, each a value, an array of one value per row, an estimate (three columns) or a mapping of those."""


def csv_text(blocks: Iterable[Block]) -> str:
    """Return blocks of rows below each other; the first one names the columns, a missing number is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for index, columns in enumerate(map(_flat, blocks)):
        if index == 0:
            writer.writerow(columns)
        count = max((len(value) for value in columns.values() if isinstance(value, np.ndarray)), default=1)
        for row in range(count):
            values = (value[row] if isinstance(value, np.ndarray) else value for value in columns.values())
            writer.writerow(map(_cell, values))
    return text.getvalue()


def _flat(block: Block) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in block.items():
        if isinstance(value, Estimate):
            found |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        elif isinstance(value, Mapping):
            found |= _flat({f"{name}_{key}": item for key, item in value.items()})
        else:
            found[name] = value
    return found


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value + 0.0:.6g}"
    return "" if value is None else str(int(value) if isinstance(value, bool) else value)


def method_rows(analysis: Analysis) -> list[Block]:
    """Return what is known of each method: runs, compute, tests, and the aggregates of every measure."""
    against = {verdict.method: verdict.claim for verdict in against_fixed(analysis)}
    measures = [measure for measure, scale in analysis.scales.items() if scale]
    return [
        {
            "name": method.name, "label": method.label, "done": found.done, "planned": found.planned,
            "compute": found.compute, "update_compute": found.update_compute, "processor_seconds": found.processor,
            "epochs": found.epochs, "monitoring": found.phases.get("monitoring", math.nan), "kwh": found.energy,
            "standing": found.standing or None, "p": found.p,
            "p_not_worse": found.p_not_worse, "iqm_difference": found.difference,
            "probability_of_improvement": found.improvement, "pareto": method.name in analysis.pareto,
            "against_fixed": against.get(method.name),
            **{measure: found.aggregates.get(measure, dict.fromkeys(METRICS, NONE)) for measure in measures},
        }
        for method in analysis.comparison.methods
        for found in [analysis.methods[method.name]]
    ]  # fmt: skip


def methods_table(analysis: Analysis) -> str:
    """Return one row per method."""
    names = {"name": "method", "done": "runs_done", "planned": "runs_planned"}
    return csv_text({names.get(name, name): value for name, value in row.items()} for row in method_rows(analysis))


def tasks_table(analysis: Analysis) -> str:
    """Return one row per method and task."""
    cells = [(task, method.name) for task in analysis.comparison.tasks for method in analysis.comparison.methods]
    return csv_text(
        {"task": task, "method": method, "runs_done": found.done, "runs_planned": found.planned, "score": found.score,
         "mean_score": found.area, "test": found.test, "difference": found.difference, "p": found.p,
         "flops": found.flops, "update_flops": found.update_flops, "processor_seconds": found.processor,
         "epochs": found.epochs, "runs_reached": found.reached, "median_steps_to_reach": found.reach_steps}
        for task, method in cells if (found := analysis.tasks.get((method, task)))
    )  # fmt: skip


def runs_table(analysis: Analysis) -> str:
    """Return one row per run, whatever its state."""
    comparison, rows = analysis.comparison, []
    columns = ("steps", "score", "mean_score", comparison.criterion, "test", "flops", "update_flops",
               "processor_seconds", "epochs")  # fmt: skip
    cells = [comparison.planned(method.name, task) for task in comparison.tasks for method in comparison.methods]
    for run in (run for cell in cells for run in sorted(cell, key=lambda run: run.seed)):
        values: list[float] = [math.nan] * len(columns)
        if len(run.steps):
            measures = (comparison.measure(run, name) for name in ("mean-score", comparison.criterion, "test"))
            spent = (comparison.total(run, column) for column in ("flops", "update_flops", "processor"))
            values = [
                float(run.steps[-1]),
                comparison.total(run, "score"),
                *measures,
                *spent,
                float(run.epochs_done.sum()),
            ]
        rows.append({"task": run.task, "method": run.method, "seed": run.seed, "state": run.state,
                     **dict(zip(columns, values, strict=True)), "error": run.error})  # fmt: skip
    return csv_text(rows)


TABLES = {"methods": methods_table, "tasks": tasks_table, "runs": runs_table}
