"""Text of others on a terminal: no markup, no control characters, no codec errors; numbers in words."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from adept.cli import main, one_line_warnings
from adept.terminal import InertFormatter, inert, make_console, say, show_status

STUDY = """
name = "hostile"
title = "TITLE"
tasks = ["gymnasium/CartPole-v1"]
seeds = 1
baseline = "a"
differs = ["scheduler", "arms"]

[[methods]]
name = "a"
label = "LABEL"
scheduler = "fixed"
arms = [2]
"""


def test_control_characters_are_spelled_out():
    assert inert("a\x1b[31m\x07\r\x9b\u202e\u2028\x7f") == r"a\x1b[31m\x07\r\x9b\u202e\u2028\x7f"
    assert inert("tab\tand line\nend – ± × é 漢") == "tab\tand line\nend – ± × é 漢"


@pytest.mark.parametrize("hostile", ["[/bold]", "[bold]x", ":warning:", "\x1b]0;owned\x07", "[link=file:///etc]y"])
def test_a_title_and_a_label_are_shown_as_they_are(hostile, tmp_path, capsys):
    text = STUDY.replace('"TITLE"', json.dumps(hostile)).replace('"LABEL"', json.dumps(hostile))
    (tmp_path / "study.toml").write_text(text)
    assert main(["study", "status", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.count(inert(hostile)) == 2
    assert "\x1b" not in shown
    assert main(["study", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    assert inert(hostile) in capsys.readouterr().out


def test_an_error_of_a_run_is_shown_without_its_escapes(tmp_path, capsys):
    (tmp_path / "study.toml").write_text(STUDY)
    path = tmp_path / "runs" / "gymnasium-CartPole-v1" / "a" / "seed-1"
    path.mkdir(parents=True)
    (path / "status").write_text(json.dumps({"state": "failed", "error": "\x1b[2Jgone [/red]"}))
    assert main(["study", "status", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert r"\x1b[2Jgone [/red]" in shown
    assert "\x1b" not in shown


def test_errors_warnings_and_logs_are_inert(capsys):
    assert main(["eval", "no\x1b[31mwhere"]) == 2
    assert r"no\x1b[31mwhere" in capsys.readouterr().err
    record = logging.LogRecord("adept", logging.WARNING, "", 1, "of %s", ("\x1b[31m",), None)
    assert InertFormatter("%(message)s").format(record) == r"of \x1b[31m"


def test_cells_of_tables_and_lines_are_inert():
    console = make_console()
    console.file = io.StringIO()
    console.print("[/x] \x1b[31m :smile:")
    assert console.file.getvalue() == "[/x] \\x1b[31m :smile:\n"


def test_status_lines_are_for_terminals_alone(capsys):
    show_status("loading")
    assert capsys.readouterr() == ("", "")
    say("a\x07")
    assert capsys.readouterr().out == "a\\x07\n"


def test_an_error_in_a_thread_or_destructor_is_one_line(capsys):
    class Dying:
        def __init__(self, error: Exception) -> None:
            self.error = error

        def __del__(self) -> None:
            raise self.error

    def fail() -> None:
        raise OSError("gone")

    with one_line_warnings():
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        Dying(ValueError("odd"))
        Dying(OSError("full"))  # said already by whoever wrote
    assert capsys.readouterr().err == "adept: warning: gone\nadept: warning: odd\n"


def test_a_stream_of_ascii_gets_every_line(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY.replace("LABEL", "K–2 × é"))
    words = [sys.executable, "-m", "adept.cli", "study", "status", str(tmp_path)]
    source = str(Path(__file__).parent.parent / "src")
    environment = {"PYTHONPATH": source, "PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"K\u20132 \xd7 \xe9" in done.stdout
