from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from adept.cli import PIPE_CLOSED, main, one_line_warnings
from adept.commands.train import EXAMPLES, default_config
from adept.config import Config
from adept.presets import preset
from adept.runs.records import read_config, read_evaluations, read_iterations
from adept.studies.grid import shipped_studies
from tests.faults.mistakes import MISTAKES

TRAIN = ["train", "--env", "minigrid/DoorKey-5x5", "--scheduler", "ucb", "--steps", "8192"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    assert main([*TRAIN, "--out", str(out), "--quiet"]) == 0
    return next(out.glob("*/*"))


def test_the_defaults_of_train_are_those_of_the_preset() -> None:
    door = ["--env", "minigrid/DoorKey-6x6"]
    assert default_config(door) == preset(door[1])
    assert default_config(door).scheduler == Config(door[1]).scheduler == "fixed"
    # The paper's on MiniGrid; a bandit with standardised rewards has its own exploration.
    assert default_config([*door, "--scheduler", "ucb"]).scheduler_options == {"exploration": 1.0, "window": 50}
    standardized = default_config(["--env", "pybullet/Ant", "--scheduler", "standardized-ucb"])
    assert standardized.scheduler_options == {"exploration": 1.0, "window": 10}


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
    arguments.remove("--json")
    assert main(arguments) == 0
    assert f"\nfolder: {result['run']}\n" in capsys.readouterr().out, "in one line, however long"


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


def test_eval_accepts_levels_where_there_are_none_and_says_that_they_change_nothing(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    returns = {}
    for levels in ("test", "train"):
        assert main(["eval", str(trained), "--episodes", "2", "--levels", levels, "--json"]) == 0
        said = capsys.readouterr()
        returns[levels] = json.loads(said.out)["returns"]
        assert f"has no levels that training leaves out: --levels {levels} changes nothing\n" in said.err
    assert returns["test"] == returns["train"]
    assert main(["eval", str(trained), "--episodes", "2"]) == 0
    assert "levels" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "row"),
    [
        pytest.param("procgen/coinrun", "return (test levels, 2 episodes)", marks=pytest.mark.procgen),
        ("gymnasium/tiny/Identity-v0", "return (evaluation, 2 episodes)"),
    ],
)
def test_the_score_at_the_end_of_a_run_is_printed_and_in_json(
    env: str, row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if env.startswith("procgen"):
        pytest.importorskip("envpool")
    settings = ["--environments", "2", "--rollout-length", "4", "--minibatch-size", "8", "--steps", "8"]
    command = ["train", "--env", env, *settings, "--test-episodes", "2", "--quiet", "--out", str(tmp_path)]
    assert main([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (written,) = read_evaluations(Path(result["run"]))
    found = result["evaluation"]
    assert (found["episodes"], found["return_mean"]) == (2, float(written["return_mean"]))
    assert found.get("levels") == ("test" if env.startswith("procgen") else None)
    assert main(command) == 0  # it is done: the same table is shown again
    assert row in capsys.readouterr().out


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
    ("arguments", "message"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
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
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_train_alone_shows_commands_that_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("#")[0].strip() for line in lines[1:-1]] == list(EXAMPLES)
    found = [default_config(command.split()[2:]) for command in EXAMPLES]
    assert [config.env for config in found] == [*["gymnasium/CartPole-v1"] * 2, "minigrid/DoorKey-6x6"]
    assert [config.scheduler for config in found] == ["fixed", "hindsight", "ucb"]
    assert found[0].epochs == 20  # the preset's epochs


def test_a_warning_is_one_line_without_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with one_line_warnings():
            warnings.warn("arms were\nnot tried", stacklevel=1)
    assert capsys.readouterr().err == "adept: warning: arms were not tried\n"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["study"], [*shipped_studies(), "adept study status DIR", "adept study pack DIR"]),
        (["train", "--env", "gymnasium/CartPole-v1", "--scheduler", "ucb"], ["--exploration X", "ucb: how many"]),
        (["train", "--env", "pybullet/Ant"], ["2000000"]),  # the preset of the backend named
    ],
    ids=lambda value: " ".join(value[:5]),
)
def test_the_help_of_a_command(words: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    assert [part for part in parts if part not in said] == []
    assert ("--scheduler-options" in said) == ("ucb" in words)  # fixed has none


@pytest.mark.parametrize("command", [["--help"], ["study", "--help"], ["flops", "gymnasium/CartPole-v1"]], ids=str)
def test_a_closed_pipe_is_silent(command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "adept.cli", *command], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode in (0, 1, PIPE_CLOSED)  # argparse and rich have statuses of their own for it


def test_something_is_shown_while_pytorch_loads() -> None:
    """On a terminal, before torch is imported: shown at once, and wiped afterwards."""
    code = (
        "import sys, adept.cli\n"
        "sys.stderr.isatty = lambda: True\n"
        "with adept.cli.loading('PyTorch', 'colorsys'): assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.stderr.decode() == "\r\x1b[2Kloading PyTorch …\r\x1b[2K"


@pytest.mark.parametrize("command", ["train", "eval", "play", "study", "report", "flops"])
def test_options_are_read_before_pytorch_is_loaded(command: str) -> None:
    code = (
        "import sys\nfrom adept.cli import main\n"
        f"assert main([{command!r}, '--nonsense']) == 2\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_the_folder_one_stands_in_is_no_place_for_modules(tmp_path: Path) -> None:
    """A file that has the name of something PyTorch looks for must not be executed."""
    (tmp_path / "opt_einsum.py").write_text("open('executed', 'w')")
    (tmp_path / "mine.py").write_text("from adept import RoundRobin\nclass Mine(RoundRobin): pass")
    command = [str(Path(sys.executable).parent / "adept"), "train", "--env", "gymnasium/CartPole-v1", "--scheduler",
               "mine:Mine", "--arms", "2", "1", "--steps", "512", "--environments", "2", "--rollout-length", "32",
               "--minibatch-size", "32", "--out", "runs", "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "done"
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "--episodes", "0"], "episodes must be a whole number ≥ 1"),
        (["eval", "--device", "nope"], "device 'nope' cannot be used here"),
        (["eval", "--threads", "100000"], "the cores of this machine"),
        (["play", "--episodes", "0"], "episodes must be a whole number ≥ 1"),
    ],
    ids=str,
)
def test_a_mistake_about_a_run_leaves_no_file(
    words: list[str], message: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.stat().st_mtime_ns for file in trained.rglob("*")}
    video = ["--video", str(tmp_path / "out.gif")] if words[0] == "play" else []
    assert main([words[0], str(trained), *words[1:], *video]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert before == {file: file.stat().st_mtime_ns for file in trained.rglob("*")}


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "train" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["--version"]) == 0


def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(["train", "--env", "minigrid/DoorKey-6x6"]) == 2
    assert "pip install 'adept-rl[train]'" in capsys.readouterr().err
