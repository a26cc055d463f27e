"""Carry out a study: declare it in its folder, hand the cells that remain to an engine, and follow them."""

from __future__ import annotations

import contextlib
import itertools
import signal
from dataclasses import replace
from pathlib import Path

from adept.config import Config, Execution
from adept.runs.imports import import_trusted, named_code
from adept.runs.safe_io import read_text, remove_leftovers, take_lock, write_aside
from adept.runs.signals import handling
from adept.studies.engines import Engine
from adept.studies.grid import Study, parse_study, require_continuation
from adept.studies.progress import Progress
from adept.studies.results import StudyResults, load_results, results_of
from adept.studies.work import Settings, mark_failed


def run_study(study: Study, directory: Path, engine: Engine, settings: Settings | None = None) -> StudyResults:
    """Start or continue a study in a folder; return its results when every cell is done or has failed for good.

    Ctrl-C or SIGTERM lets the runs finish their iteration and save, then raises `KeyboardInterrupt`; the same call
    continues. Cells that failed before are tried again.
    """
    check_continuation(study, directory)
    settings = settings or Settings()
    # On the nodes of a cluster devices and cores are others than here: of them nothing can be said before.
    check_runs(study, settings.execution if engine.here else Execution(device="cpu"), settings)
    with (
        take_lock(directory / "runs" / "lock", f"the study in {directory}"),
        handling(signal.default_int_handler, signal.SIGTERM),  # SIGTERM stops a study as Ctrl-C does
    ):
        remove_leftovers(directory)
        check_continuation(study, directory)
        write_aside(directory / "study.toml", study.text)
        results = results_of(study, directory)
        # Seed by seed, so that what is done can be compared; workers may stand in another folder.
        cells = [replace(cell, path=cell.path.absolute()) for cell in results.cells if cell.state != "done"]
        if cells:
            with Progress(results, cells, engine.description) as progress:
                events = engine.run(cells, settings)
                with contextlib.closing(events):  # type: ignore[type-var]
                    for event in events:
                        if event is not None and event.kind == "failed":
                            mark_failed(event.cell, event.error)
                        progress.show(event)
    return load_results(directory)


def check_continuation(study: Study, directory: Path) -> None:
    """Refuse a folder that holds something else, before anything is written."""
    file = directory / "study.toml"
    if file.exists():
        require_continuation(parse_study(read_text(file), str(file)), study, str(directory))
    elif directory.exists() and (not directory.is_dir() or {file.name for file in directory.iterdir()} - {"runs"}):
        raise ValueError(f"{directory} exists and is no study's folder; choose another --out")


def check_runs(study: Study, execution: Execution, settings: Settings) -> None:
    """Make what each kind of run needs once: a mistake is found before the first run, and leaves nothing behind."""
    from adept.runs.runner import check_run  # here, so that a driver needs no PyTorch to list or monitor cells

    kinds: dict[tuple[str, ...], Config] = {}
    for task, method in itertools.product(study.tasks, study.methods):
        config = study.config(method.name, task, study.seeds[0])
        kind = (task, config.algo, config.network, str(config.batch_size), *named_code(config))
        kinds.setdefault(kind, config)
    named = [name for config in kinds.values() for name in named_code(config)]
    import_trusted(named, settings.trust, f"study {study.name!r}", settings.folder)
    for config in kinds.values():
        check_run(config, execution)
