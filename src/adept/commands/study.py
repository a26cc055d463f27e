"""`adept study`, `adept study status` and `adept study pack`: run the grid of a study, show it, store it small."""

from __future__ import annotations

import math
import sys
import tempfile
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from adept.cli import loading, parse, print_json
from adept.config import Execution
from adept.extras import require
from adept.options import Positional
from adept.report.power import can_show_a_winner, seeds_needed, smallest_p
from adept.runs.imports import named_code
from adept.runs.records import STATES
from adept.studies.driver import check_continuation, run_study
from adept.studies.engines import Engine
from adept.studies.engines.local import LocalEngine
from adept.studies.estimate import estimate
from adept.studies.grid import Study, load_study, shipped_studies
from adept.studies.results import StudyResults, load_results, pack, results_of
from adept.studies.work import Settings, last_iteration
from adept.terminal import duration, make_console, say, table, warn
from adept.terminal import flops as cost


@dataclass(frozen=True)
class StudyOptions:
    """Run a study, or continue it: the same command runs what is not done yet."""

    study: Positional[str]
    """name of a shipped study, or a TOML file"""
    out: Path | None = None
    """folder of the study; one that holds it already is continued; a dry run needs none"""
    engine: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: tasks of a Ray cluster that shares the folder"""
    workers: int = 2
    """runs at the same time, locally or on a local Ray cluster"""
    address: str | None = None
    """ray: address of an existing cluster, auto or host:port; none starts a local one"""
    cpus: float = 1.0
    """ray: CPUs of one run"""
    gpus: float = 0.0
    """ray: GPUs of one run; a fraction lets several runs share one"""
    retries: int = 2
    """how often a run that fails is tried again before it is marked failed"""
    dry_run: bool = False
    """list the runs with estimated FLOPs and time, and run nothing"""
    energy: bool = False
    """measure energy with CodeCarbon"""
    test_episodes: int | None = None
    """episodes on test levels at the end of a run, 0 for none; by default 100 where there are such levels"""
    trust: bool = False
    """import the code that the study's file names: schedulers and environments as package.module:Name"""
    execution: Execution = field(default_factory=Execution)
    json: bool = False
    """print one JSON object at the end, on stdout"""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"--workers must be a whole number ≥ 1, got {self.workers}")
        for name in ("retries", "test_episodes", "cpus", "gpus"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"--{name.replace('_', '-')} must be a number ≥ 0, got {value}")
        if self.engine == "local" and self.address is not None:
            raise ValueError(f"--address {self.address} is for --engine ray; add that, or leave the address out")
        if self.out is None:
            if not self.dry_run:
                raise ValueError("study: --out is required: the folder of the study; --dry-run goes without")
            return
        place = next(folder for folder in (self.out, *self.out.absolute().parents) if folder.exists())
        try:
            tempfile.TemporaryFile(dir=place).close()
        except OSError as error:
            raise ValueError(f"--out {self.out} cannot be written: {error.strerror}; choose another") from error


@dataclass(frozen=True)
class StatusOptions:
    """Show how a study stands, or pack its records into one file."""

    directory: Positional[Path]
    """folder of the study"""
    json: bool = False
    """print one JSON object, on stdout"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    options: StatusOptions | StudyOptions
    code = 0
    if words[:1] == ["status"]:
        options = parse(StatusOptions, "study status", words[1:])
        result = status(options)
    elif words[:1] == ["pack"]:
        options = parse(StatusOptions, "study pack", words[1:])
        file = pack(options.directory)
        result = {"file": str(file), "bytes": file.stat().st_size}
        if not options.json:
            say(f"{file}: {result['bytes']:,} bytes; the folder runs/ is not needed to report")
    else:
        options = parse(StudyOptions, "study", words, description=help_text())
        result, code = study(options)
    if options.json:
        print_json(result)
    return code


def help_text() -> str:
    """Return what stands above the options in the help."""
    names = textwrap.indent(textwrap.fill(", ".join(shipped_studies()), 78, break_on_hyphens=False), "  ")
    return (
        f"{StudyOptions.__doc__}\n\n"
        "  adept study NAME --out DIR     run it, or continue it\n"
        "  adept study status DIR         show how it stands\n"
        "  adept study pack DIR           store its records in one file\n\n"
        f"Studies that come with the package:\n{names}"
    )


def study(options: StudyOptions) -> tuple[dict[str, Any], int]:
    """Carry out `adept study`; return the object for --json and the exit status.

    The status is 0 when every cell is done, 1 when some failed, and 130 when it was interrupted.
    """
    declared = load_study(options.study)
    if options.dry_run:
        if options.out is not None:
            check_continuation(declared, options.out)
        found = dry_run(results_of(declared, options.out), options.workers)
        if not options.json:
            show_dry_run(found, declared.title, options)
        return found, 0
    assert options.out is not None
    if options.energy:
        require("codecarbon", "energy")
    with loading("PyTorch"):
        pass  # that it is not installed is said before a folder is made
    settings = Settings(
        execution=options.execution, energy=options.energy, test_episodes=options.test_episodes, trust=options.trust,
        command=(Path(sys.argv[0]).name, *sys.argv[1:]),
    )  # fmt: skip
    engine: Engine = LocalEngine(options.workers, options.retries)
    if options.engine == "ray":
        from adept.studies.engines.ray import RayEngine

        engine = RayEngine(
            options.address, workers=options.workers, cpus=options.cpus, gpus=options.gpus, retries=options.retries
        )
    try:
        results = run_study(declared, options.out, engine, settings)
    except KeyboardInterrupt:
        warn(f"stopped; the same command continues in {options.out}")
        return status_of(load_results(options.out)), 130
    if not options.json:
        show_status(results)
    return status_of(results), 1 if results.counts()["failed"] else 0


def status(options: StatusOptions) -> dict[str, Any]:
    """Carry out `adept study status`; return the object for --json."""
    results = load_results(options.directory)
    if not options.json:
        show_status(results)
    return status_of(results)


def status_of(results: StudyResults) -> dict[str, Any]:
    """Return how a study stands, as one JSON-safe object."""
    study = results.study
    found = Counter((cell.method, cell.task, cell.state) for cell in results.cells)
    return {
        "study": study.name,
        "winner": winner(study),
        "directory": str(results.directory),
        "runs": len(results.cells),
        "counts": results.counts(),
        "methods": {
            method.name: {task: {state: found[method.name, task, state] for state in STATES} for task in study.tasks}
            for method in study.methods
        },
        "running": [
            {"method": cell.method, "task": cell.task, "seed": cell.seed, "iteration": last_iteration(cell.path),
             "iterations": study.iterations(cell.task)}
            for cell in results.cells if cell.state == "running"
        ],
        "failed": [
            {"method": cell.method, "task": cell.task, "seed": cell.seed, "error": cell.error}
            for cell in results.cells if cell.state == "failed"
        ],
    }  # fmt: skip


def winner(study: Study) -> dict[str, Any]:
    """Return whether the declared test can show a winner with the study's seeds, as a JSON-safe object."""
    tasks, rivals = len(study.tasks), len(study.methods) - 1
    known = rivals > 0 and len(study.seeds) > 1
    return {
        "smallest_p": smallest_p(len(study.seeds), tasks, rivals) if known else None,
        "seeds_needed": seeds_needed(tasks, rivals) if rivals else None,
        "text": can_show_a_winner(len(study.seeds), tasks, rivals),
    }


def show_status(results: StudyResults) -> None:
    """Print the table of methods × tasks: how many runs are done, and what the others are."""
    study, summary = results.study, status_of(results)

    def cell(counts: dict[str, int]) -> str:
        others = [f"{count} {state}" for state, count in counts.items() if count and state != "done"]
        return ", ".join([f"{counts['done']}/{len(study.seeds)} done", *others])

    rows = [[method.label, *map(cell, summary["methods"][method.name].values())] for method in study.methods]
    console = make_console()
    console.print(table(("method", *study.tasks), rows, f"{study.title} · {len(study.seeds)} seeds"))
    console.print(summary["winner"]["text"])
    for failed in summary["failed"]:
        console.print(f"failed: {failed['task']} · {failed['method']} · seed {failed['seed']}: {failed['error']}")


def dry_run(results: StudyResults, workers: int) -> dict[str, Any]:
    """Return the cells with what they have left to do, as one JSON-safe object."""
    estimates = estimate(results)
    left = [each for each in estimates if each.steps]
    seconds = math.fsum(each.seconds for each in left)
    flops = None if any(each.flops is None for each in left) else math.fsum(each.flops or 0.0 for each in left)
    return {
        "study": results.study.name,
        "cells": [
            {"method": each.cell.method, "task": each.cell.task, "seed": each.cell.seed, "state": each.cell.state,
             "steps": each.steps, "epochs": each.epochs, "flops": each.flops, "seconds": each.seconds}
            for each in estimates
        ],
        "total": {"runs": len(left), "flops": flops, "seconds": seconds, "seconds_of_workers": seconds / workers},
        "rates": sorted({each.source for each in left}),
        "winner": winner(results.study),
        "names_code": sorted({name for cell in results.cells for name in named_code(cell.config)}),
    }  # fmt: skip


def show_dry_run(found: dict[str, Any], title: str, options: StudyOptions) -> None:
    """Print what `dry_run` found."""
    cells, total = found["cells"], found["total"]
    console = make_console()
    console.print(table(
        ("task", "method", "seed", "state", "steps left", "epochs", "compute", "time"),
        [[each["task"], each["method"], str(each["seed"]), each["state"], f"{each['steps']:,}",
          f"{each['epochs']:.3g}", cost(each["flops"]), duration(each["seconds"])] for each in cells],
        f"{title}: {total['runs']} of {len(cells)} runs to do",
    ))  # fmt: skip
    lines = [
        f"total {cost(total['flops'])}; {duration(total['seconds'])} in one process, "
        f"{duration(total['seconds_of_workers'])} in {options.workers}",
        "compute includes monitoring; epochs assume that arms are chosen equally often, and that updates under a "
        "rule neither stop short nor overshoot; a stopping rule may end updates earlier",
    ]
    if found["names_code"] and not options.trust:
        lines += [f"the study names code to import: {', '.join(found['names_code'])}; running it needs --trust"]
    lines += [f"time: {source}" for source in found["rates"]]
    lines += filter(None, [found["winner"]["text"]])
    console.print("\n".join(lines))
