"""Configurations: ids that last, spellings of before, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from adept.config import Config

DOOR = Config(env="minigrid/DoorKey-6x6")


def test_equal_configurations_have_one_id_and_come_back_from_their_text() -> None:
    configs = [
        DOOR,
        replace(DOOR, epochs=3),
        replace(DOOR, stopping={"target-kl": 0.02}),
        Config(env="procgen/bigfish", algo="drac", augmentation_scheduler="ucb"),
        Config(env="procgen/bigfish", algo="drac", augmentation="flip", scheduler="thompson"),
    ]
    assert len({config.id for config in configs}) == len(configs)
    for config in configs:
        again = Config.from_dict(json.loads(config.to_json()))
        assert (again, again.id) == (config, config.id)


def test_bandits_have_arms_and_the_others_epochs() -> None:
    bandit, fixed = Config(env="a/b", scheduler="ucb"), Config(env="a/b", scheduler="fixed", epochs=3)
    assert (bandit.arms, bandit.epochs, bandit.choices) == ((4, 2, 1), 0, (4, 2, 1))
    assert (fixed.arms, fixed.epochs, fixed.choices) == ((), 3, (3,))
    assert Config(env="a/b", scheduler="hindsight").epochs == 4
    assert replace(bandit, scheduler="fixed", epochs=3) == fixed
    with pytest.raises(
        ValueError, match=r"arms \(3,\) are for a bandit, scheduler 'fixed' takes one number; give epochs"
    ):
        Config(env="a/b", scheduler="fixed", arms=(3,))
    with pytest.raises(ValueError, match=r"epochs 3 has no use with scheduler 'ucb', which chooses among arms"):
        Config(env="a/b", scheduler="ucb", epochs=3)


def test_former_names_mean_the_same() -> None:
    old = {
        "env": "a/b",
        "scheduler": "hindsight",
        "arms": [10],
        "scheduler_options": {"dear": "compute"},
        "watch": False,
    }
    config = Config.from_dict(old)
    assert (config.epochs, config.arms, config.monitor) == (10, (), False)
    assert config.scheduler_options == {"optimize_for": "compute"}


@pytest.mark.parametrize(("name", "knobs"), [("ucb", {"exploration": 2.0}), ("thompson", {})])
def test_the_former_option_scale_is_the_scheduler_that_standardises(name: str, knobs: dict[str, float]) -> None:
    old = {"env": "a/b", "scheduler": name, "arms": [4, 2], "scheduler_options": {**knobs, "scale": "auto"}}
    config = Config.from_dict(old)
    assert (config.scheduler, config.scheduler_options) == (f"standardized-{name}", knobs)
    assert Config.from_dict(config.to_dict()) == config
    second = Config.from_dict({
        "env": "procgen/bigfish", "algo": "drac", "augmentation_scheduler": name,
        "augmentation_scheduler_options": {**knobs, "scale": "auto"},
    })  # fmt: skip
    assert (second.augmentation_scheduler, second.augmentation_scheduler_options) == (f"standardized-{name}", knobs)


def test_older_spellings_mean_the_same() -> None:
    old = {"env": "procgen/bigfish", "algo": "drac", "target_kl": 0.02, "augmentation": "ucb"}
    config = Config.from_dict(old)
    assert config.stopping == {"target-kl": 0.02}
    assert config.augmentation_scheduler == "ucb"
    assert Config.from_dict({**old, "target_kl": None}).stopping == {}


def test_new_fields_are_part_of_the_id_where_they_are_set() -> None:
    changed = [
        replace(DOOR, stopping={"ratio-deviation": 0.25}),
        replace(DOOR, stopping={"held-out": 0.125, "target-kl": 0.02}),
        replace(DOOR, augmentation_scheduler="ucb"),
        replace(DOOR, augmentation_scheduler="ucb", augmentation_scheduler_options={"window": 20}),
    ]
    assert len({config.id for config in (DOOR, *changed)}) == 5
    for config in changed:
        assert Config.from_dict(json.loads(config.to_json())) == config


def test_an_augmentation_that_a_scheduler_chooses_is_not_part_of_the_configuration() -> None:
    one, other = (replace(DOOR, augmentation=name, augmentation_scheduler="ucb") for name in ("flip", "rotate"))
    assert one == other


def test_choices_without_a_chooser_and_unknown_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="have no scheduler to set; name an augmentation_scheduler"):
        replace(DOOR, augmentation_scheduler_options={"window": 20})
    with pytest.raises(ValueError, match="did you mean 'hindsight'"):
        replace(DOOR, scheduler="hindsigth")
    with pytest.raises(ValueError, match="did you mean 'drac'"):
        replace(DOOR, algo="darc")
    with pytest.raises(ValueError, match="option of rule 'kl-rate'"):
        replace(DOOR, scheduler="kl-rate", epochs=4, scheduler_options={"exploration": 1.0})
