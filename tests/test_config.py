"""Configurations: ids that last, spellings of before, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from adept.config import Config

DOOR = Config(env="minigrid/DoorKey-6x6")


def test_equal_configurations_have_one_id_and_come_back_from_their_text() -> None:
    bandit = replace(DOOR, augmentation_scheduler="ucb")
    configs = [
        DOOR,
        replace(DOOR, epochs=3),
        replace(DOOR, stopping={"target-kl": 0.02}),
        replace(DOOR, stopping={"ratio-deviation": 0.25}),
        replace(DOOR, stopping={"held-out": 0.125, "target-kl": 0.02}),
        bandit,
        replace(bandit, augmentation_scheduler_options={"window": 20}),
        Config(env="procgen/bigfish", algo="drac", augmentation_scheduler="ucb"),
        Config(env="procgen/bigfish", algo="drac", augmentation="flip", scheduler="thompson"),
    ]
    assert len({config.id for config in configs}) == len(configs)
    for config in configs:
        again = Config.from_dict(json.loads(config.to_json()))
        assert (again, again.id) == (config, config.id)
    # An augmentation that a scheduler chooses is not part of the configuration.
    assert replace(bandit, augmentation="flip") == replace(bandit, augmentation="rotate")


def test_bandits_have_arms_and_the_others_epochs() -> None:
    bandit, fixed = Config(env="a/b", scheduler="ucb"), Config(env="a/b", scheduler="fixed", epochs=3)
    assert (bandit.arms, bandit.epochs, bandit.choices) == ((4, 2, 1), 0, (4, 2, 1))
    assert (fixed.arms, fixed.epochs, fixed.choices) == ((), 3, (3,))
    assert Config(env="a/b", scheduler="hindsight").epochs == 4
    assert replace(bandit, scheduler="fixed", epochs=3) == fixed


DRAC = {"env": "procgen/bigfish", "algo": "drac"}
FORMER = [
    (
        {"scheduler": "hindsight", "arms": [10], "scheduler_options": {"dear": "compute"}, "watch": False},
        {"epochs": 10, "arms": (), "scheduler_options": {"optimize_for": "compute"}, "monitor": False},
    ),
    (
        {**DRAC, "target_kl": 0.02, "augmentation": "ucb"},
        {"stopping": {"target-kl": 0.02}, "augmentation_scheduler": "ucb"},
    ),
    ({**DRAC, "target_kl": None, "augmentation": "ucb"}, {"stopping": {}}),
]
for NAME, KNOBS in (("ucb", {"exploration": 2.0}), ("thompson", {})):  # the option scale is the other scheduler now
    for BANDIT, OLD in (("scheduler", {"arms": [4, 2]}), ("augmentation_scheduler", DRAC)):
        FORMER.append((
            {**OLD, BANDIT: NAME, f"{BANDIT}_options": {**KNOBS, "scale": "auto"}},
            {BANDIT: f"standardized-{NAME}", f"{BANDIT}_options": KNOBS},
        ))  # fmt: skip


@pytest.mark.parametrize(("old", "expected"), FORMER)
def test_former_spellings_mean_the_same(old: dict[str, Any], expected: dict[str, Any]) -> None:
    config = Config.from_dict({"env": "a/b", **old})
    assert {name: getattr(config, name) for name in expected} == expected
    assert Config.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"augmentation_scheduler_options": {"window": 20}}, "have no scheduler to set; name an augmentation_"),
        ({"scheduler": "hindsigth"}, "did you mean 'hindsight'"),
        ({"algo": "darc"}, "did you mean 'drac'"),
        ({"scheduler": "kl-rate", "epochs": 4, "scheduler_options": {"exploration": 1.0}}, "option of rule 'kl-rate'"),
        ({"epochs": 5000}, "epochs must be at most 1,000, got 5000"),
        ({"scheduler": "ucb", "epochs": 0, "arms": (5000, 1)}, r"arms must be at most 1,000 epochs each, got \(5000,"),
        ({"scheduler": "ucb", "arms": (), "epochs": 3},
         "epochs 3 has no use with scheduler 'ucb', which chooses among arms"),
        ({"epochs": 0, "arms": (3,)},
         r"arms \(3,\) are for a bandit, scheduler 'fixed' takes one number; give epochs"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(DOOR, **values)
