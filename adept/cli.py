"""The command `adept`: train, eval, play, study, report, flops and demo.

Results go to stdout, everything else to stderr. A mistake of the user's ends in one line and exit status 2.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import io
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from adept import __version__
from adept.extras import MissingExtra, require
from adept.names import unknown_name

# One line per command: the module that carries it out, and what it does. The modules load only when asked for.
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("adept.commands.train", "train an agent, or continue an interrupted run"),
    "eval": ("adept.commands.evaluate", "score a run's policy over many episodes"),
    "play": ("adept.commands.play", "make a video of a run's policy"),
    "study": ("adept.commands.study", "run methods × tasks × seeds; study status DIR, study pack DIR"),
    "advise": ("adept.commands.advise", "say what a run's epochs and learning rate were worth, and what to try"),
    "report": ("adept.commands.report", "statistics, figures and one page from stored runs"),
    "probe": ("adept.commands.probe", "say whether a scheduler prefers arms on rewards that it cannot have changed"),
    "flops": ("adept.commands.flops", "count the compute of an agent and what each arm saves"),
    "demo": ("adept.commands.demo", "a small study from nothing to its report, in under three minutes"),
}

Options = TypeVar("Options")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"adept {__version__}")
        return 0
    sys.path.append(str(Path.cwd()))  # for schedulers of the user's own, by package.module:Class
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        if words[0] not in COMMANDS:
            raise unknown_name("command", words[0], COMMANDS)
        require("tyro", "train")
        require("torch", "train")
        run: Callable[[list[str]], int] = importlib.import_module(COMMANDS[words[0]][0]).run
        return run(words[1:])
    except (ValueError, MissingExtra, OSError) as error:
        if os.environ.get("ADEPT_TRACEBACK"):
            raise
        print(f"adept: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("adept: interrupted", file=sys.stderr)
        return 130


def usage() -> str:
    """Return the help on the commands."""
    rows = [f"  {name:<8}{help_}" for name, (_, help_) in COMMANDS.items()]
    lines = ["usage: adept COMMAND [OPTIONS]", "", "commands:", *rows, ""]
    return "\n".join([*lines, "`adept COMMAND --help` lists a command's options; `adept --version` the version."])


def one_line(error: BaseException) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def parse(
    cls: type[Options], command: str, words: list[str], default: Options | None = None, description: str | None = None
) -> Options:
    """Read a command's options into its dataclass, whose field docs are the help; a mistake is one line."""
    import tyro

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            flat = (tyro.conf.OmitArgPrefixes,)
            prog = f"adept {command}"
            found = tyro.cli(cls, prog=prog, args=words, default=default, description=description, config=flat)
            assert isinstance(found, cls)
            return found
    except SystemExit as stop:
        if not stop.code:
            raise
        raise ValueError(f"{command}: {_own_error(stop) or _unboxed(said.getvalue())}") from None


def _own_error(error: BaseException) -> str | None:
    """Return the message of the `ValueError` of ours that the parser stumbled over, if it did."""
    cause: BaseException | None = error
    while cause is not None:
        frames = traceback.extract_tb(cause.__traceback__)
        if type(cause) is ValueError and frames and Path(frames[-1].filename).is_relative_to(Path(__file__).parent):
            return one_line(cause)
        cause = cause.__cause__ or cause.__context__
    return None


def _unboxed(text: str) -> str:
    """Return the gist of the parser's framed message: what is wrong, and what it may have meant."""
    parts: list[list[str]] = [[]]
    for line in (line.strip("│╭╮╰╯|+ \t") for line in text.splitlines()):
        if line and set(line) <= {"─", "-"}:
            parts.append([])
        elif line and not line.startswith(("─ ", "- ")):  # the title in the frame
            parts[-1].append(line)
    told = [" ".join(part) for part in parts if ":" in " ".join(part)]  # without a frame, the title is a part too
    gist = told[0] if told else "bad arguments"
    meant = re.search(r"Perhaps you meant: (--\S+)", " ".join(" ".join(part) for part in parts))
    gist = gist[0].lower() + gist[1:]
    return f"{gist}; did you mean {meant[1]}?" if meant else f"{gist}; see --help"


def given(words: list[str], *names: str) -> dict[str, str]:
    """Return the values of some options before the rest is read, since the defaults of others follow from them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in names:
        parser.add_argument(f"--{name}")
    try:
        found = parser.parse_known_args(words)[0]
    except argparse.ArgumentError as error:
        raise ValueError(one_line(error)) from None
    return {name: value for name, value in vars(found).items() if value is not None}


def print_json(values: Any) -> None:
    """Print one JSON object for scripts."""
    if dataclasses.is_dataclass(values) and not isinstance(values, type):
        values = dataclasses.asdict(values)
    print(json.dumps(values, allow_nan=False, default=str))


if __name__ == "__main__":
    sys.exit(main())
