"""A command's options from its dataclass: the fields' names, types, defaults and docs are written once.

A nested dataclass gives its fields without a prefix. A mapping gives an option for each of its names, and takes further
pairs of names and values. A mistake is a `ValueError` of one line.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import difflib
import inspect
import itertools
import math
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from adept.names import unknown_name

T = TypeVar("T")
Options = TypeVar("Options")


Positional = Annotated[T, "positional"]
"""The type of a field that is given by its place, without a name."""
METAVARS = {int: "N", float: "X", Path: "PATH"}
"""How values are called in the help, by type."""


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are `ValueError`s."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and leaving."""
        raise ValueError(message.removeprefix("argument "))


def parse(
    cls: type[Options], command: str, words: Sequence[str], default: Options | None = None, *,
    description: str = "", docs: Mapping[str, str] | None = None, hidden: Sequence[str] = (),
    aliases: Iterable[str] = (),
) -> Options:  # fmt: skip
    """Read a command's options into its dataclass, whose field docs are the help; a mistake is one line.

    `default` has the values of what is not given; `docs` describes names of mappings; `hidden` names fields that are
    no options; `aliases` are other names that a mistyped one may be near.
    """
    fields = [field for field in _fields(cls, default, docs or {}) if field.name not in hidden]
    check_names(cls, command, words, default, aliases)
    places = [field.flag for field in fields if field.positional]
    parser = Parser(
        prog=f"adept {command}", usage=" ".join([f"adept {command}", *places, "[OPTIONS]"]), allow_abbrev=False,
        description=description or inspect.cleandoc(cls.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    groups: dict[str, Any] = {"": parser}
    for field in fields:
        if field.group not in groups:
            groups[field.group] = parser.add_argument_group(field.group)
        field.add_to(groups[field.group])
    try:
        given, rest = parser.parse_known_intermixed_args(list(words))
        if rest:
            raise ValueError(f"unexpected argument {rest[0]!r}; see --help")
        values = {place: value for place, value in vars(given).items() if value is not None and value != []}
        for field in fields:
            if field.default is dataclasses.MISSING and field.place not in values:
                raise ValueError(f"{field.flag} is required: {field.doc}")
        built: Options = _build(cls, default, values, "")
        return built
    except ValueError as error:
        raise ValueError(f"{command}: {error}") from error


def check_names(
    cls: type[Any], command: str, words: Sequence[str], default: Any = None, aliases: Iterable[str] = ()
) -> None:
    """Refuse an unknown option, naming the nearest, before anything else is complained about; and an empty word."""
    known = ["--help", *aliases]
    for field in _fields(cls, default, {}):
        if not field.positional:
            known += [field.flag, f"--no-{field.flag[2:]}"] if field.kind is bool else [field.flag]
    for word in words:
        if not word:
            raise ValueError(f"{command}: an argument is empty; leave it out, or give it a value")
        name = word.partition("=")[0]
        if name.startswith("--") and name not in known:
            near = difflib.get_close_matches(name.replace("_", "-").lower(), known, n=1)
            raise ValueError(
                f"{command}: unknown option {name}; {f'did you mean {near[0]}?' if near else 'see --help'}"
            )


@dataclass(frozen=True)
class Field:
    """One option: where its value goes, and how it is given."""

    place: str
    """dotted names that lead to the field"""
    name: str
    kind: Any
    """its type, without None and annotations"""
    doc: str
    group: str
    default: Any
    optional: bool = False
    positional: bool = False

    @property
    def flag(self) -> str:
        """How it is called on the command line."""
        return self.name.upper().replace("_", "-") if self.positional else f"--{self.name.replace('_', '-')}"

    def add_to(self, group: Any) -> None:
        """Add the option to a parser or a group of it."""
        settings: dict[str, Any] = {"help": self._help().replace("%", "%%"), "default": argparse.SUPPRESS}
        if self.kind is bool:
            other = {**settings, "help": "turn that off" if self.default else argparse.SUPPRESS}
            group.add_argument(self.flag, dest=self.place, action="store_true", **settings)
            group.add_argument(f"--no-{self.flag[2:]}", dest=self.place, action="store_false", **other)
            return
        origin, inner = typing.get_origin(self.kind), typing.get_args(self.kind)
        listed = origin in (tuple, dict)
        word = str if origin is dict else inner[0] if origin is tuple else self.kind
        settings["type"] = _reader(word, self.optional and not listed)
        settings["metavar"] = "{" + ",".join(inner) + "}" if origin is Literal else (
            "NAME VALUE" if origin is dict else METAVARS.get(word, "NAME"))  # fmt: skip
        if self.positional:
            own = {"metavar": self.flag, "default": None}
            group.add_argument(self.place, nargs="*" if listed else "?", **settings | own)
        else:
            group.add_argument(self.flag, dest=self.place, **settings, **({"nargs": "+"} if listed else {}))

    def _help(self) -> str:
        if self.default is dataclasses.MISSING:
            return f"{self.doc} (required)"
        if self.default is None or self.default in ({}, ()):
            return self.doc
        if self.kind is bool:
            return f"{self.doc} (the default)" if self.default else self.doc
        shown = " ".join(map(str, self.default)) if isinstance(self.default, tuple) else self.default
        return f"{self.doc} (default: {shown})"


def _fields(cls: type[Any], default: Any, docs: Mapping[str, str], place: str = "", group: str = "") -> Iterator[Field]:
    hints, written = typing.get_type_hints(cls, include_extras=True), _docs(cls)
    for entry in dataclasses.fields(cls):
        hint = hints[entry.name]
        positional = typing.get_origin(hint) is Annotated
        hint = typing.get_args(hint)[0] if positional else hint
        own, here = _default_of(entry, default), f"{place}{entry.name}"
        if dataclasses.is_dataclass(hint):
            title = (hint.__doc__ or "").partition(".")[0]
            yield from _fields(hint, own, docs, f"{here}.", title)  # type: ignore[arg-type]
            continue
        kinds = [kind for kind in typing.get_args(hint) if kind is not NoneType]
        optional = NoneType in typing.get_args(hint)
        kind = kinds[0] if optional and len(kinds) == 1 else hint
        if typing.get_origin(kind) is dict and own:
            for name, value in own.items():
                doc = docs.get(name, f"one of {entry.name.replace('_', ' ')}")
                yield Field(f"{here}:{name}", name, type(value), doc, group, value)
            own = {}
        yield Field(here, entry.name, kind, written.get(entry.name, ""), group, own, optional, positional)


def _default_of(entry: dataclasses.Field[Any], default: Any) -> Any:
    if default is not None and default is not dataclasses.MISSING:
        return getattr(default, entry.name)
    return entry.default if entry.default_factory is dataclasses.MISSING else entry.default_factory()


def _build(cls: type[Any], default: Any, given: Mapping[str, Any], place: str) -> Any:
    """Return the dataclass with the values given, the defaults elsewhere."""
    hints, values = typing.get_type_hints(cls), {}
    for entry in dataclasses.fields(cls):
        here, own = f"{place}{entry.name}", _default_of(entry, default)
        if dataclasses.is_dataclass(hints[entry.name]):
            own = _build(hints[entry.name], own, given, f"{here}.")
        elif isinstance(own, dict):
            own = {name: given.get(f"{here}:{name}", value) for name, value in own.items()}
            words = given.get(here, ())
            if len(words) % 2:
                raise ValueError(f"expected pairs of a name and a value, got {' '.join(words)}")
            own |= {name: _number_or_text(word) for name, word in zip(words[::2], words[1::2], strict=True)}
        elif here in given:
            own = tuple(given[here]) if isinstance(given[here], list) else given[here]
        values[entry.name] = own
    return cls(**values)


def _reader(kind: Any, optional: bool) -> Callable[[str], Any]:
    """Return what turns a word into a value of a type."""

    def read(word: str) -> Any:
        if optional and word.lower() == "none":
            return None
        if typing.get_origin(kind) is Literal:
            if word not in (allowed := typing.get_args(kind)):
                raise argparse.ArgumentTypeError(str(unknown_name("value", word, allowed)))
            return word
        try:
            return kind(word)
        except ValueError:
            wanted = {int: "a whole number", float: "a number"}.get(kind, getattr(kind, "__name__", str(kind)))
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {word!r}") from None

    return read


def _number_or_text(word: str) -> float | str:
    try:
        value = float(word)
    except ValueError:
        return word
    return int(value) if math.isfinite(value) and value.is_integer() and "." not in word else value


def _docs(cls: type[Any]) -> dict[str, str]:
    """Return the text below each field of a dataclass, those that it inherits included."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for node, after in itertools.pairwise(body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(after, ast.Expr):
                found[node.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return found
