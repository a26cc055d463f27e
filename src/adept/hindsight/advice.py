"""Advice as data: what to change in a run's learning rate, epochs or rewards, by how much, and why. NumPy alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from adept.hindsight import advice_text
from adept.hindsight.stages import (
    MAX_FIRST_ORDER_KL,
    MIN_CHANGE,
    MIN_DEVIATES,
    MIN_SECOND_DEVIATES,
    MIN_STAGE_UPDATES,
    MIN_UPDATES,
    STAGE_NAMES,
    USUAL_KL,
    WHOLE,
    Indices,
    Stage,
    Table,
    median,
    stage,
    whole_and_thirds,
)

Finding = Literal[
    "collapse", "low-kl", "high-kl", "stop-short", "overshoot", "right-length", "idle-epochs", "fewer-epochs",
    "unexplained-returns", "critic-lags", "controlled", "few-updates", "nothing-clear",
]  # fmt: skip
Action = Literal["learning-rate", "epochs", "kl-limit", "scale-rewards", "hindsight", "keep"]

AIMED_KL = 0.01
"""KL that a learning rate is aimed at where the KL alone says that updates are too short or too long."""
MAX_SLOPE_CHANGE = 2.0
"""Factor on the learning rate that slopes ask for at most: a step twice as long is the longest one measured."""
RAISE_WITHOUT_KL = 1.5
"""Factor on the learning rate where slopes ask for more and the KL is unknown."""
MAX_RAISE, MAX_CUT = 4.0, 10.0
"""Largest factor and divisor of the learning rate in one piece of advice."""
MAX_RATE = 0.01
"""Learning rate above which none is recommended: tanh layers saturate whatever the KL is."""
EPOCHS_EXPONENT = 0.7
"""Rate × (K/k)^0.7 keeps the KL with k instead of K epochs: with K=3 it was 0.002, with K=10 0.011."""
MIN_CRITIC_LAG = 1.0
"""Share by which a critic's updates should go further before it counts as lagging: twice as far in all."""
MIN_EXPLAINED_VARIANCE = 0.1
"""Explained variance of the returns below which advantages are mostly noise."""
VARIED_RETURNS = -0.25
"""Explained variance below which returns hardly vary: no reward was found yet, or the task is solved."""
MIN_KL_JUMP = 5.0
"""Factor over the median KL before it from which the KL of an update counts as a jump."""
MIN_FREEZING_KL = 1.0
"""KL of an update from which a policy that hardly moves afterwards counts as saturated by it."""
MIN_LOST_SHARE = 0.5
"""Share of its rise that a return must lose, and not win back, to count as collapsed."""
MIN_RISE = 2.0
"""Times the range of a random walk with the same steps that the rise before a collapse must exceed."""
AVERAGE = "average"
"""Stage of a finding that holds for the run on average, and for no third of it alone."""


@dataclass(frozen=True)
class Recommendation:
    """A finding and what to do about it."""

    finding: Finding
    action: Action = "keep"
    factor: float = 1.0
    """multiplies the learning rate, the epochs or the KL limit; 1 for other actions"""
    stage: str = WHOLE
    """part of the run that shows it"""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """measured numbers behind it, and the new learning rate or epochs, where known"""


@dataclass(frozen=True)
class Advice:
    """Recommendations, and the numbers of the run and of its thirds that they follow from."""

    recommendations: tuple[Recommendation, ...]
    whole: Stage
    stages: tuple[Stage, ...]
    host: str = "trainer"
    """whose options the text names (`adept.hindsight.advice_text.HOSTS`)"""
    notes: tuple[str, ...] = ()
    """sentences that the host adds"""

    def factor(self, action: Action) -> float:
        """Return the factor that an action is recommended with; 1 where it is not recommended."""
        return next((each.factor for each in self.recommendations if each.action == action), 1.0)

    @property
    def sentences(self) -> tuple[str, ...]:
        """One text per recommendation, in the words of the host, and the notes."""
        return (*(advice_text.sentence(each, self.host) for each in self.recommendations), *self.notes)

    @property
    def headline(self) -> str:
        """The direction of the last third that has one, or of the run, in a few words; empty where none has."""
        found = [advice_text.headline(each) for each in (*reversed(self.stages), self.whole)]
        return next(filter(None, found), "")

    def __str__(self) -> str:
        return " ".join(self.sentences)


def advise(
    columns: Mapping[str, npt.ArrayLike],
    *,
    host: str = "trainer",
    epoch_flops: float | None = None,
    rewards_scaled: bool = False,
) -> Advice:
    """Return what the columns of a run, one value per iteration, say of its updates and what to change.

    All columns are optional: `kl` of an update as `approx_kl_last_epoch` (in its own row) or `update_kl` (in the next
    row); `slope_z`, `update_gain`, `gain/…`, `critic_slope`, `critic_slope_z` as monitoring writes them; `epochs`,
    `epochs_done`, `update_seconds`; `learning_rate` (the end of a falling schedule is left out); `explained_variance`;
    `score` (a return, for collapses); `iteration`. A column `lr_scale` says that a controller sets the learning rate:
    then nothing is recommended.

    Args:
        columns: numbers of the run by name.
        host: whose options the text names, a key of `adept.hindsight.advice_text.HOSTS`.
        epoch_flops: FLOPs of one epoch, to say what idle epochs cost.
        rewards_scaled: rewards are divided by their scale already.
    """
    table = Table(columns)
    if not advice_text.host_named(host).usual_kl and not median(table["kl"]) > MAX_FIRST_ORDER_KL:
        table.pop("kl", None)
    parts = np.array_split(table.scheduled_rows(), len(STAGE_NAMES))
    whole, *stages = whole_and_thirds(table, parts)
    if whole.updates < MIN_UPDATES:  # too few for slopes and gains: the KL alone counts
        whole, *stages = (
            replace(each, direction="over" if each.kl > MAX_FIRST_ORDER_KL else "unknown", enough=0)
            for each in (whole, *stages)
        )
    collapse = _collapse(table) or _freeze(table)
    if collapse is not None:
        recommended = [collapse]
    else:
        low = _is_low(whole, stages)
        groups = [replace(whole, direction="short")] if low else _groups(table, parts, whole, stages)
        recommended = _on_steps(table, whole, groups, low=low, epoch_flops=epoch_flops)
        recommended += _on_critic(table, parts, whole, stages, recommended, host, rewards_scaled)
        whole = groups[0] if low else whole
    scales = table["lr_scale"][np.isfinite(table["lr_scale"])]
    if len(scales):
        recommended = _controlled(recommended, float(scales[-1]))
    if not recommended:
        kind: Finding = "few-updates" if whole.updates < MIN_UPDATES else "nothing-clear"
        recommended = [Recommendation(kind, numbers=_finite({"updates": whole.updates, "kl": whole.kl}))]
    return Advice(tuple(recommended), whole, tuple(stages), host)


def _is_low(whole: Stage, stages: Sequence[Stage]) -> bool:
    """Return whether the KL is below the usual from the beginning, and slopes do not contradict.

    A KL that is small at the end alone is no sign: on a solved task there is little left to change.
    """
    contradicted = any(each.direction in ("over", "right") for each in (whole, *stages))
    return whole.kl < USUAL_KL[0] and not stages[0].kl >= USUAL_KL[0] and not contradicted


def _groups(table: Table, parts: Sequence[Indices], whole: Stage, stages: Sequence[Stage]) -> list[Stage]:
    """Return the whole run where its direction holds in every third, else neighbouring thirds of the same direction."""
    known = {each.direction for each in stages} - {"unknown"}
    if whole.direction != "unknown" and known <= {whole.direction} and _lasts(whole, stages):
        return [whole]
    groups = []
    for direction, members in itertools.groupby(range(len(stages)), key=lambda number: stages[number].direction):
        numbers = list(members)
        if direction != "unknown":
            first = numbers[0]
            names = (STAGE_NAMES[first], "first two thirds" if first == 0 else "last two thirds", "every third")
            rows = np.concatenate([parts[number] for number in numbers])
            groups.append(replace(stage(names[len(numbers) - 1], table, rows), direction=direction))
    if not groups and whole.direction != "unknown":
        groups = [replace(whole, name=AVERAGE)]
    return groups


def _lasts(whole: Stage, stages: Sequence[Stage]) -> bool:
    """Return whether the direction of the whole run holds in every third, at least by its sign.

    Updates that are short must still be so at the end: on a solved task they were at the beginning.
    """
    judged = [each for each in stages if each.updates >= MIN_STAGE_UPDATES]
    if not judged or whole.direction == "right":
        return True
    if whole.direction == "short":
        last = judged[-1].slope.deviates >= MIN_SECOND_DEVIATES
        return last and all(each.slope.value > 0 for each in judged)
    return all(each.slope.value < 0 or each.gain.value < 0 or each.kl > MAX_FIRST_ORDER_KL for each in judged)


def _on_steps(
    table: Table, whole: Stage, groups: Sequence[Stage], *, low: bool, epoch_flops: float | None
) -> list[Recommendation]:
    """Return what the length of updates and their epochs come to: at most one change of the rate and one of epochs."""
    recommended = [_on_length(group, low=low) for group in groups]
    directions = {group.direction for group in groups if group.name != AVERAGE}
    fewer = 0
    if whole.enough and not low and not whole.kl > MAX_FIRST_ORDER_KL:
        # Epochs share the optimiser's state, so that a run with the first ones alone is another run: where the others
        # do not lose, half of them come first.
        loses = whole.rest.deviates < -MIN_SECOND_DEVIATES
        fewer = whole.enough if loses else max(whole.enough, math.ceil(whole.epochs / 2))
    shortened = (whole.epochs / fewer) ** EPOCHS_EXPONENT if fewer else 1.0
    kept_distance = shortened if fewer and whole.rest.value >= 0 else 1.0
    if directions >= {"short", "over"}:
        recommended[-1] = replace(recommended[-1], action="hindsight")
    elif directions & {"short", "over"}:
        number = next(number for number, group in enumerate(groups) if group.direction in ("short", "over"))
        factor = _rate_factor(groups[number], recommended[number].finding)
        factor = factor * kept_distance if "short" in directions else min(1.0, factor * shortened)
        recommended[number] = _with_rate(recommended[number], table, factor)
    elif kept_distance > 1 and not whole.kl > USUAL_KL[1]:
        change = _with_rate(Recommendation("fewer-epochs"), table, kept_distance)
        recommended += [change] if change.action != "keep" else []
    if fewer:
        place = len(recommended) - (recommended[-1].finding == "fewer-epochs" if recommended else 0)
        recommended.insert(place, _on_epochs(table, whole, fewer, epoch_flops))
    return recommended


def _on_length(group: Stage, *, low: bool) -> Recommendation:
    """Return the finding on the length of a stage's updates."""
    kinds: dict[str, Finding] = {"short": "stop-short", "over": "overshoot", "right": "right-length"}
    finding: Finding = "low-kl" if low else "high-kl" if group.kl > MAX_FIRST_ORDER_KL else kinds[group.direction]
    numbers: dict[str, float] = {"updates": group.updates, "kl": group.kl}
    for name in ("slope", "gain", "longer", "shorter"):
        mean = getattr(group, name)
        numbers |= {name: mean.value, f"{name}_error": mean.error}
    if not group.shorter.deviates > MIN_SECOND_DEVIATES:
        del numbers["shorter"], numbers["shorter_error"]
    return Recommendation(finding, stage=group.name, numbers=_finite(numbers))


def _rate_factor(group: Stage, finding: Finding) -> float:
    """Return the factor on the learning rate that brings the KL where it should be: KL grows as its square."""
    if finding == "overshoot":
        return 1 / MAX_SLOPE_CHANGE
    if finding == "high-kl":
        return math.sqrt(AIMED_KL / group.kl)
    if math.isnan(group.kl):
        return RAISE_WITHOUT_KL
    by_slope = MAX_SLOPE_CHANGE**2 * group.kl if group.slope.deviates > MIN_DEVIATES else 0.0
    return math.sqrt(min(max(AIMED_KL, by_slope), USUAL_KL[1]) / max(group.kl, 1e-12))


def _with_rate(recommended: Recommendation, table: Table, factor: float) -> Recommendation:
    """Return a recommendation with its bounded factor on the learning rate, or on the limit that ends updates early."""
    factor = min(MAX_RAISE, max(1 / MAX_CUT, factor))
    known = np.isfinite(table["epochs"]) & np.isfinite(table["epochs_done"])
    asked, done = table["epochs"][known], table["epochs_done"][known]
    if factor > MIN_CHANGE and len(done) and np.mean(done < asked - 0.01) > 0.5:
        numbers = {**recommended.numbers, "epochs_done": float(done.mean()), "epochs": float(asked.mean())}
        return replace(recommended, action="kl-limit", factor=factor**2, numbers=numbers)
    rates = table["learning_rate"]  # of the host's own schedule
    rate = float(np.max(rates, where=np.isfinite(rates), initial=0.0)) or math.nan
    if factor > 1 and not math.isnan(rate):
        factor = min(factor, max(1.0, MAX_RATE / rate))
    if 1 / MIN_CHANGE < factor < MIN_CHANGE:
        return recommended
    numbers = _finite({**recommended.numbers, "learning_rate": rate * factor})
    return replace(recommended, action="learning-rate", factor=factor, numbers=numbers)


def _on_epochs(table: Table, whole: Stage, fewer: int, epoch_flops: float | None) -> Recommendation:
    """Return the epochs that gain nothing, their cost, and how many to use."""
    numbers = {
        "first": whole.enough + 1, "epochs": whole.epochs, "new_epochs": fewer, "rest": whole.rest.value,
        "rest_error": whole.rest.error,
    }  # fmt: skip
    done = table.epochs_made
    idle = np.maximum(done - whole.enough, 0)
    if "update_seconds" in table:
        seconds = table["update_seconds"]
        share = np.divide(idle, done, out=np.zeros_like(done), where=done > 0)
        numbers |= {"idle_seconds": float(np.nansum(seconds * share)), "update_seconds": float(np.nansum(seconds))}
    if epoch_flops is not None:
        numbers["idle_flops"] = epoch_flops * float(np.nansum(idle))
    return Recommendation("idle-epochs", "epochs", fewer / whole.epochs, numbers=_finite(numbers))


def _on_critic(
    table: Table, parts: Sequence[Indices], whole: Stage, stages: Sequence[Stage], before: Sequence[Recommendation],
    host: str, rewards_scaled: bool,
) -> list[Recommendation]:  # fmt: skip
    """Return whether the critic explains nothing, and in which thirds it lags by at least the update itself."""
    scalable = bool(advice_text.host_named(host).scale_rewards) and not rewards_scaled
    action: Action = "scale-rewards" if scalable else "hindsight"
    if any(each.action == "learning-rate" and each.factor > 1 for each in before):
        action = "keep"  # a larger learning rate is the critic's, too: one change at a time
    recommended = []
    explained = [each.explained_variance for each in (whole, *stages) if not math.isnan(each.explained_variance)]
    known = int(np.isfinite(table["explained_variance"]).sum())
    if explained and known >= MIN_UPDATES and max(explained) < MIN_EXPLAINED_VARIANCE:
        numbers = {"explained_variance": whole.explained_variance}
        varied = whole.explained_variance >= VARIED_RETURNS
        recommended.append(Recommendation("unexplained-returns", action if varied else "keep", numbers=numbers))
        action = "keep"
    lagging = [
        number for number, each in enumerate(stages)
        if each.critic_slope.deviates > MIN_DEVIATES and each.critic_lag >= MIN_CRITIC_LAG
    ]  # fmt: skip
    if lagging and not any(each.finding == "low-kl" for each in before):  # all that is short gets longer at once
        found = stage(WHOLE, table, np.concatenate([parts[number] for number in lagging]))
        thirds_named = " and ".join(STAGE_NAMES[number].removesuffix(" third") for number in lagging)
        name = WHOLE if len(lagging) == len(stages) else f"{thirds_named} third"
        numbers = {"length": 1 + found.critic_lag, "slope": found.critic_slope.value,
                   "slope_error": found.critic_slope.error}  # fmt: skip
        recommended.append(Recommendation("critic-lags", action, stage=name, numbers=numbers))
    return recommended


def _controlled(recommended: Sequence[Recommendation], scale: float) -> list[Recommendation]:
    """Return the findings on a run whose learning rate a controller sets, without anything to do about them."""
    critic = ("unexplained-returns", "critic-lags", "fewer-epochs")
    told = [replace(each, action="keep", factor=1.0) for each in recommended if each.finding not in critic]
    off = any(each.finding in ("low-kl", "high-kl", "stop-short", "overshoot", "collapse") for each in told)
    return [*told, Recommendation("controlled", numbers={"lr_scale": scale})] if off else told


def _collapse(table: Table) -> Recommendation | None:
    """Return the update with a jump of the KL after which the return lost half of its rise for good, if there is one.

    The score is a mean over the last episodes, so that it may still rise after the jump: the jump is looked for as long
    before the peak as the fall takes after it.
    """
    scores, kls = table["score"], table["kl"]
    known = np.flatnonzero(np.isfinite(scores))
    if len(known) < MIN_UPDATES:
        return None
    values = scores[known]
    best = int(values.argmax())
    rise, lowest = values[best] - values[0], values[best] - MIN_LOST_SHARE * (values[best] - values[0])
    end = float(np.median(values[-max(1, len(values) // 10) :]))
    walk = float(np.diff(values[: best + 1]).std()) * math.sqrt(best) if best else math.inf
    fallen = np.flatnonzero(values[best:] < lowest)
    if not rise > MIN_RISE * walk or not end < lowest or not len(fallen):
        return None
    peak, fall = int(known[best]), int(known[best + fallen[0]])
    usual = median(kls[: peak + 1])
    first = max(0, 2 * peak - fall)
    jumps = first + np.flatnonzero(kls[first:fall] > max(MAX_FIRST_ORDER_KL, MIN_KL_JUMP * usual))
    if not len(jumps):
        return None
    row = int(jumps[0])
    between = math.sqrt(usual * min(float(kls[row]), 1e12))  # a rate for the jump alone would be too small before it
    factor = min(1 / MAX_SLOPE_CHANGE, math.sqrt(AIMED_KL / between))
    numbers = {"iteration": _iteration(table, row), "kl": float(kls[row]), "usual_kl": usual,
               "best": float(values[best]), "end": end}  # fmt: skip
    return _with_rate(Recommendation("collapse", numbers=_finite(numbers)), table, factor)


def _freeze(table: Table) -> Recommendation | None:
    """Return the update whose KL saturated the policy, so that it hardly moved afterwards, if there is one."""
    jumps = np.flatnonzero(table["kl"] > MIN_FREEZING_KL)
    if not len(jumps):
        return None
    row, since = int(jumps[0]), table["kl"][jumps[0] + 1 :]
    if np.isfinite(since).sum() < MIN_UPDATES or not median(since) < USUAL_KL[0] / MAX_CUT:
        return None
    kl = float(table["kl"][row])
    numbers = {"iteration": _iteration(table, row), "kl": kl, "usual_kl": max(0.0, median(since))}
    return _with_rate(Recommendation("collapse", numbers=_finite(numbers)), table, math.sqrt(AIMED_KL / kl))


def _iteration(table: Table, row: int) -> float:
    """Return the iteration of a row, by its column or by counting."""
    return float(table["iteration"][row]) if "iteration" in table else row + 1.0


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers that are known, as JSON can hold them."""
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}
