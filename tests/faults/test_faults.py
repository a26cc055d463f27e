"""The campaign in short; `make faults` is the whole of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adept.report.loading import load_comparison
from adept.runs.checkpoints import load_checkpoint, save_checkpoint
from adept.runs.records import read_config
from tests.faults import files, kills, lines
from tests.faults.campaign import EVIL, Campaign, Fault, command, hang_limit, require_nothing_left


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    before, folder = Path.cwd(), tmp_path_factory.mktemp("faults")
    os.chdir(folder)  # where the module lies that no file may have imported
    yield Campaign(folder, seed=16)
    os.chdir(before)


@pytest.fixture(scope="module")
def study(campaign: Campaign) -> Path:
    return files.make_study(campaign.folder / "study")


def test_words_exchanged_at_random(campaign: Campaign) -> None:
    lines.mistakes(campaign, 10)


def test_mutated_files_of_a_study(campaign: Campaign, study: Path) -> None:
    before = campaign.cases
    files.readers(campaign, study, 40)
    files.declared(campaign, study, 25)
    files.packed(campaign, study, 20)
    assert campaign.cases - before == 85


def test_mutated_files_of_a_run_that_goes_on(campaign: Campaign) -> None:
    files.resumed(campaign, 25)


def test_mutated_logs_and_policies(campaign: Campaign) -> None:
    files.events(campaign, 20)
    files.played(campaign, 4)


def test_runs_continue_after_a_failure_of_the_environment(campaign: Campaign) -> None:
    kills.resume_after_failure(campaign)


@pytest.mark.parametrize("name", ["hindsight", "pybullet"])
def test_killed_runs_equal_the_uninterrupted_one(campaign: Campaign, name: str) -> None:
    if name not in kills.families():
        pytest.skip(f"the environments of {name} are not installed")
    before = campaign.cases
    kills.kill_family(campaign, name, kills.families()[name], 3)
    assert campaign.cases > before


def test_looking_while_runs_start(campaign: Campaign, study: Path) -> None:
    kills.look_while_starting(campaign, study, 2)


def test_no_command_imports_what_only_a_file_names(campaign: Campaign, study: Path) -> None:
    """A scheduler and an environment of a stranger's: read, listed, packed; run only with --trust, which imports."""
    folder, evil = campaign.folder / "stranger", f"{EVIL}:Thing"
    shutil.copytree(study, folder)
    text = files.STUDY.replace('scheduler = "round-robin"', f'scheduler = "{evil}"')
    (folder / "study.toml").write_text(text)
    path = next((folder / "runs").glob("*/round-robin/*"))
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "scheduler": evil}))
    saved = load_checkpoint(path)
    assert saved is not None
    save_checkpoint(path, read_config(path), *saved)  # as the stranger's own run would have
    elsewhere = campaign.folder / "elsewhere"
    shutil.copytree(path, elsewhere)
    (elsewhere / "config.json").write_text(json.dumps({**config, "env": f"gymnasium/{EVIL}:Thing-v0"}))
    toml, out = str(folder / "study.toml"), str(campaign.folder / "out")
    for words, status in (
        (["study", "status", str(folder), "--json"], 0),
        (["study", "pack", str(folder), "--json"], 0),
        (["study", toml, "--out", out, "--dry-run", "--json"], 0),
        (["study", toml, "--out", out], 2),
        (["advise", str(path)], 0),
        (["eval", str(path), "--episodes", "1", "--device", "cpu"], 0),  # the scheduler is not needed to act
        (["eval", str(elsewhere), "--episodes", "1"], 2),
        (["play", str(elsewhere), "--video", f"{out}.gif"], 2),
        (["probe", "ucb", "--records", str(folder), "--json"], 0),
    ):
        with campaign.case(f"a stranger's {' '.join(words)}"):
            assert command(words)[0] == status
    with campaign.case("a stranger's report"), pytest.raises(ValueError, match="are not what it declares"):
        load_comparison([folder])
    assert not list(campaign.folder.glob("out*"))
    assert command(["eval", str(elsewhere), "--episodes", "1", "--trust"])[0] == 2  # it has no such environment
    assert (campaign.folder / "executed").exists()
    (campaign.folder / "executed").unlink()
    sys.modules.pop(EVIL)


def test_the_campaign_finds_faults(campaign: Campaign, study: Path) -> None:
    """Each kind of fault, made on purpose, ends the campaign."""
    with pytest.raises(Fault, match="KeyError"), campaign.case("a traceback"):
        raise KeyError("x")
    with pytest.raises(Fault, match="was imported"), campaign.case("an import"):
        (campaign.folder / "executed").touch()
    (campaign.folder / "executed").unlink()
    with pytest.raises(Fault, match="outside was changed"), campaign.case("a deletion"):
        campaign.victim.unlink()
    campaign.victim.write_text("precious")
    with pytest.raises(Fault, match="no end after"), hang_limit(0.05):
        signal.pause()
    (study / ".adept.123.status").touch()
    with pytest.raises(Fault, match="left behind"):
        require_nothing_left(study)
    (study / ".adept.123.status").unlink()
    with pytest.raises(Fault, match="ended with 2"):
        command(["study", "status", "nowhere"], allowed=(0,))
    path = next((study / "runs").glob("*/*/*"))
    other = campaign.folder / "other"
    kills.run(kills.small("gymnasium/CartPole-v1", iterations=1), other)
    with pytest.raises(Fault, match="not those of the uninterrupted run"):
        kills.require_equal(other, path)
