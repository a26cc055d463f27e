"""What the columns of a run say of its updates, by stage of the run: KL, slope, gains, idle epochs. NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from adept.hindsight.estimates import Estimate

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Table = Mapping[str, Floats]
Direction = Literal["short", "over", "right", "unknown"]

MIN_UPDATES = 8
"""Judged updates of a run from which slopes and gains are read."""
MIN_STAGE_UPDATES = 6
"""Judged updates of a third of a run from which its slopes and gains are read."""
MIN_KL_UPDATES = 3
"""Updates whose median KL is read: the KL of an update has hardly any noise."""
MIN_DEVIATES = 3.0
"""Standard normal deviates from 0 beyond which a mean counts: noise gets there in 1 of 370 tries."""
MIN_SECOND_DEVIATES = 2.0
"""Deviates that a second sign of the same thing needs."""
MIN_LONGER_GAIN = 0.25
"""Share by which a step twice as long must gain more before updates count as short."""
INTERVAL_DEVIATES = 1.645
"""Standard errors from a mean to the upper end of its one-sided interval of 95 %."""
MAX_IDLE_GAIN = 0.15
"""Epochs count as idle if the upper end of their gain is below this share of the gain of those before them."""
USUAL_KL = (0.005, 0.03)
"""KL of an update with tuned settings: 0.005 to 0.013 in 12 presets; above 0.03 runs collapse on some tasks."""
MAX_FIRST_ORDER_KL = 0.05
"""KL of an update beyond which slope and gains, which are of first order, are not read."""
MIN_CHANGE = 1.15
"""Factor below which a change of the learning rate is not worth a recommendation."""
MIN_SCHEDULE = 1 / 3
"""Share of the largest scheduled learning rate below which updates are short because of the schedule."""
STAGE_NAMES = ("first third", "middle third", "last third")
WHOLE = "run"


@dataclass(frozen=True)
class Mean:
    """A mean over updates with its standard error."""

    value: float = math.nan
    error: float = math.nan
    updates: int = 0

    @classmethod
    def of(cls, values: Floats, at_least: int = 2) -> Mean:
        """Return mean and standard error of the finite values; NaN where there are fewer than `at_least`."""
        known = values[np.isfinite(values)]
        if len(known) < max(2, at_least):
            return cls()
        return cls(float(known.mean()), float(known.std(ddof=1)) / math.sqrt(len(known)), len(known))

    @property
    def deviates(self) -> float:
        """Distance from 0 as a standard normal deviate, which few updates make small; 0 where nothing is known."""
        return Estimate(self.value, self.error, max(1, self.updates - 1)).z


@dataclass(frozen=True)
class Stage:
    """The updates of a run, or of a part of it, in numbers. Gains are in standard deviations of the advantage."""

    name: str
    updates: int = 0
    """updates that were judged"""
    kl: float = math.nan
    """median KL of the updates, judged or not"""
    direction: Direction = "unknown"
    """whether updates are too short, too long or right, by slopes and gains and by a KL that is too large"""
    slope: Mean = field(default_factory=Mean)
    """mean z of the slopes"""
    gain: Mean = field(default_factory=Mean)
    longer: Mean = field(default_factory=Mean)
    """gain of a step twice as long, beyond that of the step taken"""
    shorter: Mean = field(default_factory=Mean)
    """gain of half a step, beyond that of the step taken"""
    epochs: int = 0
    """epochs of most updates; 0 where unknown"""
    enough: int = 0
    """the epoch after which nothing is gained; 0 where unknown"""
    rest: Mean = field(default_factory=Mean)
    """gain of the epochs after it"""
    explained_variance: float = math.nan
    """median explained variance of the returns by the critic"""
    critic_lag: float = math.nan
    """median share by which the critic's updates should have gone further"""
    critic_slope: Mean = field(default_factory=Mean)
    """mean z of the critic's slopes"""


def read(columns: Mapping[str, npt.ArrayLike]) -> Table:
    """Return the columns as floats, with a column `kl` that holds the KL of each row's own update.

    `approx_kl_last_epoch` is in the row of the update itself, `update_kl` in the row that judges it, the next one.
    """
    table = {name: np.asarray(values, np.float64).ravel() for name, values in columns.items()}
    if "approx_kl_last_epoch" in table:
        table["kl"] = table["approx_kl_last_epoch"]
    elif "update_kl" in table:
        table["kl"] = np.append(table["update_kl"][1:], math.nan) if len(table["update_kl"]) else np.zeros(0)
    return table


def scheduled_rows(table: Table) -> Rows:
    """Return the rows of a run without the end of a falling schedule of the learning rate."""
    count = max((len(values) for values in table.values()), default=0)
    rates = table.get("learning_rate")
    if rates is None or not np.isfinite(rates).any():
        return np.arange(count)
    scheduled = rates / table.get("lr_scale", np.ones(count))
    # A run that begins with a warm-up keeps it: only what comes after the largest rate is its end.
    after = np.arange(count) > int(np.nanargmax(scheduled))
    return np.flatnonzero(~(after & (scheduled < MIN_SCHEDULE * np.nanmax(scheduled))))


def thirds(rows: Rows) -> list[Rows]:
    """Return rows split into three stages of the run."""
    return np.array_split(rows, len(STAGE_NAMES))


def stage(name: str, table: Table, rows: Rows) -> Stage:
    """Return the numbers of the updates of some rows."""
    slopes = table.get("slope_z", np.zeros(0))
    judged = rows[np.isfinite(slopes[rows])] if len(slopes) else rows[:0]
    found = Stage(
        name,
        len(judged),
        kl=_median(table, "kl", rows),
        explained_variance=_median(table, "explained_variance", rows),
        critic_lag=_median(table, "critic_slope", judged),
        critic_slope=_mean(table, "critic_slope_z", judged),
    )
    if len(judged) >= MIN_STAGE_UPDATES:
        found = _with_epochs(replace(found, slope=_mean(table, "slope_z", judged)), table, judged)
        gain = table.get("update_gain", np.full(len(slopes), math.nan))
        differences = {name: table[name] - gain for name in ("gain/x2", "gain/x0.5") if name in table}
        found = replace(
            found,
            gain=Mean.of(gain[judged], MIN_STAGE_UPDATES),
            longer=_mean(differences, "gain/x2", judged),
            shorter=_mean(differences, "gain/x0.5", judged),
        )
    return replace(found, direction=_direction(found))


def without_blown_up(whole: Stage, parts: Sequence[Stage]) -> tuple[Stage, tuple[Stage, ...]]:
    """Return the stages without "short" before one whose KL is too large: a larger rate would lengthen that, too."""

    def kept(found: Stage, later: Sequence[Stage]) -> Stage:
        blows_up = any(each.kl > MAX_FIRST_ORDER_KL for each in later)
        return replace(found, direction="unknown") if found.direction == "short" and blows_up else found

    return kept(whole, parts[1:]), tuple(kept(each, parts[number + 1 :]) for number, each in enumerate(parts))


def _direction(found: Stage) -> Direction:
    """Return whether updates are too short or too long, where both the slope and the gains show it."""
    slope, gain, longer, shorter = (each.deviates for each in (found.slope, found.gain, found.longer, found.shorter))
    measured = not math.isnan(found.longer.value)
    if found.kl > MAX_FIRST_ORDER_KL:
        return "over"
    if slope > MIN_DEVIATES and not found.kl > USUAL_KL[1]:
        worthwhile = longer > MIN_SECOND_DEVIATES and found.longer.value > MIN_LONGER_GAIN * abs(found.gain.value)
        return "short" if worthwhile or not measured else "right" if gain > MIN_DEVIATES else "unknown"
    if slope < -MIN_DEVIATES or gain < -MIN_DEVIATES or shorter > MIN_DEVIATES:
        return "over"
    settled = not measured or found.longer.value < MIN_LONGER_GAIN * abs(found.gain.value)
    return "right" if gain > MIN_DEVIATES and settled else "unknown"


def _with_epochs(found: Stage, table: Table, rows: Rows) -> Stage:
    """Add the epoch from which on nothing is gained, from paired differences of gains within the same updates.

    A row judges the update before it: its epochs come from the row above.
    """
    done = table.get("epochs_done", table.get("epochs"))
    if done is None or "update_gain" not in table:
        return found
    rows = rows[rows > 0]
    rows = rows[np.isfinite(done[rows - 1])]
    if not len(rows):
        return found
    made = done[rows - 1]
    epochs = int(np.median(made))
    same = rows[made == epochs]
    marked = [epoch for epoch in sorted(map(_epoch_of, table)) if 0 < epoch < epochs]
    paths = {epoch: table[f"gain/{epoch}"][same] for epoch in marked} | {epochs: table["update_gain"][same]}
    for epoch in marked:
        gained = Mean.of(paths[epoch], MIN_STAGE_UPDATES)
        later = [Mean.of(paths[other] - paths[epoch], MIN_STAGE_UPDATES) for other in paths if other > epoch]
        idle = (each.value + INTERVAL_DEVIATES * each.error < MAX_IDLE_GAIN * gained.value for each in later)
        if gained.deviates > MIN_SECOND_DEVIATES and all(idle):
            return replace(found, epochs=epochs, enough=epoch, rest=later[-1])
    return replace(found, epochs=epochs)


def _median(table: Table, name: str, rows: Rows) -> float:
    """Return the median of a column's known values; infinite ones are known. NaN where they are few."""
    values = table[name][rows] if name in table else np.zeros(0)
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) >= MIN_KL_UPDATES else math.nan


def _mean(table: Table, name: str, rows: Rows) -> Mean:
    """Return the mean of a column where a third of a run has enough of it."""
    return Mean.of(table[name][rows], MIN_STAGE_UPDATES) if name in table else Mean()


def _epoch_of(column: str) -> int:
    """Return k of a column gain/k, else 0."""
    kind, _, epoch = column.partition("/")
    return int(epoch) if kind == "gain" and epoch.isdigit() else 0
