"""Advice from columns whose truth is known: each case is what a run of that kind writes."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from adept.hindsight.advice import Advice, Recommendation, advise
from adept.hindsight.advice_text import HOSTS

UPDATES = 60
SHORT: dict[str, Any] = {"z": 1.5, "lengths": (0.5, 1.9)}
OVER: dict[str, Any] = {"z": -1.5, "lengths": (1.2, -2.0)}
NOISE: dict[str, Any] = {"gains": {8: 1e-9}}
WASTE: dict[str, Any] = {"gains": {1: 0.9, 2: 1.0, 4: 1.0, 8: 1.0}, "noise": 0.05}


def columns(
    *,
    z: float = 0.0,
    gains: dict[int, float] | None = None,
    lengths: tuple[float, float] = (0.5, 1.0),
    epochs: int = 8,
    noise: float = 0.2,
    seed: int = 0,
    every: int = 2,
    updates: int = UPDATES,
) -> dict[str, np.ndarray]:
    """Columns of a run judged every other iteration; gains in per cent, with a common and an own noise of updates."""
    rng = np.random.default_rng(seed)
    gains = gains or {1: 0.4, 2: 0.6, 4: 0.8, 8: 1.0}
    rows = updates * every
    due = np.arange(rows) % every == every - 1
    common = rng.standard_normal(rows)
    table = {"epochs_done": np.full(rows, float(epochs)), "epochs": np.full(rows, float(epochs))}
    table["update_seconds"] = np.full(rows, 2.0)
    table["slope_z"] = z + rng.standard_normal(rows)
    for epoch, value in gains.items():
        share = value / gains[epochs]
        table[f"gain/{epoch}"] = (value + 0.5 * share * common + noise * (1 - share) * rng.standard_normal(rows)) / 100
    table["update_gain"] = table[f"gain/{epochs}"].copy()
    for name, factor in zip(("gain/x0.5", "gain/x2"), lengths, strict=True):
        table[name] = table["update_gain"] * factor + noise / 300 * rng.standard_normal(rows)
    for name in table:
        if name.startswith("gain") or name in ("slope_z", "update_gain"):
            table[name][~due] = np.nan
    return table


def only(advice: Advice, finding: str) -> Recommendation:
    """The one recommendation with a finding."""
    (found,) = (each for each in advice.recommendations if each.finding == finding)
    return found


def without(table: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {each: values for each, values in table.items() if each != name}


def told(advice: Advice) -> list[tuple[str, str]]:
    return [(each.finding, each.action) for each in advice.recommendations]


def with_kl(kl: float | list[float], **options: float) -> dict[str, np.ndarray]:
    """Columns of a run whose updates have this KL, or these in its thirds."""
    table = columns(**options)
    thirds = np.full(3, kl) if isinstance(kl, float) else np.array(kl)
    table["approx_kl_last_epoch"] = np.repeat(thirds, len(table["epochs"]) // 3)
    return table


def joined(early, late) -> dict[str, np.ndarray]:
    """Columns of a run that goes on as another one."""
    return {name: np.concatenate([early[name], late[name]]) for name in early if name in late}


RATE = "learning-rate"
THREE = {"approx_kl_last_epoch": [0.0004, 0.0003, 0.0005], "learning_rate": [3e-4] * 3}
DIRECTIONS = {
    "short": (columns(**SHORT), "short", [("stop-short", RATE)], 1.5, "Updates stop short (mean slope z +1."),
    "a longer step gains nothing": (
        columns(z=1.5, lengths=(0.5, 1.1)), "right", [("right-length", "keep")], 1, "about as long as they should be",
    ),
    "over": (columns(**OVER), "over", [("overshoot", RATE)], 0.5, "half the step would add 0."),
    "losing": (
        columns(z=-0.2, gains={1: 0.2, 2: -0.2, 4: -0.8, 8: -1.5}, lengths=(0.2, 3.0)), "over",
        None, None, "",
    ),
    # A run that blew up: its slopes may point anywhere, its KL does not.
    "blown up": (
        with_kl(0.3, **SHORT), "over", [("high-kl", RATE)], math.sqrt(0.01 / 0.3),
        "Updates overshoot: they move the policy by a KL of 0.3; 0.005 to 0.03 is",
    ),
    "KL 0.02": (with_kl(0.02, **SHORT), "short", [("stop-short", RATE)], math.sqrt(1.5), ""),
    # A loop of one's own has the KL in the row that judges the update; one huge update does not speak for all.
    "one huge": (
        columns(**SHORT) | {"update_kl": np.where(np.arange(120) == 1, np.inf, 0.02)}, "short",
        [("stop-short", RATE)], math.sqrt(1.5), "",
    ),
    "all huge": (columns(**SHORT) | {"update_kl": np.full(120, np.inf)}, "over", [("high-kl", RATE)], 0.1, "infinity"),
    # The KL grows as the square of the rate: from 0.0016 to 0.01 it takes a factor of 2.5; from 0.0004, 4 at once.
    "KL 0.0016": (with_kl(0.0016, **NOISE), "short", [("low-kl", RATE)], 2.5, ""),
    "KL 0.0004": (with_kl(0.0004, **NOISE), "short", [("low-kl", RATE)], 4, ""),
    # Short by both: at most twice the rate, or more if the KL is still below 0.01 then.
    "both 0.0004": (with_kl(0.0004, **SHORT), "short", None, 4, ""),
    "both 0.003": (with_kl(0.003, **SHORT), "short", None, 2, ""),
    "both 0.008": (with_kl(0.008, **SHORT), "short", None, math.sqrt(0.03 / 0.008), ""),
    "both 0.028": (with_kl(0.028, **SHORT), "short", [("stop-short", "keep")], 1, "keep the learning rate"),
    "both 0.04": (with_kl(0.04, **SHORT), None, None, 1, ""),
    # Slopes that contradict a small KL prevail.
    "KL 0.002, over": (with_kl(0.002, **OVER), "over", None, 0.5, ""),
    "KL 0.002, right": (with_kl(0.002, lengths=(0.5, 1.1)), "right", [("right-length", "keep")], 1, ""),
    # A solved task: there is little left to change at the end.
    "small at the end": (with_kl([0.008, 0.002, 0.001], **NOISE), None, None, 1, ""),
    "small at first": (with_kl([0.002, 0.003, 0.007], **NOISE), None, None, math.sqrt(0.01 / 0.003), ""),
    # Three updates are enough, and none has to be judged.
    "three updates": (THREE, None, [("low-kl", RATE)], 4, ""),
    "two updates": ({"approx_kl_last_epoch": [0.0004, 0.0003]}, None, [("few-updates", "keep")], 1, ""),
    # Columns may be missing, and a scale that is not known is no controller.
    "slope alone": ({"slope_z": columns(z=1.5)["slope_z"]}, "short", [("stop-short", RATE)], 1.5, "Updates stop short"),
    "no seconds": (without(columns(**SHORT), "update_seconds"), "short", [("stop-short", RATE)], 1.5, ""),
    "unknown scale": (
        columns(**SHORT) | {"lr_scale": np.full(120, math.nan)}, "short", [("stop-short", RATE)], 1.5, "",
    ),
    # Short updates and idle epochs: one factor, for the longer step and for the fewer epochs.
    "short and idle": (
        columns(z=2.0, lengths=(0.5, 1.9), **WASTE), "short", [("stop-short", RATE), ("idle-epochs", "epochs")],
        1.5 * 2**0.7, "Use 4 epochs",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("table", "direction", "findings", "factor", "said"), DIRECTIONS.values(), ids=DIRECTIONS)
def test_directions(table, direction, findings, factor, said):
    advice = advise(table)
    assert direction in (None, advice.whole.direction)
    assert findings is None or told(advice) == findings
    assert factor is None or advice.factor(RATE) == pytest.approx(factor)
    assert said in str(advice)
    assert "nan" not in str(advice)


def test_the_headline_and_the_end_of_advice():
    advice = advise(columns(**SHORT))
    assert [stage.direction for stage in advice.stages] == ["short"] * 3
    (sentence,) = advice.sentences
    assert sentence.endswith("Multiply the learning rate by 1.5 (`--learning-rate`), or use `--scheduler hindsight`.")
    assert advice.headline.startswith("stop short (slope z +1.")
    assert advise(with_kl(0.0016, **NOISE)).headline.endswith("KL 0.0016)")
    assert str(advise(THREE)) == (
        "Updates move the policy by a KL of 0.0004; 0.005 to 0.03 is usual. Multiply the learning rate by 4 "
        "(`--learning-rate 0.0012`), or use `--scheduler hindsight`."
    )


def test_where_a_kl_stop_ends_updates_its_limit_is_to_be_raised_instead_of_the_rate():
    table = columns(**SHORT)
    stopped = table | {"epochs_done": np.where(np.arange(len(table["epochs"])) % 4 == 0, 8.0, 2.5)}
    found = only(advise(stopped), "stop-short")
    assert (found.action, found.factor) == ("kl-limit", 1.5**2)  # the KL grows as the square of the rate
    (sentence, *_) = advise(stopped).sentences
    assert "A KL stop ends most updates early (3.9 of 8 epochs on average)." in sentence  # (8 + 3 · 2.5)/4 = 3.875
    assert "Multiply its limit by 2.2 (`--stopping target-kl`); a larger learning rate would only end" in sentence
    seldom = table | {"epochs_done": np.where(np.arange(len(table["epochs"])) % 4 == 0, 2.5, 8.0)}
    assert only(advise(seldom), "stop-short").action == "learning-rate"


def lagging(share: float, z: float, thirds: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Columns of a run whose critic should have gone so much further in some thirds of it."""
    table = columns()
    rows = len(table["epochs"])
    there = np.isin(np.arange(rows) * 3 // rows, thirds)
    noise = np.random.default_rng(0).standard_normal(rows)
    table["critic_slope"] = np.where(there, share, 0.1) + 0.1 * noise
    table["critic_slope_z"] = np.where(there, z, 0.0) + noise
    return table


def test_a_critic_that_lags():
    said = advise(lagging(3.0, 8.0, (0, 1, 2))).sentences[-1]
    assert said.startswith("The critic lags: its updates should be 4 times as long (mean slope z +")
    assert said.endswith("Divide rewards by their scale (`--normalize-rewards`), or use `--scheduler hindsight`.")
    assert only(advise(lagging(3.0, 8.0, (0, 1, 2)), rewards_scaled=True), "critic-lags").action == "hindsight"
    said = advise(lagging(3.0, 8.0, (0, 1))).sentences[-1]
    assert said.startswith("In the first and middle third of the run the critic lags")
    # Not by much, not surely, not known, or seen to by a controller.
    assert "critic" not in str(advise(lagging(0.8, 8.0, (0, 1, 2))))
    assert "critic" not in str(advise(lagging(3.0, 0.0, (0, 1, 2))))
    assert "critic" not in str(advise(columns()))
    controlled = lagging(3.0, 8.0, (0, 1, 2))
    assert "critic" not in str(advise(controlled | {"lr_scale": np.ones(len(controlled["epochs"]))}))


def test_nothing_is_recommended_where_a_controller_runs():
    for z, lengths in ((1.5, (0.5, 1.9)), (-1.5, (1.5, 0.1))):
        table = columns(z=z, lengths=lengths)
        assert "hindsight" in str(advise(table))
        controlled = advise(table | {"lr_scale": np.linspace(1, 2.5, len(table["epochs"]))})
        assert "hindsight" not in str(controlled)
        assert str(controlled).endswith("The controller's scale is 2.5 at the end.")
    waste = columns(**WASTE)
    assert ("idle-epochs", "epochs") in told(advise(waste))
    controlled = advise(waste | {"lr_scale": np.ones(len(waste["epochs"]))})
    assert {action for _, action in told(controlled)} == {"keep"}
    assert {each.factor for each in controlled.recommendations} == {1.0}


def test_epochs_that_gain_nothing_and_what_they_cost():
    gains = {1: 0.6, 2: 0.99, 4: 1.0, 8: 1.0}
    advice = advise(columns(gains=gains, noise=0.1), epoch_flops=1e9)
    assert advice.whole.enough == 2
    found = only(advice, "idle-epochs")
    assert (found.action, found.factor) == ("epochs", 0.5)
    assert found.numbers["new_epochs"] == 4  # half of them first
    assert only(advice, "fewer-epochs").factor == pytest.approx(2**0.7)
    text = advice.sentences[-2]
    # 120 updates of 2 s, six of eight epochs: 180 of 240 s, and 720 epochs of 1e9 FLOPs.
    assert "Epochs 3 to 8 add" in text
    assert "180 of 240 s of updates and 7.2e+11 FLOPs" in text
    assert "Use 4 epochs (`--epochs 4`), or `--scheduler hindsight --optimize-for compute`." in text


def test_either_column_of_epochs_is_enough():
    """A report hands over the epochs done alone, a loop of one's own perhaps the epochs planned."""
    table = columns(gains={1: 0.4, 2: 0.8, 4: 0.8, 8: 0.8})
    both = advise(table)
    assert "Use 4 epochs" in str(both)
    for column in ("epochs", "epochs_done"):
        assert advise(without(table, column)).sentences == both.sentences


def test_epochs_that_gain_all_the_way_and_an_update_that_was_interrupted():
    assert advise(columns(gains={1: 0.2, 2: 0.4, 4: 0.7, 8: 1.0})).whole.enough == 0
    table = columns(gains={1: 0.6, 2: 1.0, 4: 1.0, 8: 1.0}, noise=0.1)
    table["epochs_done"][10] = np.nan
    assert advise(table).whole.enough == 2


def test_epochs_that_lose_call_for_no_larger_learning_rate():
    advice = advise(columns(gains={1: 0.6, 2: 1.0, 4: 0.9, 8: 0.6}, noise=0.1))
    assert "Epochs 3 to 8 add -0." in advice.sentences[-1]
    assert advice.factor("epochs") == 2 / 8
    assert advice.factor("learning-rate") == 1


def test_the_epochs_are_those_of_the_update_that_was_judged():
    """A row judges the update of the row above it: here those of two epochs, whose second one adds nothing."""
    table = columns(every=1, gains={1: 1.0, 2: 1.0, 8: 1.0}, epochs=8, noise=0.0)
    made = np.where(np.arange(UPDATES) % 3 == 2, 8.0, 2.0)  # epochs of the row's own update, mostly 2
    judged = np.concatenate([[np.nan], made[:-1]])  # of the update that the row judges
    table["epochs_done"][:] = table["epochs"][:] = made
    table["gain/8"][judged != 8] = np.nan
    table["update_gain"] = np.where(judged == 8, 10.0, 1.0) * table["gain/1"]
    found = advise(table).whole
    assert (found.epochs, found.enough) == (2, 1)
    assert found.rest.value == 0  # the eight epochs, which gain ten times as much, are not among them


def blown_up(*kls: float) -> dict[str, np.ndarray]:
    """Columns of a run whose updates seem short, with the KLs of its three parts."""
    return columns(z=2.0, lengths=(0.5, 1.9)) | {"approx_kl_last_epoch": np.repeat(kls, 40)}


TURNS = np.where(np.arange(60) % 2, 1.0, -1.0)
PARTS = np.arange(60) // 20
LATE = "In the last third of the run updates overshoot"
STAGES = {
    "what one rate does not serve": (
        joined(columns(**SHORT), columns(**OVER, seed=1)), ("right", "short", "right", "over"), 1,
        [("stop-short", "keep"), ("right-length", "keep"), ("overshoot", "hindsight")],
        ["In the first third of the run updates stop short", "In the middle third of the run", LATE],
    ),
    # By their slope, then by their KL, then by what they lose.
    "all over": (
        {
            "slope_z": TURNS + np.choose(PARTS, [-2.0, 3.0, 0.0]),
            "update_gain": TURNS + np.choose(PARTS, [2.0, 2.0, -2.0]),
            "update_kl": np.choose(PARTS, [0.01, 8.0, 0.01]),
        },
        ("unknown", "over", "over", "over"), 0.5, [("overshoot", RATE)],
        ["In every third of the run updates overshoot"],
    ),
    # A solved task: updates stopped short once, and the whole run still says so on average.
    "short once": (
        joined(columns(z=2.0, lengths=(0.5, 1.9)), columns(**NOISE, seed=1)), ("short", "short", "short", "unknown"),
        1.5, [("stop-short", RATE)],
        # Two thirds of 60 + 60, judged together.
        ["In the first two thirds of the run updates stop short (mean slope z +1.48 ± 0.16 over 80 updates)"],
    ),
    # Earlier updates did not overshoot, although the whole run does on average.
    "over at last": (
        joined(
            columns(z=0.3, lengths=(0.5, 1.1)),
            columns(z=-4.0, lengths=(1.5, -2.0), gains={8: -1.0}, seed=1, updates=40),
        ),
        ("over", "right", "unknown", "over"), 0.5, [("right-length", "keep"), ("overshoot", RATE)],
        ["In the first third of the run updates are about as long", LATE],
    ),
    # The learning rate is too large although the first updates seem short: their KL is on its way up. The factor is not
    # 1/28, which a KL of 8 would ask for.
    "blown up late": (
        blown_up(0.02, 0.02, 8.0), ("unknown", "unknown", "unknown", "over"), 0.1, [("high-kl", RATE)],
        [f"{LATE}: they move the policy"],
    ),
    "blown up": (
        blown_up(0.02, 8.0, 8.0), ("over", "unknown", "over", "over"), 0.1, [("high-kl", RATE)],
        ["In the last two thirds of the run updates overshoot: they move the policy"],
    ),
    # Where the KL came down instead, the last third speaks for itself.
    "came down": (
        blown_up(8.0, 8.0, 0.02), ("over", "over", "over", "short"), 1,
        [("high-kl", "keep"), ("stop-short", "hindsight")],
        ["In the first two thirds of the run updates overshoot", "In the last third of the run updates stop short"],
    ),
    # Slopes of 2.4 and -0.2 in turn: t is 4.1 over 24 updates, and 2.2 in each third.
    "on average": (
        columns(every=1, updates=24, lengths=(0.5, 1.9)) | {"slope_z": np.where(np.arange(24) % 2, 2.4, -0.2)},
        ("short", "unknown", "unknown", "unknown"), 1, [("stop-short", "keep")],
        ["On average over the run updates stop short (mean slope z +1.10 ± 0.27"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("table", "directions", "factor", "findings", "said"), STAGES.values(), ids=STAGES)
def test_stages(table, directions, factor, findings, said):
    advice = advise(table)
    assert (advice.whole.direction, *(stage.direction for stage in advice.stages)) == directions
    assert advice.factor(RATE) == factor
    assert told(advice) == findings
    for sentence, start in zip(advice.sentences, said, strict=True):
        assert sentence.startswith(start)
    last = [direction for direction in directions if direction != "unknown"][-1]
    assert advice.headline.startswith({"short": "stop short", "over": "overshoot", "right": "about right"}[last])
    assert advice.sentences[0].endswith("No third of it alone shows this.") == (directions[1:] == ("unknown",) * 3)


def test_the_absence_of_a_gain_is_a_one_sided_test():
    """The last epochs' gain is 0 on average; its interval of 95 % on one side must end below 15 % of the first's."""
    table = columns(gains={4: 1.0, 8: 1.0}, updates=16, every=1, noise=0.0)
    table["update_gain"] = table["gain/4"].copy()
    judged = np.arange(1, 16)  # the first row judges no update
    gained = table["gain/4"][judged].mean()
    for errors, enough in ((0.9, 4), (1.1, 0)):  # of the largest standard error that may be
        spread = errors * 0.15 * gained / 1.645 * np.sqrt(15) * np.where(judged % 2, 1.0, -1.0)
        table["update_gain"][judged] = table["gain/4"][judged] + spread - spread.mean()
        assert advise(table).whole.enough == enough, errors


@pytest.mark.parametrize("updates", [24, 60])
def test_noise_says_nothing(updates):
    """z of pure noise and gains around 0: at most 5 % of 300 runs are told anything."""
    rng = np.random.default_rng(0)
    said = 0
    for _ in range(300):
        table = {
            name: rng.standard_normal(updates) for name in ("slope_z", "gain/1", "gain/2", "gain/4", "update_gain")
        }
        steps = {
            "gain/x0.5": 0.5 * table["update_gain"] + 0.3 * rng.standard_normal(updates),
            "gain/x2": 2 * table["update_gain"] + 0.6 * rng.standard_normal(updates),
        }
        advice = advise(table | steps | {"epochs_done": np.full(updates, 8.0)})
        said += advice.sentences != (f"{updates} judged updates show nothing clear.",)
    assert said <= 15


def test_too_few_updates():
    assert advise({}).sentences == ("No update was judged: too few to say anything.",)
    few = columns(updates=5, every=1)
    assert advise(few).sentences == ("Only 5 updates were judged: too few to say anything.",)
    empty = {name: np.full(30, np.nan) for name in few}
    assert advise(empty).sentences == ("No update was judged: too few to say anything.",)


def test_a_small_kl_says_nothing_of_the_critic_whose_steps_are_as_short():
    table = lagging(3.0, 8.0, (0, 1, 2))
    assert "critic-lags" in [each.finding for each in advise(table).recommendations]
    low = advise(table | with_kl(0.0004, **NOISE))
    assert told(low) == [("low-kl", "learning-rate")]


def test_no_rate_above_a_hundredth_is_recommended():
    table = with_kl(0.0004, **NOISE)
    rows = len(table["epochs"])
    advice = advise(table | {"learning_rate": np.full(rows, 0.005)})
    assert advice.factor("learning-rate") == 2
    assert only(advice, "low-kl").numbers["learning_rate"] == 0.01
    assert advise(table | {"learning_rate": np.full(rows, 0.02)}).factor("learning-rate") == 1


def test_the_end_of_a_schedule_is_left_out():
    """The rate falls to 0 over 120 rows: the last 40 have less than a third of it, and a KL to match."""
    decay = 1 - np.arange(120) / 120
    kl = 0.012 * decay**2
    table = columns(**NOISE) | {"approx_kl_last_epoch": kl, "learning_rate": 3e-4 * decay}
    kept = kl[:81]
    advice = advise(table)
    assert advice.whole.kl == np.median(kept)
    assert advice.stages[2].kl == np.median(kept[54:])
    assert told(advice) == [("nothing-clear", "keep")]
    # A warm-up is no end, and a controller's scale is no schedule.
    warm = advise(table | {"approx_kl_last_epoch": kl[::-1], "learning_rate": 3e-4 * decay[::-1]})
    assert warm.whole.kl == np.median(kl)
    scale = np.linspace(1, 0.1, 120)
    controlled = {"learning_rate": 3e-4 * scale, "lr_scale": scale, "approx_kl_last_epoch": kl}
    assert advise(columns() | controlled).whole.kl == np.median(kl)


def test_a_critic_that_explains_nothing():
    table = columns(**NOISE)
    rows = len(table["epochs"])
    advice = advise(table | {"explained_variance": np.full(rows, 0.04)})
    assert told(advice) == [("unexplained-returns", "scale-rewards")]
    assert str(advice).startswith("The critic explains nothing of the returns (median explained variance 0.04)")
    # Returns that hardly vary, before any reward or on a solved task, call for nothing.
    assert told(advise(table | {"explained_variance": np.full(rows, -4.0)})) == [("unexplained-returns", "keep")]
    assert told(advise({"explained_variance": [0.0] * 7})) == [("few-updates", "keep")]
    learned = np.where(np.arange(rows) < rows // 3, 0.0, 0.5)
    assert told(advise(table | {"explained_variance": learned})) == [("nothing-clear", "keep")]
    # A larger learning rate comes first: it is the critic's, too.
    both = advise(with_kl(0.0004, **NOISE) | {"explained_variance": np.full(rows, 0.04)})
    assert told(both) == [("low-kl", "learning-rate"), ("unexplained-returns", "keep")]


def collapsing(end: float = 20.0, jump: float = 0.9) -> dict[str, np.ndarray]:
    """A return that rises from 10 to 100 in 30 iterations, a KL that jumps in the 31st, and the return after it."""
    score = np.concatenate([np.linspace(10, 100, 31), np.linspace(100, end, 10)[1:], np.full(20, end)])
    kl = np.full(60, 0.01)
    kl[30] = jump
    return {"score": score, "approx_kl_last_epoch": kl, "iteration": np.arange(1.0, 61)}


def test_a_return_that_collapsed_after_a_jump_of_the_kl():
    advice = advise(collapsing())
    assert told(advice) == [("collapse", "learning-rate")]
    assert advice.factor("learning-rate") == pytest.approx(math.sqrt(0.01 / math.sqrt(0.01 * 0.9)))  # between the two
    assert str(advice).startswith(
        "The return collapsed from 100 to 20 after the KL jumped to 0.9 in iteration 31 (median before: 0.01)."
    )
    # Seen from the rollout after it, the KL is in the next row; without a column of iterations, rows count from 1.
    table = collapsing()
    seen = {"score": table["score"], "update_kl": np.concatenate([[np.nan], table["approx_kl_last_epoch"][:-1]])}
    assert only(advise(seen), "collapse").numbers["iteration"] == 31
    # Not lost for good, no jump of the KL, or nothing that was won before.
    assert ("collapse", "learning-rate") not in told(advise(collapsing(end=60.0)))
    assert ("collapse", "learning-rate") not in told(advise(collapsing(jump=0.04)))
    noise = np.random.default_rng(0).normal(size=60)
    assert ("collapse", "learning-rate") not in told(advise(collapsing() | {"score": noise}))


def test_advice_is_data():
    advice = advise(with_kl([0.02, 0.02, 0.2], z=1.5, lengths=(0.5, 1.9)))
    text = json.dumps([dataclasses.asdict(each) for each in advice.recommendations], allow_nan=False)
    assert json.loads(text)[0]["stage"] == "last third"
    with pytest.raises(dataclasses.FrozenInstanceError):
        advice.host = "sb3"


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_is_told_its_own_options(host):
    """The same data in the words of each host; no option of another one."""
    table = columns(z=2.0, lengths=(0.5, 1.9), **WASTE)
    advice = advise(table | {"learning_rate": np.full(len(table["epochs"]), 1e-3)}, host=host)
    said, words = str(advice), HOSTS[host]
    assert f"or use `{words.hindsight}`." in said
    assert f"or `{words.hindsight_compute}`." in said
    options = {name: (each.learning_rate, each.epochs) for name, each in HOSTS.items()}
    rate, epochs = options[host]
    assert not rate or f"(`{rate.format('0.00244')}`)" in said  # 0.001 · 1.5 · 2^0.7
    assert not epochs or f"(`{epochs.format(4)}`)" in said
    assert host == "trainer" or "--" not in said


def test_hosts_that_are_unknown_or_of_language_models():
    with pytest.raises(ValueError, match="sb3"):
        advise({}, host="sb33")
    assert told(advise(with_kl(0.0004, **NOISE), host="trl")) == [("nothing-clear", "keep")]
    assert told(advise(with_kl(0.3, **NOISE), host="trl")) == [("high-kl", RATE)]


def test_a_run_whose_schedule_leaves_no_explained_variance_is_told_nothing_of_it():
    """Only the first row is before the end of the schedule, and it has no explained variance."""
    rates, explained = [1e-3, *[1e-9] * 20], [math.nan, *[0.0] * 20]
    found = advise({"learning_rate": rates, "explained_variance": explained, "slope_z": [math.nan] * 21})
    assert "unexplained-returns" not in [each.finding for each in found.recommendations]


def test_a_policy_that_one_update_saturated():
    kl = np.array([0.02, 6.4, *[1e-9] * 20])
    advice = advise({"approx_kl_last_epoch": kl, "learning_rate": np.full(22, 0.03)})
    assert told(advice) == [("collapse", "learning-rate")]
    assert only(advice, "collapse").factor == pytest.approx(1 / 10), "√(0.01/6.4) = 1/25, but at most ÷ 10"
    assert str(advice).startswith(
        "The policy hardly moves (median KL 1e-09) since the KL jumped to 6.4 in iteration 2: it is saturated. "
        "Multiply the learning rate by 1/10 (`--learning-rate 0.003`)"
    )
    assert only(advise({"approx_kl_last_epoch": [np.inf, *[0.0] * 9]}), "collapse").factor == pytest.approx(1 / 10)
    assert told(advise({"approx_kl_last_epoch": np.full(22, 1e-9)})) == [("low-kl", "learning-rate")], "never moved"
    assert "collapse" not in dict(told(advise({"approx_kl_last_epoch": np.where(kl > 1, 0.9, kl)}))), (
        "0.9 is no jump that saturates"
    )
    assert "collapse" not in dict(told(advise({"approx_kl_last_epoch": np.where(kl < 1e-6, 0.01, kl)}))), (
        "it moves as usual"
    )
    assert "collapse" not in dict(told(advise({"approx_kl_last_epoch": kl[:6]}))), "too few updates since"
