"""How far a study has come, on stderr: bars in a terminal, plain lines elsewhere, and when it will be done."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from adept.studies.engines import Event
from adept.studies.estimate import expected_epochs, measured_rates, rate_for
from adept.studies.results import StudyResults
from adept.studies.work import Job, last_iteration
from adept.terminal import duration, inert, make_console, say

if TYPE_CHECKING:
    from typing_extensions import Self

LINE_SECONDS = 60.0
REFRESH_SECONDS = 1.0
FIRST_GUESS_SECONDS = 5.0
"""Before so much time has passed, no guess is made of what is left."""


class Progress:
    """Follow the events of an engine; steps made are read from the runs' folders."""

    def __init__(self, results: StudyResults, jobs: Sequence[Job], engine: str, *, stream: Any = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._cells = len(results.cells)
        self._over = len(results.cells) - len(jobs)
        self._results, self._budget = results, {job: results.study.budget[job.task] for job in jobs}
        self._made = {job: last_iteration(job.path) * job.config.batch_size for job in jobs}
        self._at_start = dict(self._made)
        self._weigh()
        self._running: dict[Job, float] = {}
        self._failed = 0
        self._started = self._lined = self._looked = time.monotonic()
        self._bars: Any = None
        self._say(f"study {results.study.name}: {len(jobs)} of {self._cells} runs to do, by {engine}")

    def __enter__(self) -> Self:
        if self._stream.isatty():
            self._bars = _Bars()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.close()

    def show(self, event: Event | None) -> None:
        """Take in an event, or a moment without one."""
        now = time.monotonic()
        if event is not None:
            self._note(event, now)
        if now - self._looked >= REFRESH_SECONDS:
            self._looked = now
            for job in self._running:
                self._look(job)
            if self._bars is not None:
                self._bars.show(self._made, self._running, self._done / self._everything, self._summary(now))
            elif now - self._lined >= LINE_SECONDS:
                self._lined = now
                self._say(self._summary(now))

    def _note(self, event: Event, now: float) -> None:
        job = event.job
        if event.kind == "started":
            self._running[job] = now
            return
        if event.kind == "retried":
            self._say(f"{job}: {event.error}; trying again")
            return
        took = now - self._running.pop(job, now)
        self._look(job)
        if event.kind == "interrupted":
            return
        self._over += 1
        self._failed += event.kind == "failed"
        if event.kind == "done":
            self._learn(job)
        what = f"failed: {event.error}" if event.kind == "failed" else f"done in {duration(took)}"
        if self._bars is None or event.kind == "failed":
            self._say(f"[{self._over}/{self._cells}] {job} {what} · {self._left(now)}")

    def _summary(self, now: float) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._over} of {self._cells} runs over{failed}, {len(self._running)} running · {self._left(now)}"

    def _learn(self, job: Job) -> None:
        """Price all steps again where a run is the first one of its task that is done: until then a guess was."""
        known = {cell.task for cell in self._results.cells if cell.state == "done"}
        if job.task not in known:
            cells = (replace(cell, state="done") if cell.path.absolute() == job.path else cell
                     for cell in self._results.cells)  # fmt: skip
            self._results = replace(self._results, cells=tuple(cells))
            self._weigh()

    def _look(self, job: Job) -> None:
        """Read how far a job has come; only its own share of the work is counted again."""
        before, self._made[job] = self._made[job], last_iteration(job.path) * job.config.batch_size
        self._done += self._prices[job] * (self._made[job] - before)

    def _weigh(self) -> None:
        """Price the steps of all jobs, and what they cost together: at the start, so far, and in all."""
        self._prices = prices(self._results, list(self._made))
        self._at_first, self._done, self._everything = (
            sum(self._prices[job] * count for job, count in steps.items())
            for steps in (self._at_start, self._made, self._budget)
        )

    def _left(self, now: float) -> str:
        elapsed = now - self._started
        made = self._done - self._at_first
        if elapsed < FIRST_GUESS_SECONDS or made <= 0:
            return "time left unknown yet"
        return f"about {duration((self._everything - self._done) / made * elapsed)} left"

    def _say(self, text: str) -> None:
        if self._bars is not None:
            self._bars.say(text)
        else:
            say(text, self._stream)


def prices(results: StudyResults, jobs: Sequence[Job]) -> dict[Job, float]:
    """Return what a step of each job costs: seconds, of which only the ratios count.

    Rates come from one finished run of each task: reading hundreds would take long.
    """
    examples = {cell.task: cell for cell in results.cells if cell.state == "done"}
    rates = measured_rates(results, examples.values())
    return {job: rate_for(job.config, rates).step(expected_epochs(job.config)) for job in jobs}


class _Bars:
    """Bars of rich: one for the study, one for each run under way."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            BarColumn(bar_width=24),
            *(TextColumn(text, markup=False) for text in ("{task.percentage:>3.0f}%", "{task.description}")),
        )
        self._progress = RichProgress(*columns, console=make_console(stderr=True), transient=True)
        self._study = self._progress.add_task("", total=1.0)
        self._tasks: dict[Job, Any] = {}
        self._progress.start()

    def show(self, made: dict[Job, int], running: dict[Job, float], done: float, summary: str) -> None:
        """Draw the bars again; `done` is the share of all work."""
        self._progress.update(self._study, completed=done, description=summary)
        for job in running:
            if job not in self._tasks:
                total = job.iterations * job.config.batch_size
                self._tasks[job] = self._progress.add_task(inert(str(job)), total=total)
            self._progress.update(self._tasks[job], completed=made[job])
        for job in [job for job in self._tasks if job not in running]:
            self._progress.remove_task(self._tasks.pop(job))

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._progress.console.print(text)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._progress.stop()
