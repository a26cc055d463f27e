"""Advice: what a run's columns say about its learning rate and epochs, in plain sentences. NumPy alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from adept.hindsight.estimates import Estimate

Floats = npt.NDArray[np.float64]
Columns = Mapping[str, npt.ArrayLike]
Direction = Literal["short", "over", "right", "unknown"]

FEWEST = 8
"""Judged updates without which nothing is said of a run."""
FEWEST_OF_THIRD = 6
"""Judged updates without which nothing is said of a third of a run."""
SURE = 3.0
"""Standard normal deviates from 0 beyond which something is said: noise gets there in 1 of 370 tries."""
CLEAR = 2.0
"""Deviates that a second sign of the same thing needs."""
WORTHWHILE = 0.25
"""A step twice as long must gain this share more than the one taken before it is recommended."""
ABSENT = 1.645
"""Standard errors above a gain that is said to be absent: the upper end of a one-sided interval of 95 %."""
REST = 0.15
"""Epochs whose gain is surely less than this share of what those before them gained count as gaining nothing."""
FAR = 0.05
"""KL of an update beyond which gains and slope, which are of first order, say little; the controller's limit, too."""
STAGES = ("first", "middle", "last")
_TWO_THIRDS = ("first two thirds", "last two thirds")
_LENGTHEN = "Try a larger learning rate, × 1.5 to 2, or `--scheduler hindsight`."
_NOT_THE_RATE = "Try a larger KL limit; a larger learning rate would only end updates sooner."
_STOPPED = "A KL stop ends most updates early ({done:.2g} of {epochs:.2g} epochs on average). " + _NOT_THE_RATE
_LAGS = "Try a larger learning rate for the critic, rewards divided by their scale, or `--scheduler hindsight`."
LAG = 1.0
"""How much further a critic's updates should go, as a share of them, before it is said to lag: twice as far in all."""
_SHORTEN = "Try a smaller learning rate, ÷ 2, fewer epochs, or `--scheduler hindsight`."


@dataclass(frozen=True)
class Mean:
    """A mean over updates with its standard error."""

    value: float
    error: float
    updates: int = 0

    @classmethod
    def of(cls, values: Floats) -> Mean:
        """Return mean and standard error of what is finite; of fewer than two values there is none."""
        known = values[np.isfinite(values)]
        if len(known) < 2:
            return cls(math.nan, math.nan)
        return cls(float(known.mean()), float(known.std(ddof=1)) / math.sqrt(len(known)), len(known))

    @property
    def sure(self) -> float:
        """How far it is from 0 as a standard normal deviate, which few updates make small; 0 where there is none."""
        return Estimate(self.value, self.error, max(1, self.updates - 1)).z

    def text(self) -> str:
        """Return the mean and its error in per cent."""
        return f"{100 * self.value:.2f} ± {100 * self.error:.2f} %"


@dataclass(frozen=True)
class Finding:
    """What some updates of a run say."""

    updates: int
    """updates that were judged"""
    direction: Direction = "unknown"
    slope: Mean = Mean(math.nan, math.nan)
    """mean z of the slopes"""
    kl: float = math.nan
    """median KL of the updates; NaN where it is not known"""
    gain: Mean = Mean(math.nan, math.nan)
    longer: Mean = Mean(math.nan, math.nan)
    """what a step twice as long would have gained beyond the one taken"""
    shorter: Mean = Mean(math.nan, math.nan)
    """what half a step would have gained beyond the one taken"""
    epochs: int = 0
    """epochs of most updates"""
    enough: int = 0
    """the epoch after which nothing is gained; 0 where that is not known"""
    rest: Mean = Mean(math.nan, math.nan)
    """what the epochs after it gained"""


@dataclass(frozen=True)
class Advice:
    """The findings over a whole run and by thirds of it, and what they come to in words."""

    whole: Finding
    stages: tuple[Finding, ...]
    sentences: tuple[str, ...]

    @property
    def headline(self) -> str:
        """The finding on the last third that says something, in a few words; empty where none does."""
        for found in reversed(self.stages):
            if found.direction != "unknown":
                said = {"short": "stop short", "over": "overshoot", "right": "about right"}[found.direction]
                return f"{said} (slope z {found.slope.value:+.1f} ± {found.slope.error:.1f})"
        return ""

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def calling(self, call: str, compute: str) -> Advice:
        """Return the same advice with other calls in place of the command line's `--scheduler hindsight`."""
        flags = {
            "`--scheduler hindsight --optimize-for compute`": f"`{compute}`",
            "`--scheduler hindsight`": f"`{call}`",
        }
        sentences = self.sentences
        for flag, instead in flags.items():
            sentences = tuple(sentence.replace(flag, instead) for sentence in sentences)
        return replace(self, sentences=sentences)


def advise(columns: Columns, *, epoch_flops: float | None = None) -> Advice:
    """Return what the columns of a run say of its updates: direction, epochs, waste and what to try.

    Units of gains: per cent of a standard deviation of the advantage. Columns that are missing or empty are left out of
    account. `epoch_flops` is the cost of one epoch, for the waste in FLOPs. A column `lr_scale` says that a controller
    already sets the learning rate: then nothing is recommended, and the scale is told instead.
    """
    table = {name: np.asarray(values, np.float64).ravel() for name, values in columns.items()}
    judged = np.flatnonzero(np.isfinite(table.get("slope_z", np.zeros(0))))
    parts = np.array_split(judged, len(STAGES))
    whole, *thirds = _without_blown_up([_finding(table, rows) for rows in (judged, *parts)])
    stages = tuple(thirds)
    if whole.updates < FEWEST:
        said = {0: "No update was", 1: "Only 1 update was"}.get(len(judged), f"Only {len(judged)} updates were")
        return Advice(whole, stages, (f"{said} judged: too few to say anything.",))
    lr_scales = table.get("lr_scale", np.zeros(0))
    lr_scale = float(lr_scales[-1]) if len(lr_scales) else None
    sentences = _on_direction(table, parts, whole, stages, lr_scale)
    sentences = [_where_stopped(table, sentence) for sentence in sentences]
    rate_said = any(each.endswith((_LENGTHEN, _SHORTEN, _NOT_THE_RATE)) for each in sentences)
    sentences += _on_epochs(table, whole, epoch_flops, lr_scale, rate_said=rate_said)
    sentences += _on_critic(table, parts) if lr_scale is None else []
    return Advice(whole, stages, tuple(sentences) or (f"{whole.updates} judged updates say nothing clear.",))


def _on_critic(table: Mapping[str, Floats], parts: Sequence[npt.NDArray[np.int64]]) -> list[str]:
    """Say in which thirds of the run the critic lags so much that twice as long a step would have been right."""
    if not {"critic_slope", "critic_slope_z"} <= table.keys():
        return []
    lagging, slopes, lags = [], [], []
    for stage, rows in zip(STAGES, parts, strict=True):
        known = rows[np.isfinite(table["critic_slope_z"][rows])]
        slope, lag = table["critic_slope_z"][known], table["critic_slope"][known]
        if len(known) >= FEWEST_OF_THIRD and _mean(slope).sure > SURE and np.median(lag) >= LAG:
            lagging.append(stage)
            slopes.append(slope)
            lags.append(lag)
    if not lagging:
        return []
    when = "" if len(lagging) == len(STAGES) else f"in the {' and '.join(lagging)} third of the run "
    found, factor = _mean(np.concatenate(slopes)), 1 + np.median(np.concatenate(lags))
    text = f"{when}the critic lags: its updates should be {factor:.2g} times as long"
    return [f"{text[0].upper()}{text[1:]} (mean slope z {found.value:+.2f} ± {found.error:.2f}). {_LAGS}"]


def _where_stopped(table: Mapping[str, Floats], sentence: str) -> str:
    """Return a sentence with other advice where a KL stop ends most updates: longer steps would end them sooner."""
    if "epochs_done" not in table or "epochs" not in table or not sentence.endswith(_LENGTHEN):
        return sentence
    asked, done = table["epochs"], table["epochs_done"]
    known = np.isfinite(asked) & np.isfinite(done)
    if not known.any() or np.mean(done[known] < asked[known] - 0.01) <= 0.5:
        return sentence
    instead = _STOPPED.format(done=done[known].mean(), epochs=asked[known].mean())
    return f"{sentence.removesuffix(_LENGTHEN)}{instead}"


def _finding(table: Mapping[str, Floats], rows: npt.NDArray[np.int64]) -> Finding:
    """Return what the updates judged at some rows say."""
    if len(rows) < FEWEST_OF_THIRD:
        return Finding(len(rows))
    slope = _mean(table["slope_z"][rows])
    gain = table.get("update_gain", np.full(len(table["slope_z"]), np.nan))
    longer, shorter = (
        _mean((table[name] - gain)[rows]) if name in table else Mean(math.nan, math.nan)
        for name in ("gain/x2", "gain/x0.5")
    )
    found = Finding(len(rows), slope=slope, kl=_kl(table, rows), gain=_mean(gain[rows]), longer=longer, shorter=shorter)
    return replace(_with_epochs(found, table, rows), direction=_direction(found))


def _without_blown_up(findings: list[Finding]) -> list[Finding]:
    """Return the whole run's finding and those of its thirds, less the advice to lengthen steps that blow up later.

    Steps may seem short, and still a later third has a KL that is too large for any judgement.
    """

    def lengthened(number: int, found: Finding) -> bool:
        later = findings[max(2, number + 1) :]  # for the whole run: the second and the last third
        return found.direction == "short" and any(each.kl > FAR for each in later)

    return [
        replace(found, direction="unknown") if lengthened(number, found) else found
        for number, found in enumerate(findings)
    ]


def _direction(found: Finding) -> Direction:
    """Say whether updates stop short or overshoot, where both the slope and the gains say it."""
    slope, gain, longer, shorter = found.slope, found.gain, found.longer, found.shorter
    known = not math.isnan(longer.value)
    if found.kl > FAR:
        return "over"
    if slope.sure > SURE:
        worthwhile = longer.sure > CLEAR and longer.value > WORTHWHILE * abs(gain.value)
        return "short" if worthwhile or not known else "right" if gain.sure > SURE else "unknown"
    if slope.sure < -SURE or gain.sure < -SURE or shorter.sure > SURE:
        return "over"
    settled = not known or longer.value < WORTHWHILE * abs(gain.value)
    return "right" if gain.sure > SURE and settled else "unknown"


def _kl(table: Mapping[str, Floats], rows: npt.NDArray[np.int64]) -> float:
    """Return the median KL of the updates judged at some rows: as judged there, or as the row above recorded it."""
    if "update_kl" in table:
        kls = table["update_kl"][rows]
    elif "approx_kl_last_epoch" in table:
        kls = table["approx_kl_last_epoch"][rows[rows > 0] - 1]
    else:
        return math.nan
    known = kls[~np.isnan(kls)]  # an infinite one is known
    return float(np.median(known)) if len(known) else math.nan


def _with_epochs(found: Finding, table: Mapping[str, Floats], rows: npt.NDArray[np.int64]) -> Finding:
    """Add the epoch from which on nothing is gained, from paired differences of gains within the same updates.

    The rows judge the update before them: epochs come from the row above.
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
        gained = _mean(paths[epoch])
        later = [_mean(paths[other] - paths[epoch]) for other in paths if other > epoch]
        # Absence of a gain is said where even the upper ends of the intervals are small.
        if gained.sure > CLEAR and all(each.value + ABSENT * each.error < REST * gained.value for each in later):
            return replace(found, epochs=epochs, enough=epoch, rest=later[-1])
    return replace(found, epochs=epochs)


def _on_direction(
    table: Mapping[str, Floats], parts: Sequence[npt.NDArray[np.int64]], whole: Finding, stages: tuple[Finding, ...],
    lr_scale: float | None,
) -> list[str]:  # fmt: skip
    """Return one sentence on the whole run, or one for thirds that say the same where others do not."""
    known = {stage.direction for stage in stages} - {"unknown"}
    if whole.direction != "unknown" and known <= {whole.direction} and _lasts(whole, stages):
        return [_direction_text(whole, "Updates", lr_scale)]
    sentences = []
    for direction, group in itertools.groupby(range(len(stages)), key=lambda number: stages[number].direction):
        numbers = list(group)
        if direction != "unknown":
            found = replace(_finding(table, np.concatenate([parts[number] for number in numbers])), direction=direction)
            first = numbers[0]
            when = {1: f"the {STAGES[first]} third", 2: f"the {_TWO_THIRDS[min(first, 1)]}", 3: "every third"}[
                len(numbers)
            ]
            sentences.append(_direction_text(found, f"In {when} of the run updates", lr_scale))
    if not sentences and whole.direction != "unknown":
        on_average = _direction_text(whole, "On average over the run updates", lr_scale, try_it=False)
        sentences.append(f"{on_average} No third of it alone shows this.")
    return sentences


def _lasts(whole: Finding, stages: tuple[Finding, ...]) -> bool:
    """Say whether what the whole run says on average holds in every third, at least by its sign.

    Updates that stopped short must still do so at the end: on a solved task they did once.
    """
    judged = [stage for stage in stages if stage.updates >= FEWEST_OF_THIRD]
    if not judged or whole.direction == "right":
        return True
    if whole.direction == "short":
        return all(stage.slope.value > 0 for stage in judged) and judged[-1].slope.sure >= CLEAR
    return all(stage.slope.value < 0 or stage.gain.value < 0 or stage.kl > FAR for stage in judged)


def _direction_text(found: Finding, subject: str, lr_scale: float | None, *, try_it: bool = True) -> str:
    slope = f"mean slope z {found.slope.value:+.2f} ± {found.slope.error:.2f} over {found.updates} updates"
    known = not math.isnan(found.gain.value)
    gain = f": they gain {found.gain.text()} of a standard deviation of the advantage" if known else ""
    if found.direction == "short":
        further = "" if math.isnan(found.longer.value) else f"; a step twice as long would add {found.longer.text()}"
        return f"{subject} stop short ({slope}){gain}{further}.{_next(lr_scale, _LENGTHEN if try_it else '')}"
    if found.direction == "over":
        half = f"; half the step would add {found.shorter.text()}" if found.shorter.sure > CLEAR else ""
        if found.kl > FAR:
            slope, half = f"median KL {found.kl:.2g}, {slope}", f"; above a KL of {FAR} such estimates say little"
        return f"{subject} overshoot ({slope}){gain}{half}.{_next(lr_scale, _SHORTEN if try_it else '')}"
    return f"{subject} are about as long as they should be ({slope}){gain}."


def _next(lr_scale: float | None, instead: str) -> str:
    """Return what a controller did, or else what to try."""
    said = instead if lr_scale is None else f"The controller's scale is {lr_scale:.2g} at the end."
    return f" {said}" if said else ""


def _on_epochs(
    table: Mapping[str, Floats], found: Finding, epoch_flops: float | None, lr_scale: float | None, *, rate_said: bool
) -> list[str]:
    if not found.enough:
        return []
    first, last = found.enough + 1, found.epochs
    which = f"Epoch {last} adds" if first == last else f"Epochs {first} to {last} add"
    done = table["epochs_done"] if "epochs_done" in table else table["epochs"]
    wasted = np.maximum(done - found.enough, 0)
    waste = []
    if "update_seconds" in table:
        seconds = table["update_seconds"]
        share = np.divide(wasted, done, out=np.zeros_like(done), where=done > 0)
        lost, whole = float(np.nansum(seconds * share)), float(np.nansum(seconds))
        waste.append(f"{lost:.0f} of {whole:.0f} s of updates")
    if epoch_flops is not None:
        waste.append(f"{epoch_flops * float(np.nansum(wasted)):.2g} FLOPs")
    cost = f" They took {' and '.join(waste)}." if waste else ""
    said = f"{which} {found.rest.text()} to what the first {found.enough} gain.{cost}"
    if lr_scale is not None:
        return [said]
    # Epochs share the optimiser's state, so that a run with the first ones alone is another run: where the others do
    # not lose, half of them come first.
    fewer = found.enough if found.rest.sure < -CLEAR else max(found.enough, -(-found.epochs // 2))
    # Fewer epochs move less: where the rest does not lose, a larger learning rate makes up for it.
    larger = found.rest.value >= 0 and found.direction != "over" and not rate_said
    rate = f" with the learning rate × {found.epochs / fewer:.2g}" if larger else ""
    epochs = f"{fewer} epoch{'s' if fewer > 1 else ''}{' as well' if rate_said else rate}"
    return [f"{said} Try {epochs}, or `--scheduler hindsight --optimize-for compute`."]


def _mean(values: Floats) -> Mean:
    """Return the mean of values that are enough for a third of a run; of fewer, none."""
    found = Mean.of(values)
    return found if found.updates >= FEWEST_OF_THIRD else Mean(math.nan, math.nan)


def _epoch_of(column: str) -> int:
    """Return k of a column gain/k, else 0."""
    kind, _, epoch = column.partition("/")
    return int(epoch) if kind == "gain" and epoch.isdigit() else 0
