"""JSON and TOML of others: refused where they are large, nested deep, hold no real numbers, or have another shape.

Every fault is a `ValueError`; nothing that a file names is imported.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union

from adept.extras import require
from adept.runs.safe_io import LARGEST_TEXT, gist, read_text

LARGEST_TOML = 2**20
"""Bytes of a TOML document."""
MOST_DOTS = 100
"""Dots in a line of TOML: the time to parse a dotted key grows with the square of its parts."""
DEEPEST = 32
"""Levels of nesting in JSON and TOML."""
LARGEST_NUMBER = 2.0**128
"""Larger numbers, such as infinity, are refused: they overflow what is computed from them."""
LARGEST_WHOLE = 2**63
NAMES = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", dict: "a mapping",
         list: "a list", NoneType: "nothing"}  # fmt: skip


def read_json(path: Path, shape: Any) -> Any:
    """Return a JSON file's content, which must have the shape given (see `fit`)."""
    return parse_json(read_text(path), shape, str(path))


def parse_json(text: str | bytes, shape: Any, where: str) -> Any:
    """Return parsed JSON of the shape given."""
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"{where} has {len(text):,} bytes; at most {LARGEST_TEXT:,} are read")
    value = _parsed(json.loads, text, "JSON", where)
    fit(value, shape, where)
    return value


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return a parsed TOML document."""
    if len(text) > LARGEST_TOML or any(line.count(".") > MOST_DOTS for line in text.splitlines()):
        raise ValueError(f"{where} has more than {LARGEST_TOML:,} bytes, or a line of more than {MOST_DOTS} dots")
    toml = require("tomllib" if sys.version_info >= (3, 11) else "tomli", "train")
    value: dict[str, Any] = _parsed(toml.loads, text, "TOML", where)
    return value


def _parsed(parse: Callable[[Any], Any], text: str | bytes, kind: str, where: str) -> Any:
    """Return a parsed document; refuse one that is nested too deep, or whose numbers are not real."""
    try:
        value = parse(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not {kind}: {gist(error)}") from error
    level = [value]
    for _ in range(DEEPEST):
        if not all(is_real(each) for each in level if isinstance(each, int | float)):
            raise ValueError(f"{where} holds a number that is not finite, or of more than 38 digits")
        level = [
            inner for outer in level if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]  # fmt: skip
        if not level:
            return value
    raise ValueError(f"{where} is nested more than {DEEPEST} levels deep")


def fit(value: Any, shape: Any, where: str) -> None:
    """Check that a value has a shape.

    A shape is a type hint, `[shape]` for a list of such values, or `{name: shape}` for a mapping; a name that ends in
    `?` may be absent. Names beyond those are let through. `float` admits whole numbers, `int` no truth values, and at
    most 64 bits; a tuple is a list of any length.
    """
    origin, inner = typing.get_origin(shape), typing.get_args(shape)
    if isinstance(shape, dict) or origin is dict:
        _require(isinstance(value, Mapping), where, "a mapping", value)
        for name, own in (shape if isinstance(shape, dict) else dict.fromkeys(value, inner[1])).items():
            key = name.removesuffix("?") if isinstance(shape, dict) else name
            if key in value:
                fit(value[key], own, f"{where}: {key}")
            elif key == name:
                raise ValueError(f"{where} has no {key!r}")
    elif isinstance(shape, list) or origin is tuple:
        _require(isinstance(value, list | tuple), where, "a list", value)
        for index, item in enumerate(value):
            fit(item, shape[0] if isinstance(shape, list) else inner[0], f"{where}, item {index + 1}")
    elif origin is Literal:
        fit(value, str, where)
    else:
        kinds = [typing.get_origin(kind) or kind for kind in inner] if origin in (Union, UnionType) else [shape]
        names = " or ".join(NAMES.get(kind, kind.__name__) for kind in kinds)
        _require(any(_is(value, kind) for kind in kinds), where, names, value)


@functools.cache
def fields_of(cls: Any) -> dict[str, Any]:
    """Return the shape of a dataclass's values; to evaluate its annotations takes longer than to read a run."""
    hints = typing.get_type_hints(cls)
    return {f"{entry.name}?": hints[entry.name] for entry in dataclasses.fields(cls)}


def is_real(value: float) -> bool:
    """Say whether a number is finite, and small enough to compute with."""
    return -LARGEST_NUMBER < value < LARGEST_NUMBER


def _is(value: Any, kind: type[Any]) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and is_real(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST_WHOLE
    return isinstance(value, kind)


def _require(condition: bool, where: str, allowed: str, value: Any) -> None:
    if not condition:
        shown = repr(value) if isinstance(value, str | int | float | bool | NoneType) else f"a {type(value).__name__}"
        raise ValueError(f"{where} must be {allowed}, got {shown[:100]}")
