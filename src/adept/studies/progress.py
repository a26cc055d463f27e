"""How far a study has come, on stderr: bars in a terminal, plain lines elsewhere, and when it will be done."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adept.studies.engines import Event
from adept.studies.estimate import expected_epochs, measured_rates, rate_for
from adept.studies.results import Cell, StudyResults
from adept.studies.work import last_iteration
from adept.terminal import duration, inert, make_console, warn

LINE_SECONDS = 60.0
REFRESH_SECONDS = 1.0
FIRST_GUESS_SECONDS = 5.0
"""Before so much time has passed, no guess is made of what is left."""


class Progress:
    """Follow the events of an engine; iterations made are read from the runs' folders."""

    def __init__(self, results: StudyResults, cells: Sequence[Cell], engine: str) -> None:
        self._results, self._cells = results, len(results.cells)
        self._over, self._failed = len(results.cells) - len(cells), 0
        self._made = {cell: last_iteration(cell.path) for cell in cells}
        self._at_start = dict(self._made)
        self._examples = {cell.task: cell for cell in results.cells if cell.state == "done"}
        self._prices = prices(results, cells, list(self._examples.values()))
        self._running: dict[Cell, float] = {}
        self._started = self._lined = self._looked = time.monotonic()
        self._bars: _Bars | None = None
        self._say(f"study {results.study.name}: {len(cells)} of {self._cells} runs to do, by {engine}")

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._bars = _Bars()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.progress.stop()

    def show(self, event: Event | None) -> None:
        """Take in an event, or a moment without one."""
        now = time.monotonic()
        if event is not None:
            self._note(event, now)
        if now - self._looked < REFRESH_SECONDS:
            return
        self._looked = now
        self._made |= {cell: last_iteration(cell.path) for cell in self._running}
        failed = f", {self._failed} failed" if self._failed else ""
        running = f"{len(self._running)} running · {self._left(now)}"
        summary = f"{self._over} of {self._cells} runs over{failed}, {running}"
        if self._bars is not None:
            everything = self._cost({cell: cell.iterations for cell in self._made})
            self._bars.show(self._made, self._running, self._cost(self._made) / everything, summary)
        elif now - self._lined >= LINE_SECONDS:
            self._lined = now
            self._say(summary)

    def _note(self, event: Event, now: float) -> None:
        cell = event.cell
        if event.kind == "started":
            self._running[cell] = now
            return
        if event.kind == "retried":
            self._say(f"{cell}: {event.error}; trying again")
            return
        took = now - self._running.pop(cell, now)
        self._made[cell] = last_iteration(cell.path)
        if event.kind == "interrupted":
            return
        self._over += 1
        self._failed += event.kind == "failed"
        if event.kind == "done" and cell.task not in self._examples:
            self._examples[cell.task] = replace(cell, state="done")
            self._prices = prices(self._results, list(self._made), list(self._examples.values()))
        what = f"failed: {event.error}" if event.kind == "failed" else f"done in {duration(took)}"
        if self._bars is None or event.kind == "failed":
            self._say(f"[{self._over}/{self._cells}] {cell} {what} · {self._left(now)}")

    def _cost(self, iterations: Mapping[Cell, int]) -> float:
        return sum(self._prices[cell] * count for cell, count in iterations.items())

    def _left(self, now: float) -> str:
        elapsed, made = now - self._started, self._cost(self._made) - self._cost(self._at_start)
        if elapsed < FIRST_GUESS_SECONDS or made <= 0:
            return "time left unknown yet"
        left = self._cost({cell: cell.iterations - count for cell, count in self._made.items()})
        return f"about {duration(left / made * elapsed)} left"

    def _say(self, text: str) -> None:
        """Print a line, above the bars where there are any."""
        if self._bars is not None:
            self._bars.progress.console.print(text)
        else:
            warn(text)


def prices(results: StudyResults, cells: Sequence[Cell], examples: Sequence[Cell]) -> dict[Cell, float]:
    """Return what an iteration of each cell costs: seconds, of which only the ratios count.

    Rates come from one finished run of each task, the examples: reading hundreds would take long. Until a run of its
    task is done, a cell's price is a guess.
    """
    rates = measured_rates(results, examples)
    of_any_seed = {(cell.method, cell.task): cell.config for cell in cells}
    found = {
        key: config.batch_size * rate_for(config, rates).step(expected_epochs(config))
        for key, config in of_any_seed.items()
    }
    return {cell: found[cell.method, cell.task] for cell in cells}


class _Bars:
    """Bars of rich: one for the study, one for each run under way."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        texts = (TextColumn(text, markup=False) for text in ("{task.percentage:>3.0f}%", "{task.description}"))
        console = make_console(stderr=True)
        self.progress = Progress(BarColumn(bar_width=24), *texts, console=console, transient=True)
        self._study = self.progress.add_task("", total=1.0)
        self._tasks: dict[Cell, Any] = {}
        self.progress.start()

    def show(self, made: dict[Cell, int], running: dict[Cell, float], done: float, summary: str) -> None:
        """Draw the bars again; `done` is the share of all work."""
        self.progress.update(self._study, completed=done, description=summary)
        for cell in running:
            if cell not in self._tasks:
                self._tasks[cell] = self.progress.add_task(inert(str(cell)), total=cell.iterations)
            self.progress.update(self._tasks[cell], completed=made[cell])
        for cell in self._tasks.keys() - running:
            self.progress.remove_task(self._tasks.pop(cell))
