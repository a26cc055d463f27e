"""What a study's folder holds: the state, configuration and records of every cell, from run folders or packed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adept.config import Config
from adept.runs.records import (
    STATES,
    Columns,
    check_iterations,
    config_of,
    read_config,
    read_energy,
    read_evaluations,
    read_iterations,
    read_starts,
    read_status,
)
from adept.runs.safe_io import read_text
from adept.studies.grid import Study, cell_path, different_keys, parse_study
from adept.studies.packing import FILE, PackedRun, read_pack, rounded, write_pack

Key = tuple[str, str, int]
MONITORING = ("monitor", "monitor_every", "monitor_rows")
"""Configuration keys that change no other number of a run: runs that differ in them alone are of one method."""
ABSOLUTE = re.compile(r"(?<!\S)/\S*/([^\s/]+)")
"""A word that is an absolute path; the group is its last part."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of the grid; told apart from others by identity."""

    method: str
    task: str
    seed: int
    state: str
    """done, running, interrupted, failed or missing"""
    path: Path
    config: Config
    """as the study declares it"""
    iterations: int
    """those to be made: all of them, unless the study pauses its runs before"""
    error: str | None = None

    @property
    def key(self) -> Key:
        """Method, task and seed."""
        return self.method, self.task, self.seed

    def __str__(self) -> str:
        return f"{self.task} · {self.method} · seed {self.seed}"


@dataclass(frozen=True)
class StudyResults:
    """A study and its cells, in the order in which they are run: seed by seed, then by task and method."""

    study: Study
    directory: Path
    cells: tuple[Cell, ...]
    packed: Mapping[Key, PackedRun] = dataclasses.field(default_factory=dict, repr=False)

    def cell(self, method: str, task: str, seed: int) -> Cell:
        """Return one cell."""
        return next(cell for cell in self.cells if cell.key == (method, task, seed))

    def curve(self, cell: Cell) -> Columns:
        """Return the columns of a run's iterations; empty where it has none.

        Numbers have the digits that packing keeps, wherever they come from.
        """
        if (run := self._packed(cell)) is not None:
            known = cell.config.iterations if run.status["state"] == "done" else run.status.get("iteration", 0)
            return check_iterations(run.columns, known, f"{self.directory / FILE}, {cell.path.name} of {cell.method}")
        return rounded(read_iterations(cell.path))

    def evaluations(self, cell: Cell) -> list[dict[str, str]]:
        """Return the rows of a run's evaluations."""
        run = self._packed(cell)
        return read_evaluations(cell.path) if run is None else run.evaluations

    def recorded_config(self, cell: Cell) -> Config | None:
        """Return the configuration that the run itself recorded, or None where there is no run."""
        if (run := self._packed(cell)) is not None:
            return config_of(run.config, f"{self.directory / FILE}, {cell.method} on {cell.task}")
        return read_config(cell.path) if (cell.path / "config.json").exists() else None

    def starts(self, cell: Cell) -> list[dict[str, Any]]:
        """Return what each process that worked on the run said of itself and its machine."""
        run = self._packed(cell)
        return read_starts(cell.path) if run is None else run.starts

    def energy(self, cell: Cell) -> dict[str, Any] | None:
        """Return the run's measured energy, or None where it was not measured."""
        run = self._packed(cell)
        return read_energy(cell.path) if run is None else run.energy

    def counts(self) -> dict[str, int]:
        """Return how many cells are in each state."""
        found = Counter(cell.state for cell in self.cells)
        return {state: found[state] for state in STATES}

    def _packed(self, cell: Cell) -> PackedRun | None:
        return None if (cell.path / "config.json").exists() else self.packed.get(cell.key)


def load_results(directory: Path) -> StudyResults:
    """Read the study of a folder and the state of its cells; a run's own folder goes before a packed one."""
    file = directory / "study.toml"
    if not file.is_file():
        raise ValueError(
            f"{directory} is not a study's folder: it has no study.toml; start one with: adept study NAME --out DIR"
        )
    return results_of(parse_study(read_text(file), str(file)), directory)


def results_of(study: Study, directory: Path | None) -> StudyResults:
    """Return the cells of a study as they stand in a folder; without one, nothing has been run."""
    folder = directory or Path(study.name)
    packed = read_pack(folder / FILE) if directory and (folder / FILE).exists() else {}
    cells = []
    for seed, task, method in itertools.product(study.seeds, study.tasks, study.methods):
        key = (method.name, task, seed)
        path, config, iterations = cell_path(folder, *key), study.config(*key), study.iterations(task)
        status = read_status(path) if directory else {"state": "missing"}
        if key in packed and not (path / "config.json").exists():
            status = packed[key].status
        state = state_of(status, iterations, config)
        error = status.get("error") if state == "failed" else None
        cells.append(Cell(*key, state, path, config, iterations, error))
    return StudyResults(study, folder, tuple(cells), packed)


def state_of(status: Mapping[str, Any], iterations: int, config: Config) -> str:
    """Return a cell's state: a run is done, too, where the study pauses it, after fewer iterations than it has."""
    paused = status["state"] == "interrupted" and status.get("iteration", 0) >= iterations
    return "done" if paused and iterations < config.iterations else str(status["state"])


def undeclared_differences(results: StudyResults) -> list[tuple[str, str]]:
    """Compare the recorded configurations of one task and seed; return keys that differ undeclared, each with words.

    A run is also compared with what the study declares for its cell.
    """
    study, declaration = results.study, results.directory / "study.toml"
    groups: dict[tuple[str, int], dict[str, tuple[Cell, dict[str, Any]]]] = {}
    for cell in results.cells:
        if (config := results.recorded_config(cell)) is not None:
            groups.setdefault((cell.task, cell.seed), {})[cell.method] = cell, config.to_dict()
    found = []
    for recorded in groups.values():
        first, reference = recorded.get(study.baseline, next(iter(recorded.values())))
        for cell, values in recorded.values():
            declared = cell.config.to_dict()
            for against, other, allowed in ((first.path, reference, study.differs), (declaration, declared, ())):
                found += [
                    (key, f"{key} is {values.get(key)!r} in {cell.path} and {other.get(key)!r} in {against}")
                    for key in different_keys(values, other)
                    if key not in (*allowed, *MONITORING)
                ]
    return found


def pack(directory: Path) -> Path:
    """Write the records of a study's folder into one small file beside study.toml, and return its path.

    With that file the run folders can go: results, reports and further runs read it in their place.
    """
    results = load_results(directory)
    runs = []
    for cell in results.cells:
        if (run := results._packed(cell)) is None and cell.state != "missing":
            status, config = read_status(cell.path), read_config(cell.path)
            if status["state"] == "running":
                raise ValueError(f"{cell.path} is being written; stop the study before packing it")
            run = PackedRun(
                *cell.key, status, json.loads(config.to_json()), results.evaluations(cell), results.starts(cell),
                results.energy(cell), results.curve(cell),
            )  # fmt: skip
        if run is not None:
            # Commands name files and folders without their place, which means nothing elsewhere.
            starts = [{**start, "command": ABSOLUTE.sub(r"\1", start.get("command", ""))} for start in run.starts]
            runs.append(dataclasses.replace(run, starts=starts))
    write_pack(directory / FILE, runs)
    return directory / FILE
