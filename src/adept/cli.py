"""The command `adept`: one line per command below; its module holds the options and does the work.

Results go to stdout, everything else to stderr. A mistake of the user's ends in one line and exit status 2.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import math
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adept import __version__
from adept.extras import MissingExtra, require
from adept.names import unknown_name
from adept.options import parse as parse
from adept.terminal import say, set_up_streams, show_status, warn

# One line per command: the module that carries it out, and what it does. The modules load only when asked for.
COMMANDS: dict[str, tuple[str, str]] = {
    "train": ("adept.commands.train", "train an agent, or continue an interrupted run"),
    "eval": ("adept.commands.evaluate", "score a run's policy over many episodes"),
    "play": ("adept.commands.play", "make a video of a run's policy"),
    "study": ("adept.commands.study", "run methods × tasks × seeds; study status DIR, study pack DIR"),
    "advise": ("adept.commands.advise", "recommend changes of a run's learning rate, epochs and rewards"),
    "report": ("adept.commands.report", "statistics, figures and one page from stored runs"),
    "probe": ("adept.commands.probe", "test a scheduler on placebo rewards: does it prefer arms that changed nothing?"),
    "flops": ("adept.commands.flops", "count the compute of an agent and what each arm saves"),
    "demo": (
        "adept.commands.demo",
        "PPO from five learning rates with three methods: a table, a plot, advice and a page in two minutes",
    ),
}

PIPE_CLOSED = 141
"""The status of a command whose reader has gone: 128 + SIGPIPE, as of other programs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    set_up_streams()
    with one_line_warnings():
        try:
            try:
                return _run(list(sys.argv[1:] if arguments is None else arguments))
            finally:
                sys.stdout.flush()  # also where `--help` raises SystemExit
        except BrokenPipeError:
            with contextlib.suppress(OSError, ValueError):  # the interpreter then prints no error at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return PIPE_CLOSED
        except (ValueError, MissingExtra, OSError, MemoryError) as error:
            if os.environ.get("ADEPT_TRACEBACK"):
                raise
            warn(f"adept: {one_line(error)}")
            return 2
        except KeyboardInterrupt:
            warn("adept: interrupted")
            return 130


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        say(usage())
        return 0 if words else 2
    if words[0] == "--version":
        say(f"adept {__version__}")
        return 0
    if words[0] not in COMMANDS:
        raise unknown_name("command", words[0], COMMANDS)
    require("rich", "train")
    run: Callable[[list[str]], int] = importlib.import_module(COMMANDS[words[0]][0]).run
    return run(words[1:])


@contextlib.contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print warnings, and errors in threads and destructors, without the place in the code that they come from."""
    before = warnings.showwarning, threading.excepthook, sys.unraisablehook

    def show(message: Any, *_: Any) -> None:
        warn(f"adept: warning: {one_line(getattr(message, 'exc_value', message))}")

    warnings.showwarning = show  # type: ignore[assignment]
    threading.excepthook = show
    # What cannot be written was said before the object that holds it dies.
    sys.unraisablehook = lambda thrown: None if isinstance(thrown.exc_value, OSError) else show(thrown)
    try:
        yield
    finally:
        warnings.showwarning, threading.excepthook, sys.unraisablehook = before


def usage() -> str:
    """Return the help on the commands."""
    rows = [f"  {name:<8}{help_}" for name, (_, help_) in COMMANDS.items()]
    lines = ["usage: adept COMMAND [OPTIONS]", "", "commands:", *rows, ""]
    return "\n".join([*lines, "`adept COMMAND --help` lists a command's options; `adept --version` the version."])


def one_line(error: object) -> str:
    """Return an error's message on one line, with what was noted on its way here."""
    notes = getattr(error, "__notes__", ())
    return " ".join("; ".join([str(error) or type(error).__name__, *notes]).split())


@contextlib.contextmanager
def loading(what: str, module: str = "torch") -> Iterator[None]:
    """Show "loading …" on a terminal during slow imports, without garbage collections: a tenth of their time."""
    show_status(f"loading {what} …" if module not in sys.modules else "")
    gc.disable()
    try:
        require(module, "train")
        yield
    finally:
        gc.freeze()  # what was loaded stays
        gc.enable()
        show_status("")


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
    """Print one JSON object for scripts, with null where there is no number."""

    def safe(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: safe(each) for name, each in value.items()}
        if isinstance(value, tuple | list):
            return [safe(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    say(json.dumps(safe(values), default=str))


if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]  # `python -m` puts the current folder there
    sys.exit(main())
