"""Files that anyone may have written: how they are opened, replaced and locked. Every fault is a `ValueError`.

What is read is a regular file of a bounded size, and is inflated within a limit. What is written goes aside and is
renamed, never through a symbolic link.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import io
import math
import os
import re
import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

LARGEST_TEXT = 16 * 2**20
"""Bytes of a file of text, such as JSON."""
LARGEST_TABLE = 2**28
"""Bytes of a CSV file."""
LONGEST_LINE = 2**20
"""Bytes of a line of a table: what is read of one takes many times its bytes."""
LARGEST_ARCHIVE = 4 * 2**30
"""Bytes of an event file, and those that one archive may inflate to, all its entries together."""
MOST_ENTRIES = 10_000
PIECE = 4096
"""Compressed bytes that are inflated at a time: LZMA may turn one into thousands."""
LEFTOVER = re.compile(r"\.adept\.\d+\..+")
"""What a killed process leaves of a file that it was writing: its process id, then the file's name."""
PATIENCE_SECONDS = 0.5
"""How long a held lock is asked for again: whoever only looks (`is_locked`) has it for a moment."""


def open_foreign(path: Path, limit: int) -> BinaryIO:
    """Open a regular file of at most `limit` bytes; a pipe or device is refused, not waited for."""
    try:
        file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115 (by the caller)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    found = os.fstat(file.fileno())
    if stat.S_ISREG(found.st_mode) and found.st_size <= limit:
        return file
    file.close()
    large = f"has {found.st_size:,} bytes; a file of its kind has at most {limit:,}"
    raise ValueError(f"{path} {large if stat.S_ISREG(found.st_mode) else 'is not a regular file'}")


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    with open_foreign(path, limit) as file:
        return file.read(limit)


def read_text(path: Path, limit: int = LARGEST_TEXT) -> str:
    """Return the content of a text file in UTF-8."""
    return decoded(read_bytes(path, limit), path)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a table in UTF-8 with their ends, one at a time: as objects all of them take 50 times as much.

    Nothing where there is no file.
    """
    if not os.path.lexists(path):
        return
    with open_foreign(path, LARGEST_TABLE) as file:
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise ValueError(f"{path} has a line of {LONGEST_LINE:,} bytes or more, which no table has")
            yield decoded(line, path)


def read_gzip(path: Path, limit: int = LARGEST_TEXT) -> str:
    """Return the content of a packed text file, which inflates to at most `limit` bytes."""
    try:
        with open_foreign(path, limit) as raw, gzip.GzipFile(fileobj=raw) as file:
            content = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {gist(error)}") from error
    if len(content) > limit:
        raise ValueError(f"{path} inflates to more than {limit:,} bytes, which no file of its kind does")
    return decoded(content, path)


def decoded(content: bytes, path: Path) -> str:
    """Return text in UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: {error}") from error


@contextlib.contextmanager
def open_archive(path: Path, limit: int = LARGEST_ARCHIVE) -> Iterator[Archive]:
    """Open a zip file whose entries together claim at most `limit` bytes."""
    try:
        with open_foreign(path, limit) as raw, zipfile.ZipFile(raw) as file:
            yield Archive(file, path, limit)
    except (OSError, EOFError, KeyError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {gist(error)}") from error


class Archive:
    """A zip file, its entries read within limits."""

    def __init__(self, file: zipfile.ZipFile, where: Path, limit: int) -> None:
        self._file, self._where = file, where
        entries = file.infolist()
        self.names = tuple(entry.filename for entry in entries)
        if len(entries) > MOST_ENTRIES or len(set(self.names)) < len(entries):
            raise ValueError(f"{where} has {len(entries)} entries, some of one name or too many of them")
        for name in self.names:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name:
                raise ValueError(f"{where} has an entry named {name[:100]!r}, outside the archive")
        if (size := sum(entry.file_size for entry in entries)) > limit:
            raise ValueError(f"{where} claims to inflate to {size:,} bytes; at most {limit:,} are read")

    def read(self, name: str) -> bytes:
        """Return an entry's content: no more than it claims, and checked by its sum."""
        if name not in self.names:
            raise ValueError(f"{self._where} has no entry {name!r}")
        try:
            with self._file.open(name) as stream:
                return b"".join(iter(lambda: stream.read(PIECE), b""))
        except Exception as error:  # of zlib, lzma, bz2 or zipfile, by what is damaged
            raise ValueError(f"{self._where}: {name} cannot be read: {gist(error)}") from error

    def array(self, name: str) -> Array:
        """Return the entry `name`.npy: numbers or text, and exactly as long as its header claims."""
        content, where = self.read(f"{name}.npy"), f"{self._where}: {name}"
        stream = io.BytesIO(content)
        try:
            version = np.lib.format.read_magic(stream)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(stream)
        except Exception as error:  # a header is parsed as Python's literals, with every error of its parser
            raise ValueError(f"{where} is no array: {gist(error)}") from error
        start = stream.tell()
        plain = dtype.kind in "biufSU" and all(type(size) is int and size >= 0 for size in shape)
        if not plain or math.prod(shape) * dtype.itemsize != len(content) - start or len(shape) > 16:
            raise ValueError(f"{where} claims {dtype.str} of shape {str(shape)[:100]}, which its bytes cannot hold")
        return np.frombuffer(content[start:], dtype).reshape(shape, order="F" if fortran else "C").copy()


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Give a name beside a file, and move what was written there to the file's place, so that a reader sees it whole.

    Where writing fails, the old file stays. A link in the file's place is replaced, not followed.
    """
    require_no_folder(path)
    other = path.with_name(f".adept.{os.getpid()}.{path.name}")
    try:
        other.unlink(missing_ok=True)
        yield other
        os.replace(other, path)
    finally:
        other.unlink(missing_ok=True)


def write_aside(path: Path, content: str | bytes | Callable[[IO[bytes]], None]) -> None:
    """Write a file beside its place and move it there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with aside(path) as other, open(os.open(other, flags, 0o666), "wb") as file:
        if callable(content):
            content(file)
        else:
            file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())


def require_no_folder(path: Path) -> None:
    """Refuse a folder in the place of a file that is to be replaced."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, in the place of a file; remove it")


def require_real(folder: Path) -> None:
    """Refuse a symbolic link in the place of a folder whose files are replaced or removed."""
    if folder.is_symlink():
        raise ValueError(f"{folder} is a symbolic link, and files are not replaced where one leads; remove it")


def replace_files(folder: Path, files: Mapping[str, bytes], manifest: Collection[str]) -> None:
    """Write files into a folder in the place of the former ones, which its manifest lists; remove those no longer made.

    Only what the manifest lists is replaced or removed, inside the real folder. Anything else in the place of a file is
    refused before the first byte is written.
    """
    folders = {PurePosixPath(name).parent for name in files}
    for place in folders:
        require_real(folder / place)
    for name in files:
        if os.path.lexists(folder / name) and not (name in manifest and _is_regular(folder / name)):
            raise ValueError(f"{folder / name} was not written by a former report; move it, or choose another --out")
    for name in set(manifest) - files.keys():
        plain = re.fullmatch(r"(\w+/)?\w[\w.-]*", name) and PurePosixPath(name).parent in folders
        if plain and _is_regular(folder / name):
            (folder / name).unlink()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_aside(folder / name, content)


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half written; call it only while holding the folder's lock."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for file in list(folder.iterdir()):
            if LEFTOVER.fullmatch(file.name) and not file.is_dir():
                file.unlink(missing_ok=True)


def open_to_append(path: Path) -> IO[str]:
    """Open a text file to add to its end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open(os.open(path, flags, 0o666), "a", encoding="utf-8", newline="")


def take_lock(path: Path, what: str) -> IO[str]:
    """Hold a lock file, in a folder made for it, until it is closed; `what` lies beside it. A link is not followed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(os.open(path, flags, 0o666), "r+")  # noqa: SIM115
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path} is a symbolic link, not a lock file; remove it") from error
        raise ValueError(f"cannot write {what}: {error.strerror}; choose another --out") from error
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError as error:
            if time.monotonic() > deadline:
                file.close()
                raise ValueError(f"{what} is being written by another process; wait or stop it") from error
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


def gist(error: BaseException) -> str:
    """Return an error's message on one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return " ".join(str(error).split())[:200] or type(error).__name__
