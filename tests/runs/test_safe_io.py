"""Files of others that are not what they should be."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from adept.runs.parsing import parse_json, parse_toml
from adept.runs.safe_io import open_archive, read_gzip, read_text, replace_files, write_aside
from tests.faults.campaign import hang_limit


def test_a_pipe_in_the_place_of_a_file_is_refused_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        read_text(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"), open_archive(tmp_path / "pipe"):
        pass


def test_a_file_is_refused_by_its_size_before_it_is_read(tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2**40)  # it takes no room on the disk
    with pytest.raises(ValueError, match="1,099,511,627,776 bytes; a file of its kind has at most 16,777,216"):
        read_text(tmp_path / "large")


def test_packed_text_inflates_within_its_limit(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(2**25)))
    with pytest.raises(ValueError, match="inflates to more than 16,777,216 bytes"):
        read_gzip(tmp_path / "bomb.gz")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"text" * 100)[:-9])
    with pytest.raises(ValueError, match=r"cut.gz cannot be read"):
        read_gzip(tmp_path / "cut.gz")
    (tmp_path / "good.gz").write_bytes(gzip.compress(b"text"))
    assert read_gzip(tmp_path / "good.gz") == "text"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"iteration\n" + b"1\n" * 2**21, "2097152 rows"), (b"1," * 2**23 + b"\n", "a line of 1,048,576 bytes or more")],
    ids=["many short lines", "one long line"],
)
def test_a_table_takes_no_more_memory_than_its_numbers(tmp_path: Path, content: bytes, message: str) -> None:
    """4 MiB of lines were 120 MiB of text objects; 8 bytes a cell are 16 MiB, twice while they are copied."""
    (tmp_path / "iterations.csv").write_bytes(content)
    code = (
        "import resource, sys\nfrom pathlib import Path\nfrom adept.runs.records import read_columns\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 80 * 2**20,) * 2)\n"
        "try: print(len(read_columns(Path(sys.argv[1]))['iteration']), 'rows')\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "iterations.csv")], capture_output=True, text=True
    )
    assert message in done.stdout, done.stderr


@pytest.mark.parametrize("text", ["9" * 400, "-" + "9" * 400, "1e400", "NaN", "-Infinity", "[[1e999]]"])
def test_numbers_that_overflow_are_refused(text: str) -> None:
    message = "it holds a number that is not finite, or of more than 38 digits"
    with pytest.raises(ValueError, match=message):
        parse_json(text, int | float | list, "it")
    with pytest.raises(ValueError, match=message):
        parse_toml(f"a = {text.lower().removesuffix('inity')}", "it")


def test_what_counts_has_64_bits_and_states_of_generators_128() -> None:
    assert parse_json(str(2**127), float, "a file") == 2**127
    assert parse_json(str(2**62), int, "a file") == 2**62
    with pytest.raises(ValueError, match="must be a whole number"):
        parse_json(str(2**63), int, "a file")


def test_large_documents_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(ValueError, match="has 16,777,218 bytes; at most 16,777,216 are read"):
        parse_json('"' + "x" * 2**24 + '"', str, "a file")
    with hang_limit(2.0), pytest.raises(ValueError, match="a line of more than 100 dots"):
        parse_toml(".".join("a" * 20_000) + " = 1", "a study")


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")


def test_only_what_the_manifest_lists_is_replaced_or_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made(out, "old.txt", "own.txt", "tables/old.csv", "elsewhere/own.txt")
    made(tmp_path, "victim.txt")
    listed = ["old.txt", "tables/old.csv", "tables/gone.csv", "../victim.txt", "elsewhere/own.txt", "/etc/passwd"]
    replace_files(out, {"old.txt": b"new", "tables/new.csv": b"new"}, listed)
    found = {str(file.relative_to(out)): file.read_text() for file in out.rglob("*") if file.is_file()}
    kept = {"own.txt": "precious", "elsewhere/own.txt": "precious"}
    assert found == {"old.txt": "new", "tables/new.csv": "new", **kept}
    assert (tmp_path / "victim.txt").read_text() == "precious"


@pytest.mark.parametrize("place", ["out", "out/figures", "out/figures/a.png"])
def test_nothing_is_written_through_a_link(tmp_path: Path, place: str) -> None:
    made(tmp_path, "theirs/figures/a.png", "theirs/README.md")
    link = tmp_path / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "theirs" / Path(place).relative_to("out"))
    names = ["README.md", "figures/a.png"]
    with pytest.raises(ValueError, match=r"is a symbolic link|was not written by a former report"):
        replace_files(tmp_path / "out", dict.fromkeys(names, b"new"), names)
    assert {file.read_text() for file in (tmp_path / "theirs").rglob("*.*")} == {"precious"}
    assert not (tmp_path / "out" / "README.md").exists() or place == "out"


def test_a_file_of_the_users_stops_everything_before_the_first_byte(tmp_path: Path) -> None:
    made(tmp_path, "README.md")
    with pytest.raises(ValueError, match=r"README.md was not written by a former report; move it, or choose another"):
        replace_files(tmp_path, {"a.html": b"new", "README.md": b"new"}, ["a.html"])
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "precious"


def test_a_failure_while_writing_keeps_the_old_file(tmp_path: Path) -> None:
    made(tmp_path, "a.mp4")

    def write(file: IO[bytes]) -> None:
        file.write(b"half")
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        write_aside(tmp_path / "a.mp4", write)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["precious"]
