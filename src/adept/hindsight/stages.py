"""What the columns of a run say of its updates, by stage of the run: KL, slope, gains, idle epochs. NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from adept.hindsight.estimates import Estimate, Floats

Indices = npt.NDArray[np.int64]
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


class Table(dict[str, Floats]):
    """Columns of a run, one value per row; a column that is missing is unknown in every row.

    Its column `kl` has the KL of each row's own update: `approx_kl_last_epoch` is in the row of the update itself,
    `update_kl` in the row that judges it, the next one.
    """

    def __init__(self, columns: Mapping[str, npt.ArrayLike]) -> None:
        super().__init__({name: np.asarray(values, np.float64).ravel() for name, values in columns.items()})
        self.rows = max(map(len, self.values()), default=0)
        if "approx_kl_last_epoch" in self:
            self["kl"] = self["approx_kl_last_epoch"]
        elif self.rows:
            self["kl"] = np.append(self["update_kl"][1:], math.nan)

    def __missing__(self, name: str) -> Floats:
        return np.full(self.rows, math.nan)

    @property
    def epochs_made(self) -> Floats:
        """The epochs of each row's update: those done, or else those planned."""
        return self["epochs_done" if "epochs_done" in self else "epochs"]

    def scheduled_rows(self) -> Indices:
        """Return the rows of the run without the end of a falling schedule of the learning rate."""
        rates = self["learning_rate"]
        if not np.isfinite(rates).any():
            return np.arange(self.rows)
        scheduled = rates / self["lr_scale"] if "lr_scale" in self else rates
        # A run that begins with a warm-up keeps it: only what comes after the largest rate is its end.
        after = np.arange(self.rows) > int(np.nanargmax(scheduled))
        return np.flatnonzero(~(after & (scheduled < MIN_SCHEDULE * np.nanmax(scheduled))))


def stage(name: str, table: Table, rows: Indices) -> Stage:
    """Return the numbers of the updates of some rows."""
    judged = rows[np.isfinite(table["slope_z"][rows])]

    def mean(column: str) -> Mean:
        return Mean.of(table[column][judged], MIN_STAGE_UPDATES)

    found = Stage(
        name,
        len(judged),
        kl=median(table["kl"][rows], MIN_KL_UPDATES),
        explained_variance=median(table["explained_variance"][rows], MIN_KL_UPDATES),
        critic_lag=median(table["critic_slope"][judged], MIN_KL_UPDATES),
        critic_slope=mean("critic_slope_z"),
    )
    if len(judged) >= MIN_STAGE_UPDATES:
        gain = table["update_gain"][judged]
        found = replace(
            _with_epochs(found, table, judged),
            slope=mean("slope_z"),
            gain=mean("update_gain"),
            longer=Mean.of(table["gain/x2"][judged] - gain, MIN_STAGE_UPDATES),
            shorter=Mean.of(table["gain/x0.5"][judged] - gain, MIN_STAGE_UPDATES),
        )
    return replace(found, direction=_direction(found))


def median(values: Floats, at_least: int = 1) -> float:
    """Return the median of the known values; infinite ones are known. NaN where they are few."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) >= at_least else math.nan


def whole_and_thirds(table: Table, parts: Sequence[Indices]) -> list[Stage]:
    """Return the numbers of the whole run and of its thirds.

    None is "short" before a third whose KL is too large: a larger rate would lengthen that, too.
    """
    found = [stage(WHOLE, table, np.concatenate(parts))]
    found += [stage(name, table, part) for name, part in zip(STAGE_NAMES, parts, strict=True)]
    for number, each in enumerate(found):
        later = found[max(2, number + 1) :]
        if each.direction == "short" and any(third.kl > MAX_FIRST_ORDER_KL for third in later):
            found[number] = replace(each, direction="unknown")
    return found


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


def _with_epochs(found: Stage, table: Table, rows: Indices) -> Stage:
    """Add the epoch from which on nothing is gained, from paired differences of gains within the same updates.

    A row judges the update before it: its epochs come from the row above.
    """
    rows = rows[rows > 0]
    rows = rows[np.isfinite(table.epochs_made[rows - 1])]
    if not len(rows) or "update_gain" not in table:
        return found
    made = table.epochs_made[rows - 1]
    epochs = int(np.median(made))
    same = rows[made == epochs]
    paths = {epoch: table[f"gain/{epoch}"][same] for epoch in range(1, epochs) if f"gain/{epoch}" in table}
    paths[epochs] = table["update_gain"][same]
    for epoch in list(paths)[:-1]:
        gained = Mean.of(paths[epoch], MIN_STAGE_UPDATES)
        later = [Mean.of(paths[other] - paths[epoch], MIN_STAGE_UPDATES) for other in paths if other > epoch]
        idle = (each.value + INTERVAL_DEVIATES * each.error < MAX_IDLE_GAIN * gained.value for each in later)
        if gained.deviates > MIN_SECOND_DEVIATES and all(idle):
            return replace(found, epochs=epochs, enough=epoch, rest=later[-1])
    return replace(found, epochs=epochs)
