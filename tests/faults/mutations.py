"""Damage to files, drawn at random: of text, of JSON, of tables, of archives of arrays."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from typing import Any

import numpy as np

from tests.faults.campaign import EVIL

VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 3, 2**31, 2**63, 10**30, -0.5, 1e308, float("nan"), float("inf"), "", "x", "done",
    "running", "ucb", f"{EVIL}:Thing", ".x:y", f"gymnasium/{EVIL}:Thing-v0", "nope/x", "../../victim.txt", "/", "\0",
    "é" * 3000, [], {}, [[]], {"a": {}}, ["x"], [None], [1, 2], {"state": "done"}, [2**70], 10**400,
    "[/bold]", "\x1b[2J\u202e",
)  # fmt: skip
"""What stands where something else belongs."""


def of_bytes(content: bytes, rng: random.Random) -> bytes:
    """Return content with a piece cut, added, moved or changed."""
    if not content:
        return rng.randbytes(rng.randrange(40))
    start, size = rng.randrange(len(content)), rng.choice((1, 1, 2, 8, 64))
    before, piece, after = content[:start], content[start : start + size], content[start + size :]
    flipped = bytes([piece[0] ^ (1 << rng.randrange(8))]) + piece[1:]
    others = (b"", rng.randbytes(size), piece * 2, bytes(size), flipped)
    return rng.choice((b"", before, content + content, *(before + other + after for other in others)))


def of_value(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one of its parts replaced, removed, added or nested."""
    value = copy.deepcopy(value)
    if rng.random() < 0.05 or not isinstance(value, dict | list) or not value:
        return copy.deepcopy(rng.choice(VALUES))
    place = value
    while True:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.3:
            break
        place = inner
    match rng.randrange(6):
        case 0:
            del place[key]
        case 1:
            place[key] = [inner]
        case 2 if isinstance(place, dict):
            place[rng.choice(("extra", "", "schema", "state", "\0"))] = copy.deepcopy(rng.choice(VALUES))
        case _:
            place[key] = copy.deepcopy(rng.choice(VALUES))
    return value


def of_json(content: bytes, rng: random.Random) -> bytes:
    """Return damaged JSON: mostly well formed, of other types."""
    choice = rng.random()
    if choice < 0.04:
        return b"[" * 3000 + b"]" * 3000
    if choice < 0.08:
        return b'{"a":' * 3000 + b"1" + b"}" * 3000
    if choice < 0.25:
        return of_bytes(content, rng)
    return json.dumps(of_value(json.loads(content), rng)).encode("utf-8", "surrogatepass")


def of_rows(content: bytes, rng: random.Random) -> bytes:
    """Return a table whose lines are missing, cut, merged, swapped, wider, or not numbers; numbers stay as they are."""
    lines = content.splitlines(keepends=True)
    if len(lines) < 3:
        return b""
    at = rng.randrange(1, len(lines) - 1)
    before, line, after = lines[:at], lines[at], lines[at + 1 :]
    others = (
        b"", line[: len(line) // 2] + b"\n", line.rstrip(b"\n"), line * 2, line.rstrip(b"\n") + b",7\n",
        line.replace(b",", b",x", 1), rng.choice((b"inf", b"9" * 400)) + line[line.index(b",") :], b"\0" * len(line),
    )  # fmt: skip
    found = [
        [], lines[1:], lines[: -rng.randrange(1, len(lines) - 1)], [*before, after[0], line, *after[1:]],
        [content[: -rng.randrange(2, len(lines[-1]) + len(lines[-2]))]], *([*before, each, *after] for each in others),
    ]  # fmt: skip
    return b"".join(rng.choice(found))


def entries_of(content: bytes) -> dict[str, bytes]:
    """Return the entries of a zip file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(entries: dict[str, bytes]) -> bytes:
    """Return a zip file of entries."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def npy(array: Any) -> bytes:
    """Return an array as an .npy file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def of_archive(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged archive: of its bytes, or well formed with entries gone, of other shapes, types or claims."""
    if rng.random() < 0.3:
        return of_bytes(content, rng)
    entries = entries_of(content)
    name = rng.choice(list(entries))
    if name.endswith(".json"):
        entries[name] = of_json(entries[name], rng)
        return archive_of(entries)
    match rng.randrange(7):
        case 0:
            del entries[name]
        case 1:
            entries[name] = of_bytes(entries[name], rng)
        case 2:
            entries[rng.choice(("../../victim.txt", "/tmp/x", "a\\b", "x" * 300, "values2.npy"))] = b"x"
        case 3:
            array = np.load(io.BytesIO(entries[name]))
            entries[name] = npy(array.reshape(-1)[:-1] if array.size else np.zeros(3))
        case 4:
            entries[name] = npy(np.load(io.BytesIO(entries[name]))[..., None])
        case 5:
            entries[name] = npy(rng.choice((np.zeros(0), np.array("x"), np.zeros((2, 2), bool), np.zeros(()))))
        case _:
            header = io.BytesIO()
            shape = rng.choice(((2**40,), (-1,), (2**31, 2**31), (3, 3)))
            np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
            entries[name] = header.getvalue()
    return archive_of(entries)


def of_checkpoint(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged checkpoint: as an archive, or in the values that it holds as JSON."""
    if rng.random() < 0.5:
        return of_archive(content, rng)
    entries = entries_of(content)
    values = np.load(io.BytesIO(entries["values.npy"])).tobytes()
    entries["values.npy"] = npy(np.frombuffer(of_json(values, rng), np.uint8))
    return archive_of(entries)


def of_toml(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged study: other values behind its keys, lines gone or twice, or bytes."""
    if rng.random() < 1 / 7:
        return of_bytes(content, rng)
    lines = content.splitlines(keepends=True)
    at, setting = rng.randrange(len(lines)), rng.choice([place for place, line in enumerate(lines) if b" = " in line])
    key, value = lines[setting].partition(b" = ")[0], rng.choice(TOML_VALUES).encode()
    dots = b".".join([b"a"] * rng.choice((40, 90, 9000))) + b" = 1\n"
    other = [*lines[:setting], key + b" = " + value + b"\n", *lines[setting + 1 :]]
    inserted = ([*lines[:at], each, *lines[at:]] for each in (dots, rng.choice(lines)))
    return b"".join(rng.choice((other, other, other, lines[:at] + lines[at + 1 :], *inserted)))


TOML_VALUES = (
    "3", "-1", "0", "2.5", "nan", "inf", "true", '""', '"x"', f'"{EVIL}:Thing"', '".x:y"', "[]", "[1]", '["x"]',
    "[[1]]", "{}", "{a = 1}", "1000000000000", "30000", "1979-05-27", '"../../victim"', "[-1]", '["nope/x"]',
    f'["gymnasium/{EVIL}:Thing-v0"]', "[" * 3000 + "]" * 3000, '"preset/0"', '"preset*x"', "9" * 400, "1e400",
    '"[/bold]"', '"\\u001b[2J"', f'"{"x" * 20_000}"',
)  # fmt: skip
