from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from adept.cli import main
from adept.runs.records import read_config, read_evaluations, read_iterations

TRAIN = ["train", "--env", "minigrid/DoorKey-5x5", "--steps", "8192"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    assert main([*TRAIN, "--out", str(out), "--quiet"]) == 0
    return next(out.glob("*/*"))


def test_train_ends_in_one_json_object_and_the_same_command_reads_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*TRAIN, "--out", str(tmp_path), "--json", "--arms", "2", "1", "--exploration", "0.5"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert result["state"] == "done"
    assert result["step"] == 8192
    assert "step 8,192/8,192" in said.err
    config = read_config(Path(result["run"]))
    assert config.arms == (2, 1)
    assert config.scheduler_options == {"exploration": 0.5, "window": 50}  # the preset's window
    assert result["epochs"] == read_iterations(Path(result["run"]))["epochs_done"].sum()
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == result


def test_eval_scores_as_many_episodes_as_asked(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(trained), "--episodes", "7", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["returns"]) == first["episodes"] == 7
    assert first["return_mean"] == pytest.approx(np.mean(first["returns"]))
    assert first["return_std"] == pytest.approx(np.std(first["returns"], ddof=1))
    assert main(["eval", str(trained), "--episodes", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["returns"] == first["returns"]
    assert main(["eval", str(trained), "--episodes", "3", "--deterministic"]) == 0
    assert "3 episodes" in capsys.readouterr().out
    rows = read_evaluations(trained)
    assert [row["episodes"] for row in rows] == ["7", "7", "3"]
    assert rows[0]["levels"] == "test"


@pytest.mark.parametrize("name", ["out.mp4", "out.gif"])
def test_play_writes_a_video_that_can_be_read(trained: Path, tmp_path: Path, name: str) -> None:
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("imageio_ffmpeg")
    assert main(["play", str(trained), "--video", str(tmp_path / name), "--seed", "1"]) == 0
    pictures = [picture for picture in imageio.get_reader(tmp_path / name)]  # noqa: C416 - its length is infinite
    assert len(pictures) > 2
    assert min(pictures[0].shape[:2]) >= 256
    assert any((picture != pictures[0]).any() for picture in pictures)


def test_flops_json(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("envpool")
    assert main(["flops", "procgen/bigfish", "--algo", "ppo", "--arms", "3", "2", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["forward_flops"] == 61218816
    assert result["paper_forward_macs"] == 528384
    assert round(result["ratio_round_robin"], 4) == 0.7001


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "did you mean 'train'"),
        (["train"], "which environment"),
        (["train", "--env", "minigrid/DoorKey-6x7"], "did you mean 'DoorKey-6x6'"),
        (["train", "--env", "CartPole-v1"], "backend/name"),
        (["train", "--env", "nope/x"], "unknown backend 'nope'"),
        ([*TRAIN, "--sede", "3"], "did you mean --seed"),
        ([*TRAIN, "--arms", "3", "3"], "distinct"),
        ([*TRAIN, "--arms", "0"], "whole number ≥ 1"),
        ([*TRAIN, "--arms", "x"], "--arms"),
        ([*TRAIN, "--scheduler", "ucbb"], "did you mean 'ucb'"),
        ([*TRAIN, "--scheduler", "fixed", "--arms", "3", "2"], "exactly one arm"),
        ([*TRAIN, "--scheduler", "nowhere:Nothing"], "cannot load scheduler"),
        ([*TRAIN, "--minibatch-size", "100"], "does not divide"),
        ([*TRAIN, "--device", "cuda:77"], "cannot be used here"),
        ([*TRAIN, "--out", "/proc/nowhere"], "cannot write"),
        (["eval", "nowhere"], "is not a run's folder"),
        (["play", "nowhere", "--video", "out.mp4"], "is not a run's folder"),
        (["study", "smok", "--out", "x"], "did you mean 'smoke'"),
    ],
)
def test_a_mistake_is_one_line_with_status_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.startswith("adept: ")
    assert said.err.count("\n") == 1


def test_a_mistaken_name_leaves_no_folder_behind(tmp_path: Path) -> None:
    assert main(["train", "--env", "minigrid/DoorKey-6x7", "--out", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_video_of_another_kind_is_refused(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(trained), "--video", "out.avi"]) == 2
    assert ".mp4 or .gif" in capsys.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "train" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["--version"]) == 0
    with pytest.raises(SystemExit) as stop:
        main(["train", "--env", "pybullet/Ant", "--help"])
    assert stop.value.code == 0
    assert "2000000" in capsys.readouterr().out  # the preset of the backend named


def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tyro", None)
    assert main(["train", "--env", "minigrid/DoorKey-6x6"]) == 2
    assert "pip install 'adept-rl[train]'" in capsys.readouterr().err
