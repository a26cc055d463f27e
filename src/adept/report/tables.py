"""Tables as CSV: methods, methods by task, every run, and what figures draw; numbers with six significant digits."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from adept.report.analysis import Analysis
from adept.report.comparison import Run
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
    cells = itertools.product(analysis.comparison.tasks, analysis.comparison.methods)
    return csv_text(
        {"task": task, "method": method.name, "runs_done": found.done, "runs_planned": found.planned,
         "score": found.score, "mean_score": found.area, "test": found.test, "difference": found.difference,
         "p": found.p, "flops": found.flops, "update_flops": found.update_flops,
         "processor_seconds": found.processor, "epochs": found.epochs, "runs_reached": found.reached,
         "median_steps_to_reach": found.reach_steps}
        for task, method in cells if (found := analysis.tasks.get((method.name, task)))
    )  # fmt: skip


def runs_table(analysis: Analysis) -> str:
    """Return one row per run, whatever its state."""
    comparison, rows = analysis.comparison, []
    columns: dict[str, Callable[[Run], float]] = {
        "steps": lambda run: float(run.steps[-1]),
        "score": lambda run: comparison.total(run, "score"),
        "mean_score": lambda run: comparison.measure(run, "mean-score"),
        comparison.criterion: lambda run: comparison.measure(run, comparison.criterion),
        "test": lambda run: run.test,
        "flops": lambda run: comparison.total(run, "flops"),
        "update_flops": lambda run: comparison.total(run, "update_flops"),
        "processor_seconds": lambda run: comparison.total(run, "processor"),
        "epochs": lambda run: float(run.epochs_done.sum()),
    }
    for task, method in itertools.product(comparison.tasks, comparison.methods):
        for run in sorted(comparison.planned(method.name, task), key=lambda run: run.seed):
            numbers = {name: value(run) if len(run.steps) else math.nan for name, value in columns.items()}
            rows.append({"task": task, "method": method.name, "seed": run.seed, "state": run.state, **numbers,
                         "error": run.error})  # fmt: skip
    return csv_text(rows)


TABLES = {"methods": methods_table, "tasks": tasks_table, "runs": runs_table}
