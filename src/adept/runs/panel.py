"""What a run shows while it trains: a live panel on a terminal, plain lines elsewhere. All of it goes to stderr."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from adept import cost
from adept.config import Config
from adept.hindsight.advice import advise
from adept.terminal import duration, inert, make_console, number, warn
from adept.training import Record, Trainer

if TYPE_CHECKING:
    from typing_extensions import Self

PLAIN_SECONDS = 10.0
RATE_ITERATIONS = 20
"""Iterations over which the speed is averaged."""
JUDGED = 60
"""Measured updates from which the panel's headline is computed."""


class Progress:
    """What the records so far amount to."""

    def __init__(self, config: Config, forward_flops: int, iteration: int) -> None:
        self.config = config
        self._largest = forward_flops * cost.iteration(config, max(config.choices))
        self._choices = Counter(dict.fromkeys(config.choices, 0))
        start = (time.monotonic(), float(iteration * config.batch_size))
        self._moments: deque[tuple[float, float]] = deque([start], maxlen=RATE_ITERATIONS + 1)
        self.record: Record = {}
        self._judged: list[Record] = []
        self.headline = ""
        """headline of the latest updates; empty if unknown"""

    def add(self, record: Record) -> None:
        """Take note of one record."""
        self.record = record
        self._choices[int(record["epochs"])] += 1
        self._moments.append((time.monotonic(), record["step"]))
        if math.isfinite(record.get("slope_z", math.nan)):
            self._judged = [*self._judged[1 - JUDGED :], record]
            columns = {name: [each[name] for each in self._judged] for name in ("slope_z", "update_gain", "gain/x2")}
            columns["approx_kl_last_epoch"] = [each.get("approx_kl_last_epoch", math.nan) for each in self._judged]
            self.headline = advise(columns).headline

    @property
    def steps_per_second(self) -> float:
        """Speed over the last iterations."""
        (first, steps), (last, more) = self._moments[0], self._moments[-1]
        return (more - steps) / (last - first) if last > first else 0.0

    @property
    def remaining_seconds(self) -> float:
        """Time to the end at the present speed."""
        rate = self.steps_per_second
        steps = self.config.iterations * self.config.batch_size - self.record["step"]
        return steps / rate if rate else math.inf

    @property
    def compute(self) -> float:
        """Compute relative to always using the largest arm; measuring updates counts where the method goes by it."""
        own = self.record["flops"] - (0.0 if cost.pays_for_monitoring(self.config) else self._monitor_flops)
        return own / (self._largest * self.record["iteration"])

    @property
    def monitoring(self) -> float:
        """Share of all FLOPs so far that measured updates."""
        return self._monitor_flops / self.record["flops"]

    @property
    def _monitor_flops(self) -> float:
        return self.record.get("monitor_flops", 0.0)

    def shares(self) -> dict[int, float]:
        """Share of each arm among the choices, those before a resume included where the scheduler counts them."""
        counts = {arm: self.record.get(f"arm_choices/{arm}", float(own)) for arm, own in self._choices.items()}
        total = sum(counts.values())
        return {arm: count / total for arm, count in counts.items()}


class Screen:
    """Show a run. Used as a context manager; call `start` with the trainer, then the screen with each record."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self._title, self._quiet = Text(inert(title)), quiet
        self._console = make_console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4) if self._console.is_terminal else None
        self._progress: Progress | None = None
        self._printed = -math.inf

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._live is not None and not self._quiet:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last panel standing."""
        if self._live is not None and not self._quiet:
            self._live.stop()

    def start(self, trainer: Trainer) -> None:
        """Take note of what is being trained, and say where a resumed run continues."""
        self._progress = Progress(trainer.config, trainer.forward_flops, trainer.iteration)
        if trainer.iteration and not self._quiet:
            self._console.print(f"continuing after iteration {trainer.iteration}")

    def episode(self, ended: int, episodes: int) -> None:
        """Show how many episodes of the evaluation at the end are over."""
        if self._quiet:
            return
        text = f"evaluating: {ended} of {episodes} episodes"
        if self._live is not None:
            self._live.update(Panel(Text(text), title=self._title, title_align="left", border_style="cyan"))
        elif ended == episodes or time.monotonic() - self._printed >= PLAIN_SECONDS:
            warn(text)
            self._printed = time.monotonic()

    def __call__(self, record: Record) -> None:
        """Show one record."""
        assert self._progress is not None
        self._progress.add(record)
        if self._quiet:
            return
        if self._live is not None:
            self._live.update(panel(self._title, self._progress))
            return
        last = record["iteration"] == self._progress.config.iterations
        if last or time.monotonic() - self._printed >= PLAIN_SECONDS:
            warn(plain_line(self._progress))
            self._printed = time.monotonic()


def plain_line(progress: Progress) -> str:
    """Return one line on how a run stands."""
    record, config = progress.record, progress.config
    shares = " ".join(f"K={arm}: {share:.0%}" for arm, share in progress.shares().items())
    chosen = f" ({shares})" if len(config.choices) > 1 else ""
    compute = "" if config.scheduler == "fixed" else f"  compute {progress.compute:.0%} of K={max(config.choices)}"
    compute += f"  monitoring {progress.monitoring:.0%} of FLOPs" if progress.monitoring else ""
    return (
        f"step {int(record['step']):,}/{config.iterations * config.batch_size:,}  return {number(record['score'])}  "
        f"epochs {int(record['epochs_done'])}{chosen}{compute}  "
        f"{progress.steps_per_second:,.0f} steps/s  {duration(progress.remaining_seconds)} left"
    )


def panel(title: Text, progress: Progress) -> RenderableType:
    """Return the live panel: progress, return, arms and compute."""
    record, config = progress.record, progress.config
    total = config.iterations * config.batch_size
    head = Table.grid(padding=(0, 2), expand=True)
    head.add_column(ratio=1)
    head.add_column(justify="right")
    left = f"{int(record['step']):,} / {total:,} steps"
    head.add_row(ProgressBar(total, record["step"]), f"{left}   {duration(progress.remaining_seconds)} left")
    facts = Table.grid(padding=(0, 3))
    relative = (f"compute, relative to K={max(config.choices)}", f"{progress.compute:.1%}")
    compute = [] if config.scheduler == "fixed" else [relative]
    compute += [("monitoring", f"{progress.monitoring:.1%} of FLOPs")] if progress.monitoring else []
    for label, value in (
        ("return (last 100 episodes)", number(record["score"])),
        ("reward of the last choice", number(record["reward"])),
        ("steps per second", f"{progress.steps_per_second:,.0f}"),
        ("epochs of this update", f"{int(record['epochs_done'])} of {int(record['epochs'])} asked"),
        *compute,
        *((("updates", progress.headline),) if progress.headline else ()),
    ):
        facts.add_row(Text(label, style="dim"), Text(value, style="bold"))
    return Panel(Group(head, "", facts, "", _arms(progress)), title=title, title_align="left", border_style="cyan")


def _arms(progress: Progress) -> Table:
    """Return a row per arm: its share as a bar, and the score it was last compared by."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("epochs", justify="right")
    table.add_column("share")
    table.add_column("", justify="right")
    table.add_column("score", justify="right")
    for arm, share in progress.shares().items():
        chosen = int(progress.record["epochs"]) == arm
        score = progress.record.get(f"arm_score/{arm}", math.nan)
        bar = Text("█" * round(share * 30), style="cyan" if chosen else "blue")
        table.add_row(Text(str(arm), style="bold" if chosen else ""), bar, f"{share:.0%}", number(score))
    return table


def _monitoring(summary: dict[str, Any]) -> str:
    spent = summary.get("monitor_flops", 0)
    return f"   monitoring: {spent / summary['flops']:.1%} of it" if spent else ""


def _evaluation(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the row of the evaluation at the end of a run, where there was one."""
    if (found := summary.get("evaluation")) is None:
        return []
    where = f"{found['levels']} levels, " if "levels" in found else "evaluation, "
    score = f"{number(found['return_mean'])} ± {number(found['return_std'])}"
    return [(f"return ({where}{found['episodes']} episodes)", score)]


def result_table(summary: dict[str, Any]) -> Table:
    """Return the closing table of a run."""
    table = Table.grid(padding=(0, 3))
    table.add_column()
    table.add_column(overflow="fold")
    shares = "  ".join(f"K={arm}: {share:.0%}" for arm, share in summary.get("shares", {}).items())
    score = summary.get("score")
    for label, value in (
        ("state", summary["state"]),
        ("steps", f"{summary.get('step', 0):,}"),
        ("return (last 100 episodes)", number(math.nan if score is None else score)),
        *_evaluation(summary),
        ("epochs spent", f"{summary.get('epochs', 0):,}   {shares}"),
        ("gradient steps", f"{summary.get('gradient_steps', 0):,}"),
        ("FLOPs", f"{summary.get('flops', 0):.3e}{_monitoring(summary)}"),
        ("seconds", f"{summary.get('seconds', 0):.1f}"),
    ):
        table.add_row(Text(label, style="dim"), value)
    return table
