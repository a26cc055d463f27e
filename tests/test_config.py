"""Configurations: ids that last, spellings of before, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from adept.config import Config

DOOR = Config(env="minigrid/DoorKey-6x6")


@pytest.mark.parametrize(
    ("config", "known"),
    [
        # As the first release wrote them: the names of run folders, and what studies find their runs by.
        (DOOR, "942dbbef3e"),
        (replace(DOOR, stopping={"target-kl": 0.02}, scheduler="fixed", arms=(4,)), "4f6c8e1b72"),
        (Config(env="procgen/bigfish", algo="drac", augmentation_scheduler="ucb"), "b0d4a6060f"),
        (
            Config(
                env="procgen/bigfish", algo="drac", augmentation="flip", scheduler="thompson",
                scheduler_options={"window": 50},
            ),
            "c2a950e131",
        ),
    ],
)  # fmt: skip
def test_ids_of_older_configurations_do_not_change(config: Config, known: str) -> None:
    assert config.id == known
    assert Config.from_dict(json.loads(config.to_json())) == config


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
    assert "stopping" not in DOOR.to_dict()
    assert changed[1].to_dict()["stopping"] == {"held-out": 0.125}
    assert changed[1].to_dict()["target_kl"] == 0.02


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
    with pytest.raises(ValueError, match="option of controller 'kl-rate'"):
        replace(DOOR, scheduler="kl-rate", scheduler_options={"exploration": 1.0})
