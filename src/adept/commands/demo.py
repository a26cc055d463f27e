"""`adept demo`: a small study from nothing to its table, its advice and its page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.cli import parse, print_json
from adept.report import ReportOptions, build_report
from adept.report.statistics import area_under_curve
from adept.runs.advice import advice_of
from adept.runs.records import read_iterations
from adept.runs.summary import summary
from adept.studies.driver import run_study
from adept.studies.engines.local import LocalEngine
from adept.studies.grid import load_study
from adept.studies.results import StudyResults
from adept.terminal import make_console, number, say, table

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DemoOptions:
    """Train PPO from five learning rates with fixed epochs, ADEPT(U) and hindsight, seven seeds each; write a report.

    It takes less than two minutes on two cores. The same command continues after an interruption.
    """

    out: Path = Path("runs/demo")
    """folder of the demo's study"""
    study: str = "demo"
    """another small study to run instead: a shipped one's name, or a TOML file"""
    workers: int = 2
    """runs at the same time"""
    json: bool = False
    """print one JSON object at the end, on stdout"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(DemoOptions, "demo", words)
    results = run_study(load_study(options.study), options.out, LocalEngine(options.workers))
    facts = build_report(ReportOptions((options.out,)))
    rows = method_rows(results, facts["methods"])
    over_axis, advice = facts.get("axis", []), advice_on(results, rows)
    if options.json:
        print_json({"methods": rows, "axis": over_axis, "advice": advice, "page": facts["page"],
                    "summary": facts["summary"]})  # fmt: skip
    else:
        show(results, rows)
        curves: dict[str, list[float]] = {}
        for point in over_axis:
            curves.setdefault(point["line"], []).append(point["score"][0])
        said = [plot(curves, list(dict.fromkeys(point["value"] for point in over_axis)))] if curves else []
        said += facts["summary"][: len(curves) + 1]
        if chosen := [_chosen(row) for row in rows if row["choices"]]:
            said.append("\n".join(chosen))
        said += [f"Advice on {place}:\n{words}" for place, words in advice.items()]
        say("\n" + "\n\n".join([*said, f"The page with all figures: {facts['page']}"]))
    return 1 if results.counts()["failed"] else 0


def plot(curves: Mapping[str, Sequence[float]], places: Sequence[str], width: int = 64, height: int = 12) -> str:
    """Return curves over named places as text: a mark at every place, dots between."""
    low, high = min(map(min, curves.values())), max(map(max, curves.values()))
    columns = np.linspace(0, width - 1, len(places)).round().astype(int)
    canvas = [[" "] * width for _ in range(height)]

    def row(value: float) -> int:
        return round((high - value) / ((high - low) or 1.0) * (height - 1))

    for values in curves.values():
        for column, level in enumerate(np.interp(np.arange(width), columns, values)):
            canvas[row(level)][column] = "."
    for mark, values in zip(itertools.cycle("o+x*#"), curves.values(), strict=False):
        for column, value in zip(columns, values, strict=True):
            canvas[row(value)][column] = mark
    labels = {0: number(high), height - 1: number(low)}
    lines = [f"{labels.get(index, ''):>8} |{''.join(cells)}".rstrip() for index, cells in enumerate(canvas)]
    foot = [" "] * (width + 10 + len(places[-1]))
    for column, place in zip(columns, places, strict=True):
        start = 10 + column - len(place) // 2
        foot[start : start + len(place)] = place
    legend = "   ".join(f"{mark} {name}" for mark, name in zip(itertools.cycle("o+x*#"), curves, strict=False))
    return "\n".join([*lines, "".join(foot).rstrip(), f"{'':10}{legend}"])


def method_rows(results: StudyResults, facts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per method: means over its finished runs, the range over seeds, and the compute of its updates."""
    rows = []
    for method, found in zip(results.study.methods, facts, strict=True):
        cells = [cell for cell in results.cells if cell.method == method.name]
        done = [cell.path for cell in cells if cell.state == "done"]
        tables, ends, arms = [read_iterations(path) for path in done], list(map(summary, done)), cells[0].config.choices
        over_run = [area_under_curve(table["step"], table["score"], table["step"][-1]) for table in tables]
        chosen = np.concatenate([table["epochs"] for table in tables] or [np.empty(0)])
        rows.append({
            "method": method.label, "runs": f"{len(done)}/{len(cells)}",
            "mean_return": _mean(over_run),
            "lowest": min(over_run, default=math.nan), "highest": max(over_run, default=math.nan),
            "final_return": _mean([end["score"] for end in ends]), "epochs": _mean([end["epochs"] for end in ends]),
            "flops": _mean([end["flops"] for end in ends]), "update_flops": found["update_compute"],
            # of a bandit: the share of updates in which it chose each number of epochs
            "choices": {arm: float((chosen == arm).mean()) for arm in arms} if len(arms) > 1 and done else {},
        })  # fmt: skip
    return rows


def advice_on(results: StudyResults, rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return what hindsight says of the updates of the lowest fixed method on each task, over its monitored runs."""
    study = results.study
    scores = {method.name: row["mean_return"] for method, row in zip(study.methods, rows, strict=True)
              if not math.isnan(row["mean_return"])
              and study.config(method.name, study.tasks[0], study.seeds[0]).scheduler == "fixed"}  # fmt: skip
    found = {}
    for task in study.tasks if scores else ():
        method = study.method(min(scores, key=scores.__getitem__))
        cells = [cell for cell in results.cells if (cell.method, cell.task) == (method.name, task)]
        monitored = [cell for cell in cells if cell.state == "done" and cell.config.monitor]
        if monitored:
            pooled = side_by_side([read_iterations(cell.path) for cell in monitored])
            runs = "1 run" if len(monitored) == 1 else f"{len(monitored)} runs"
            found[f"{method.label} on {task} ({runs})"] = str(advice_of(monitored[0].config, pooled))
    return found


def side_by_side(runs: Sequence[Mapping[str, Floats]]) -> dict[str, Floats]:
    """Return the columns of runs with the same fixed epochs as if of one run: FLOPs add up, scores are averaged."""
    length = min(len(run["step"]) for run in runs)
    names = [name for name in runs[0] if all(name in run for run in runs)]
    table = {name: np.stack([run[name][:length] for run in runs], 1).ravel() for name in names}
    totals = {"flops": np.sum([run["flops"][:length] for run in runs], 0)}
    if "score" in table:
        totals["score"] = np.mean([run["score"][:length] for run in runs], 0)
    return table | {name: np.repeat(values, len(runs)) for name, values in totals.items()}


def show(results: StudyResults, rows: Sequence[dict[str, Any]]) -> None:
    """Print the table of methods."""
    study = results.study
    baseline = next(method.label for method in study.methods if method.name == study.baseline)
    console = make_console()
    console.width = max(100, console.width)
    console.print(table(
        ("method", "runs", "return over the run", "lowest to highest seed", "at the end", "epochs", "update FLOPs"),
        [[row["method"], row["runs"], number(row["mean_return"]),
          f"{number(row['lowest'])} to {number(row['highest'])}", number(row["final_return"]),
          "–" if math.isnan(row["epochs"]) else f"{row['epochs']:,.0f}", _share(row)] for row in rows],
        study.title, right_from=1,
    ))  # fmt: skip
    console.print(
        "Means over seeds. Return over the run: mean height of the learning curve. At the end: last 100 episodes.\n"
        f"Update FLOPs: relative to {baseline}, with the forward passes that judge updates.",
        style="dim",
    )


def _chosen(row: Mapping[str, Any]) -> str:
    shares = ", ".join(f"K={epochs} in {share:.0%}" for epochs, share in row["choices"].items())
    return f"{row['method']} chose {shares} of its updates: {_share(row)} of the update FLOPs."


def _share(row: Mapping[str, Any]) -> str:
    return "–" if row["update_flops"] is None else f"{row['update_flops']:.0%}"


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None and np.isfinite(value)]
    return sum(known) / len(known) if known else math.nan
