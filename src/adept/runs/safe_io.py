"""Files that anyone may have written: read with limits on size, depth and types. Every fault is a `ValueError`.

Nothing here imports or executes what a file names, and nothing is inflated beyond a stated limit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import os
import stat
import sys
import typing
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import NoneType, UnionType
from typing import Any, BinaryIO, Literal, Union

import numpy as np
import numpy.typing as npt

from adept.extras import require

Array = npt.NDArray[Any]

LARGEST_TEXT = 16 * 2**20
"""Bytes of a JSON or TOML file."""
LARGEST_TABLE = 2**30
"""Bytes of a CSV file."""
LARGEST_ARCHIVE = 4 * 2**30
"""Bytes that one archive may inflate to, all its entries together."""
MOST_ENTRIES = 10_000
DEEPEST = 32
"""Levels of nesting in JSON and TOML."""
PIECE = 4096
"""Compressed bytes that are inflated at a time: LZMA may turn one into thousands."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file; a pipe or device is refused, not waited for."""
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115 (the caller closes it)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise ValueError(f"{path} is not a regular file")


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    try:
        with open_regular(path) as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > limit:
        raise ValueError(f"{path} is larger than {limit:,} bytes, which no file of its kind is")
    return content


def read_text(path: Path, limit: int = LARGEST_TEXT) -> str:
    """Return the content of a text file in UTF-8."""
    try:
        return read_bytes(path, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: {error}") from error


def read_json(path: Path, shape: Any) -> Any:
    """Return a JSON file's content, which must have the shape given (see `fit`)."""
    return parse_json(read_text(path), shape, str(path))


def parse_json(text: str | bytes, shape: Any, where: str) -> Any:
    """Return parsed JSON of the shape given."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON: {_gist(error)}") from error
    _require_shallow(value, where)
    fit(value, shape, where)
    return value


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return a parsed TOML document."""
    toml = require("tomllib" if sys.version_info >= (3, 11) else "tomli", "train")
    try:
        value: dict[str, Any] = toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not TOML: {_gist(error)}") from error
    _require_shallow(value, where)
    return value


def fit(value: Any, shape: Any, where: str) -> None:
    """Check that a value has a shape.

    A shape is a type, several of them in a tuple, `[shape]` for a list of such values, or `{name: shape}` for a
    mapping; a name that ends in `?` may be absent. Names beyond those are let through. `float` admits whole numbers,
    `int` no truth values.
    """
    if isinstance(shape, dict):
        _require(isinstance(value, dict), where, "a mapping", value)
        for name, inner in shape.items():
            key = name.removesuffix("?")
            if key in value:
                fit(value[key], inner, f"{where}: {key}")
            elif key == name:
                raise ValueError(f"{where} has no {key!r}")
    elif isinstance(shape, list):
        _require(isinstance(value, list), where, "a list", value)
        for index, item in enumerate(value):
            fit(item, shape[0], f"{where}, item {index + 1}")
    else:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        names = " or ".join(_NAMES.get(kind, kind.__name__) for kind in kinds)
        _require(any(_is(value, kind) for kind in kinds), where, names, value)


def check_fields(cls: type[Any], values: Mapping[str, Any], where: str) -> None:
    """Check values against the types that a dataclass declares for its fields; unknown names are let through."""
    hints = typing.get_type_hints(cls)
    for entry in dataclasses.fields(cls):
        if entry.name in values:
            _fit_hint(values[entry.name], hints[entry.name], f"{where}: {entry.name}")


def _fit_hint(value: Any, hint: Any, where: str) -> None:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, UnionType):
        kinds = tuple(typing.get_origin(kind) or kind for kind in inner)
        fit(value, kinds, where)
    elif origin is Literal:
        fit(value, str, where)
    elif origin is tuple:
        _require(isinstance(value, list | tuple), where, "a list", value)
        for item in value:
            _fit_hint(item, inner[0], where)
    elif origin is dict:
        _require(isinstance(value, Mapping), where, "a mapping", value)
        for key, item in value.items():
            _fit_hint(item, inner[1], f"{where}: {key}")
    else:
        fit(value, hint, where)


@contextlib.contextmanager
def open_archive(path: Path, limit: int = LARGEST_ARCHIVE) -> Iterator[Archive]:
    """Open a zip file whose entries together claim at most `limit` bytes."""
    try:
        with open_regular(path) as raw, zipfile.ZipFile(raw) as file:
            yield Archive(file, str(path), limit)
    except (OSError, EOFError, KeyError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {_gist(error)}") from error


class Archive:
    """A zip file, its entries read within limits."""

    def __init__(self, file: zipfile.ZipFile, where: str, limit: int) -> None:
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
        pieces = []
        try:
            with self._file.open(name) as stream:
                while piece := stream.read(PIECE):
                    pieces.append(piece)
        except Exception as error:  # of zlib, lzma, bz2 or zipfile, by what is damaged
            raise ValueError(f"{self._where}: {name} cannot be read: {_gist(error)}") from error
        return b"".join(pieces)

    def array(self, name: str) -> Array:
        """Return the entry `name`.npy as an array."""
        return array_of(self.read(f"{name}.npy"), f"{self._where}: {name}")


def array_of(content: bytes, where: str) -> Array:
    """Return the array of an .npy file: of numbers or text, and exactly as long as its header claims."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, dtype = read(stream)
    except Exception as error:  # a header is parsed as Python's literals, with every error of its tokenizer and parser
        raise ValueError(f"{where} is no array: {_gist(error)}") from error
    start = stream.tell()
    plain = dtype.kind in "biufSU" and all(type(size) is int and size >= 0 for size in shape)
    if not plain or math.prod(shape) * dtype.itemsize != len(content) - start or len(shape) > 16:
        raise ValueError(f"{where} claims {dtype.str} of shape {str(shape)[:100]}, which its bytes cannot hold")
    return np.frombuffer(content[start:], dtype).reshape(shape, order="F" if fortran else "C").copy()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _require_shallow(value: Any, where: str) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner for outer in level if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]  # fmt: skip
        if not level:
            return
    raise ValueError(f"{where} is nested more than {DEEPEST} levels deep")


_NAMES = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", dict: "a mapping",
          list: "a list", NoneType: "nothing"}  # fmt: skip


def _is(value: Any, kind: type[Any]) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _require(condition: bool, where: str, allowed: str, value: Any) -> None:
    if not condition:
        shown = repr(value) if isinstance(value, str | int | float | bool | NoneType) else f"a {type(value).__name__}"
        raise ValueError(f"{where} must be {allowed}, got {shown[:100]}")


def _gist(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return " ".join(str(error).split())[:200] or type(error).__name__
