"""Files of others that are not what they should be."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from adept.runs.safe_io import open_archive, read_text


def test_a_pipe_in_the_place_of_a_file_is_refused_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        read_text(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"), open_archive(tmp_path / "pipe"):
        pass


def test_an_archive_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("one", b"two")
    with open_archive(tmp_path / "a.zip") as archive:
        assert archive.read("one") == b"two"
