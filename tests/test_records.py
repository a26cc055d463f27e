"""The schema of records: every column of a run is in it, and docs, packing and old records follow it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from adept.config import Config
from adept.presets import preset
from adept.records import COLUMNS, column, current_name, markdown, tag_of
from adept.runs.records import Columns
from adept.runs.tracking import scalars
from adept.studies.packing import rounded
from adept.training import train

DOCS = Path(__file__).parent.parent / "docs"
CARTPOLE = "gymnasium/CartPole-v1"


@pytest.mark.parametrize(
    "config",
    [
        preset(CARTPOLE, scheduler="ucb"),
        preset(CARTPOLE, scheduler="thompson"),
        preset(CARTPOLE, scheduler="hindsight"),
        preset(CARTPOLE, scheduler="kl-rate"),
        replace(preset(CARTPOLE, scheduler="fixed"), stopping={"ratio-deviation": 0.25}),
    ],
    ids=lambda config: config.scheduler,
)
def test_every_number_of_the_trainer_is_in_the_table(config: Config) -> None:
    names = [each.name for each in COLUMNS]
    for record in islice(train(replace(config, epochs=2 if config.epochs else 0, steps=2048)), 2):
        assert [name for name in record if column(name).name not in names] == []


def test_a_family_covers_its_members_and_the_first_that_fits_counts() -> None:
    assert column("gain/4").name == "gain/{epoch}"
    assert column("gain/x1.5").name == "gain/x{length}"
    assert column("arm_value/10").name == "arm_value/{arm}"
    assert column("arm_estimate/10").name == "arm_{number}"
    assert column("augmentation").name == "augmentation"
    assert column("augmentation_score/crop").name == "augmentation_{number}"


def test_tags_are_those_that_dashboards_expect() -> None:
    wanted = {
        "episode_return": "charts/episodic_return", "clip_fraction": "losses/clipfrac", "slope_z": "adept/slope_z",
        "arm_choices/4": "adept/arm_choices/4", "gain/16": "adept/gain/16", "gain/x0.5": "adept/gain/x0.5",
        "rule_distance": "adept/rule_distance", "seconds": "", "my_loss": "adept/my_loss",
    }  # fmt: skip
    assert {name: tag_of(name) for name in wanted} == wanted
    tags = [each.tag for each in COLUMNS if each.tag]
    assert len(set(tags)) == len(tags)


def test_trackers_get_the_finite_numbers_under_their_tags() -> None:
    record = {"step": 300, "seconds": 4.0, "slope_z": 1.5, "lr_scale": 2.0, "update_gain": float("nan"), "gain/2": 0.25}
    assert dict(scalars(record, 2.0, 100.0)) == {
        "charts/SPS": 100.0, "adept/slope_z": 1.5, "adept/lr_scale": 2.0, "adept/gain/2": 0.25
    }  # fmt: skip


def test_packing_keeps_the_digits_of_the_table() -> None:
    third = np.array([1 / 3])
    kept = rounded(Columns({"flops": third, "score": third, "entropy": third, "my_loss": third}, "here"))
    assert kept["flops"][0] == 1 / 3
    assert kept["score"][0] == np.float32(1 / 3)
    for name in ("entropy", "my_loss"):
        assert kept[name][0] != np.float32(1 / 3)
        assert kept[name][0] == pytest.approx(1 / 3, rel=2**-12)


def test_old_names_are_translated_once_at_loading() -> None:
    old = {"stride": "lr_scale", "critic_stride": "critic_lr_scale", "update_worth": "update_gain",
           "watch_seconds": "monitor_seconds", "controller_distance": "rule_distance"}  # fmt: skip
    assert {name: current_name(name) for name in old} == old
    assert list(Columns({"stride": np.ones(1), "step": np.ones(1)}, "here")) == ["lr_scale", "step"]


def test_the_docs_list_the_table() -> None:
    page = (DOCS / "training.md").read_text(encoding="utf-8")
    block = page.partition("<!-- columns -->\n\n")[2].partition("\n<!-- end of columns -->")[0]
    assert block == markdown(), "run `python -m adept.records` and put what it prints into docs/training.md"


def test_the_docs_of_the_integrations_name_tags_of_the_table() -> None:
    page = (DOCS / "integrations.md").read_text(encoding="utf-8")
    for tag in ("adept/slope_z", "adept/update_gain", "adept/lr_scale", "adept/critic_lr_scale", "adept/rule_distance"):
        assert f"`{tag}`" in page
        assert tag in {each.tag for each in COLUMNS}
