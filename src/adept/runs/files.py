"""How files are written here: aside and renamed, never through a symbolic link; a lock tells who holds a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

LEFTOVER = re.compile(r"\..+\.\d+")
"""What a killed process leaves of a file that it was writing: a dot, the file's name, a dot, its process id."""
PATIENCE_SECONDS = 0.5
"""How long a held lock is asked for again: whoever only looks (`is_locked`) has it for a moment."""


def write_aside(path: Path, content: str | bytes | Callable[[IO[bytes]], None]) -> None:
    """Write a file beside its place and move it there, so that a reader sees the old or the new one, whole."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, in the place of a file; remove it")
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.unlink(missing_ok=True)
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half written; call it only while holding the folder's lock."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for file in list(folder.iterdir()):
            if LEFTOVER.fullmatch(file.name) and not file.is_dir():
                file.unlink(missing_ok=True)


def open_to_append(path: Path) -> IO[str]:
    """Open a text file to add to its end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(path, flags, 0o666), "a", encoding="utf-8", newline="")


def take_lock(path: Path) -> IO[str] | None:
    """Hold a lock file until it is closed; None where another process holds it. A link is not followed."""
    try:
        file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "r+")  # noqa: SIM115
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a symbolic link, which a lock never is; remove it") from error
        raise
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            if time.monotonic() > deadline:
                file.close()
                return None
            time.sleep(0.02)


def is_locked(path: Path) -> bool:
    """Say whether a process holds a lock file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
