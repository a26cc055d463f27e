"""Advice from columns whose truth is known: each case is what a run of that kind writes."""

from __future__ import annotations

import numpy as np
import pytest

from adept.hindsight.advice import advise

UPDATES = 60


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


def test_updates_that_stop_short():
    advice = advise(columns(z=1.5, lengths=(0.5, 1.9)))
    assert advice.whole.direction == "short"
    assert [stage.direction for stage in advice.stages] == ["short"] * 3
    (sentence,) = advice.sentences
    assert sentence.startswith("Updates stop short (mean slope z +1.")
    assert "larger learning rate" in sentence
    assert advice.headline.startswith("stop short (slope z +1.")


def test_where_a_kl_stop_ends_updates_its_limit_is_to_be_raised_instead_of_the_rate():
    table = columns(z=1.5, lengths=(0.5, 1.9))
    stopped = table | {"epochs_done": np.where(np.arange(len(table["epochs"])) % 4 == 0, 8.0, 2.5)}
    (sentence, *_) = advise(stopped).sentences
    assert sentence.startswith("Updates stop short")
    assert "A KL stop ends most updates early (3.9 of 8 epochs on average)." in sentence  # (8 + 3 · 2.5)/4 = 3.875
    assert sentence.endswith("Try a larger KL limit; a larger learning rate would only end updates sooner.")
    seldom = table | {"epochs_done": np.where(np.arange(len(table["epochs"])) % 4 == 0, 2.5, 8.0)}
    assert "Try a larger learning rate" in advise(seldom).sentences[0]


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
    assert said.endswith("or `--scheduler hindsight`.")
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
    waste = columns(gains={1: 0.9, 2: 1.0, 4: 1.0, 8: 1.0}, noise=0.05)
    assert "Try" in str(advise(waste))
    assert "Try" not in str(advise(waste | {"lr_scale": np.ones(len(waste["epochs"]))}))


def test_a_slope_alone_speaks_of_no_gain():
    table = columns(z=1.5)
    advice = advise({name: table[name] for name in ("slope_z", "epochs", "epochs_done")})
    assert advice.whole.direction == "short"
    assert "nan" not in str(advice)


def test_a_slope_that_is_not_gain_a_longer_step():
    advice = advise(columns(z=1.5, lengths=(0.5, 1.1)))
    assert advice.whole.direction == "right"
    assert "about as long as they should be" in advice.sentences[0]


def test_updates_that_overshoot():
    advice = advise(columns(z=-1.5, lengths=(1.2, -2.0)))
    assert advice.whole.direction == "over"
    assert "smaller learning rate" in advice.sentences[0]
    assert "half the step would add 0." in advice.sentences[0]


def test_updates_that_go_so_far_that_gains_say_little():
    """A run that blew up: its slopes may point anywhere, its KL does not."""
    table = columns(z=1.5, lengths=(0.5, 1.9))
    table["approx_kl_last_epoch"] = np.full(len(table["slope_z"]), 0.3)
    advice = advise(table)
    assert advice.whole.direction == "over"
    assert "larger learning rate" not in str(advice)
    assert "overshoot (median KL 0.3, mean slope z" in advice.sentences[0]
    table["approx_kl_last_epoch"][:] = 0.04
    assert advise(table).whole.direction == "short"
    # A loop of one's own has the KL with the verdict, in the same row; one huge update does not speak for all.
    table["update_kl"] = np.where(np.arange(len(table["slope_z"])) == 1, np.inf, 0.04)
    assert advise(table).whole.direction == "short"
    table["update_kl"][:] = np.inf
    assert advise(table).whole.direction == "over"


def test_updates_that_lose():
    advice = advise(columns(z=-0.2, gains={1: 0.2, 2: -0.2, 4: -0.8, 8: -1.5}, lengths=(0.2, 3.0)))
    assert advice.whole.direction == "over"


def test_epochs_that_gain_nothing_and_what_they_cost():
    gains = {1: 0.6, 2: 0.99, 4: 1.0, 8: 1.0}
    advice = advise(columns(gains=gains, noise=0.1), epoch_flops=1e9)
    assert advice.whole.enough == 2
    text = advice.sentences[-1]
    # 120 updates of 2 s, six of eight epochs: 180 of 240 s, and 720 epochs of 1e9 FLOPs.
    assert "Epochs 3 to 8 add" in text
    assert "180 of 240 s of updates and 7.2e+11 FLOPs" in text
    assert "Try 4 epochs with the learning rate × 2," in text  # half of them first


def test_either_column_of_epochs_is_enough():
    """A report hands over the epochs done alone, a loop of one's own perhaps the epochs planned."""
    table = columns(gains={1: 0.4, 2: 0.8, 4: 0.8, 8: 0.8})
    both = advise(table)
    assert "Try 4 epochs" in str(both)
    for column in ("epochs", "epochs_done"):
        assert advise({name: values for name, values in table.items() if name != column}).sentences == both.sentences


def test_epochs_that_lose_call_for_no_larger_learning_rate():
    text = advise(columns(gains={1: 0.6, 2: 1.0, 4: 0.9, 8: 0.6}, noise=0.1)).sentences[-1]
    assert "Epochs 3 to 8 add -0." in text
    assert "Try 2 epochs, or" in text


def test_epochs_that_gain_all_the_way():
    assert advise(columns(gains={1: 0.2, 2: 0.4, 4: 0.7, 8: 1.0})).whole.enough == 0


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


def test_an_update_that_was_interrupted_silences_nothing():
    table = columns(gains={1: 0.6, 2: 1.0, 4: 1.0, 8: 1.0}, noise=0.1)
    table["epochs_done"][10] = np.nan
    assert advise(table).whole.enough == 2


def test_every_third_may_say_what_the_whole_run_does_not():
    """Updates that overshoot by their slope, then by their KL, then by what they lose."""
    rows = np.arange(60)
    noise = np.where(rows % 2, 1.0, -1.0)
    table = {
        "slope_z": noise + np.select([rows < 20, rows < 40], [-2.0, 3.0], 0.0),
        "update_gain": noise + np.where(rows < 40, 2.0, -2.0),
        "update_kl": np.where((rows >= 20) & (rows < 40), 8.0, 0.01),
    }
    advice = advise(table)
    assert [stage.direction for stage in advice.stages] == ["over"] * 3
    assert advice.whole.direction == "unknown"
    assert advice.sentences[0].startswith("In every third of the run updates overshoot")


def test_stages_that_differ_are_told_apart():
    early, late = columns(z=1.5, lengths=(0.5, 1.9)), columns(z=-1.5, lengths=(1.2, -2.0), seed=1)
    table = {name: np.concatenate([early[name], late[name]]) for name in early}
    advice = advise(table)
    assert advice.stages[0].direction == "short"
    assert advice.stages[2].direction == "over"
    assert any(sentence.startswith("In the first third of the run updates stop short") for sentence in advice.sentences)
    assert any(sentence.startswith("In the last third of the run updates overshoot") for sentence in advice.sentences)


def test_what_is_over_at_the_end_is_said_of_its_third_alone():
    """Updates of a task that is solved stopped short once; the whole run still says so on average."""
    early, late = columns(z=2.0, lengths=(0.5, 1.9)), columns(z=0.0, lengths=(0.5, 1.0), gains={8: 1e-9}, seed=1)
    names = early.keys() & late.keys()
    advice = advise({name: np.concatenate([early[name], late[name]]) for name in names})
    assert advice.whole.direction == "short"
    assert advice.stages[2].direction == "unknown"
    assert [stage.direction for stage in advice.stages[:2]] == ["short", "short"]
    assert advice.sentences[0].startswith("In the first two thirds of the run updates stop short")
    assert " over 80 updates)" in advice.sentences[0]  # two thirds of 60 + 60, judged together
    assert "stop short" not in " ".join(advice.sentences[1:])


def test_a_run_that_blows_up_late_is_not_told_to_lengthen_its_updates():
    """Two thirds that seem short, and a last one with a KL of 8: the whole run's median KL is small."""
    table = columns(z=2.0, lengths=(0.5, 1.9))
    rows = len(table["slope_z"])
    for end in (0.55, 0.67):
        table["approx_kl_last_epoch"] = np.where(np.arange(rows) < end * rows, 0.02, 8.0)
        advice = advise(table)
        assert advice.whole.direction != "short"
        assert "larger learning rate" not in str(advice)
        assert advice.sentences[0].startswith("In the last third of the run updates overshoot (median KL 8,")
        assert advice.headline.startswith("overshoot")


def test_overshooting_at_the_end_is_said_of_the_end_alone():
    """A solved task: earlier updates did not overshoot, although the whole run does on average."""
    early, late = (
        columns(z=0.3, lengths=(0.5, 1.1)),
        columns(z=-4.0, lengths=(1.5, -2.0), gains={8: -1.0}, seed=1, updates=40),
    )
    names = early.keys() & late.keys()
    advice = advise({name: np.concatenate([early[name], late[name]]) for name in names})
    assert advice.whole.direction == "over"
    assert advice.stages[0].direction != "over"
    assert not any(sentence.startswith("Updates overshoot") for sentence in advice.sentences)
    assert any("last" in sentence and "overshoot" in sentence for sentence in advice.sentences)


def test_what_only_the_whole_run_shows_is_said_without_a_recommendation():
    """Slopes of 2.4 and -0.2 in turn: t is 4.1 over 24 updates, and 2.2 in each third."""
    table = columns(every=1, updates=24, lengths=(0.5, 1.9))
    table["slope_z"] = np.where(np.arange(24) % 2, 2.4, -0.2)
    advice = advise(table)
    assert advice.whole.direction == "short"
    assert {stage.direction for stage in advice.stages} == {"unknown"}
    assert advice.sentences[0].startswith("On average over the run updates stop short (mean slope z +1.10 ± 0.27")
    assert advice.sentences[0].endswith("No third of it alone shows this.")
    assert "Try" not in advice.sentences[0]


def test_one_recommendation_of_a_rate():
    """Updates that stop short and epochs that add nothing: the learning rate is spoken of once."""
    text = str(advise(columns(z=2.0, lengths=(0.5, 1.9), gains={1: 0.9, 2: 1.0, 4: 1.0, 8: 1.0}, noise=0.05)))
    assert text.count("learning rate") == 1
    assert "Try 4 epochs as well, or" in text


def test_thirds_that_stop_short_before_the_run_blows_up_are_not_to_be_lengthened():
    """The learning rate is too large although the first updates seem short: their KL is on its way up."""
    table = columns(z=2.0, lengths=(0.5, 1.9))
    rows = len(table["slope_z"])
    table["approx_kl_last_epoch"] = np.where(np.arange(rows) < rows // 3, 0.04, 8.0)
    advice = advise(table)
    assert [stage.direction for stage in advice.stages] == ["unknown", "over", "over"]
    assert "stop short" not in str(advice)
    # Where the KL came down instead, the last third speaks for itself.
    table["approx_kl_last_epoch"] = table["approx_kl_last_epoch"][::-1].copy()
    assert [stage.direction for stage in advise(table).stages] == ["over", "over", "short"]


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
        said += advice.sentences != (f"{updates} judged updates say nothing clear.",)
    assert said <= 15


def test_too_few_updates():
    assert advise({}).sentences == ("No update was judged: too few to say anything.",)
    few = columns(updates=5, every=1)
    assert advise(few).sentences == ("Only 5 updates were judged: too few to say anything.",)
    empty = {name: np.full(30, np.nan) for name in few}
    assert advise(empty).sentences == ("No update was judged: too few to say anything.",)


def test_columns_may_be_missing():
    slope = {"slope_z": np.full(30, 2.0) + np.random.default_rng(0).standard_normal(30)}
    assert advise(slope).whole.direction == "short"
    plain = columns(z=1.5, lengths=(0.5, 1.9))
    del plain["update_seconds"]
    assert advise(plain).whole.direction == "short"
