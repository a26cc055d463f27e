"""What a run shows while it trains: a live panel on a terminal, plain lines elsewhere. All of it goes to stderr."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

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

PLAIN_SECONDS = 10.0
RATE_ITERATIONS = 20
"""Iterations over which the speed is averaged."""
JUDGED = 60
"""Measured updates from which the panel's headline is computed."""


class Progress:
    """What the records so far amount to."""

    def __init__(self, config: Config, forward_flops: int, iteration: int) -> None:
        self.config, self.steps = config, config.iterations * config.batch_size
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
        return (self.steps - self.record["step"]) / rate if rate else math.inf

    @property
    def compute(self) -> float:
        """Compute relative to always using the largest arm; measuring updates counts where the method goes by it."""
        other = 0.0 if cost.pays_for_monitoring(self.config) else self.record.get("monitor_flops", 0.0)
        return (self.record["flops"] - other) / (self._largest * self.record["iteration"])

    @property
    def monitoring(self) -> float:
        """Share of all FLOPs so far that measured updates."""
        return self.record.get("monitor_flops", 0.0) / self.record["flops"]

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
        live = self._console.is_terminal and not quiet
        self._live = Live(console=self._console, refresh_per_second=4) if live else None
        self._progress: Progress | None = None
        self._printed = -math.inf

    def __enter__(self) -> Screen:
        """Begin to show."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last panel standing."""
        if self._live is not None:
            self._live.stop()

    def start(self, trainer: Trainer) -> None:
        """Take note of what is being trained, and say where a resumed run continues."""
        self._progress = Progress(trainer.config, trainer.forward_flops, trainer.iteration)
        if trainer.iteration and not self._quiet:
            self._console.print(f"continuing after iteration {trainer.iteration}")

    def episode(self, ended: int, episodes: int) -> None:
        """Show how many episodes of the evaluation at the end are over."""
        text = f"evaluating: {ended} of {episodes} episodes"
        self._show(lambda: Text(text), lambda: text, last=ended == episodes)

    def __call__(self, record: Record) -> None:
        """Show one record."""
        progress = self._progress
        assert progress is not None
        progress.add(record)
        last = record["iteration"] == progress.config.iterations
        self._show(lambda: panel(progress), lambda: plain_line(progress), last=last)

    def _show(self, inside: Callable[[], RenderableType], line: Callable[[], str], *, last: bool) -> None:
        """Draw the panel again; elsewhere than on a terminal print a line, at the end and every now and then."""
        if self._live is not None:
            self._live.update(Panel(inside(), title=self._title, title_align="left", border_style="cyan"))
        elif not self._quiet and (last or time.monotonic() - self._printed >= PLAIN_SECONDS):
            warn(line())
            self._printed = time.monotonic()


def plain_line(progress: Progress) -> str:
    """Return one line on how a run stands."""
    record, config = progress.record, progress.config
    chosen = f" ({_shares(progress.shares(), ' ')})" if len(config.choices) > 1 else ""
    compute = "" if config.scheduler == "fixed" else f"  compute {progress.compute:.0%} of K={max(config.choices)}"
    compute += f"  monitoring {progress.monitoring:.0%} of FLOPs" if progress.monitoring else ""
    return (
        f"step {int(record['step']):,}/{progress.steps:,}  return {number(record['score'])}  "
        f"epochs {int(record['epochs_done'])}{chosen}{compute}  "
        f"{progress.steps_per_second:,.0f} steps/s  {duration(progress.remaining_seconds)} left"
    )


def _shares(shares: Mapping[Any, float], between: str) -> str:
    return between.join(f"K={arm}: {share:.0%}" for arm, share in shares.items())


def panel(progress: Progress) -> RenderableType:
    """Return what stands in the live panel: progress, return, arms and compute."""
    record, config = progress.record, progress.config
    head = Table.grid(padding=(0, 2), expand=True)
    head.add_column(ratio=1)
    head.add_column(justify="right")
    left = f"{int(record['step']):,} / {progress.steps:,} steps   {duration(progress.remaining_seconds)} left"
    head.add_row(ProgressBar(progress.steps, record["step"]), left)
    facts = {
        "return (last 100 episodes)": number(record["score"]),
        "reward of the last choice": number(record["reward"]),
        "steps per second": f"{progress.steps_per_second:,.0f}",
        "epochs of this update": f"{int(record['epochs_done'])} of {int(record['epochs'])} asked",
    }
    if config.scheduler != "fixed":
        facts[f"compute, relative to K={max(config.choices)}"] = f"{progress.compute:.1%}"
    if progress.monitoring:
        facts["monitoring"] = f"{progress.monitoring:.1%} of FLOPs"
    if progress.headline:
        facts["updates"] = progress.headline
    return Group(head, "", _facts(facts, "bold"), "", _arms(progress))


def _facts(facts: Mapping[str, str], style: str = "") -> Table:
    """Return a table of labels and values."""
    table = Table.grid(padding=(0, 3))
    table.add_column(style="dim")
    table.add_column(style=style, overflow="fold")
    for label, value in facts.items():
        table.add_row(label, value)
    return table


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


def result_table(summary: dict[str, Any]) -> Table:
    """Return the closing table of a run."""
    score = summary.get("score")
    facts = {
        "state": summary["state"],
        "steps": f"{summary.get('step', 0):,}",
        "return (last 100 episodes)": number(math.nan if score is None else score),
    }
    if found := summary.get("evaluation"):
        where = f"{found['levels']} levels" if "levels" in found else "evaluation"
        score = f"{number(found['return_mean'])} ± {number(found['return_std'])}"
        facts[f"return ({where}, {found['episodes']} episodes)"] = score
    spent = summary.get("monitor_flops", 0)
    monitoring = f"   monitoring: {spent / summary['flops']:.1%} of it" if spent else ""
    facts |= {
        "epochs spent": f"{summary.get('epochs', 0):,}   {_shares(summary.get('shares', {}), '  ')}",
        "gradient steps": f"{summary.get('gradient_steps', 0):,}",
        "FLOPs": f"{summary.get('flops', 0):.3e}{monitoring}",
        "seconds": f"{summary.get('seconds', 0):.1f}",
    }
    return _facts(facts)
