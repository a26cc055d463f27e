"""What every part of the campaign shares: counting, and what counts as a fault."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import random
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from adept.cli import main

HANG_SECONDS = 600
"""Longer than any command here takes on a slow and busy machine."""
EVIL = "evil_module"
"""The module that mutated files name; importing it leaves a file behind."""
STATUSES = (0, 1, 2)

log = logging.getLogger("adept")


class Fault(AssertionError):
    """A traceback, a hang, a silent loss, or a file left behind."""


class Campaign:
    """A folder to work in, a seed, and the number of cases so far."""

    def __init__(self, folder: Path, seed: int = 0, *, go_on: bool = False) -> None:
        self.folder, self.seed, self.cases = folder, seed, 0
        self.go_on = go_on
        self.faults: list[str] = []
        self.victim = folder / "victim.txt"
        self.victim.write_text("precious")
        (folder / f"{EVIL}.py").write_text(f"open({str(folder / 'executed')!r}, 'w').close()\n")

    def rng(self, part: str) -> random.Random:
        """Return the generator of one part: parts do not change each other's cases."""
        return random.Random(f"{self.seed} {part}")

    @contextlib.contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Count one case; whatever it raises, or lets happen outside its folder, is a fault with the case's name."""
        self.cases += 1
        try:
            with hang_limit():
                yield
            self._require_untouched()
        except Exception as error:
            detail = str(error) if isinstance(error, Fault) else traceback.format_exc()
            fault = Fault(f"case {self.cases}, seed {self.seed}: {name}: {detail}")
            if not self.go_on:
                raise fault from error
            self.faults.append(str(fault))
            (self.folder / "executed").unlink(missing_ok=True)
            self.victim.write_text("precious")

    def _require_untouched(self) -> None:
        if (self.folder / "executed").exists():
            raise Fault("a module that only a file names was imported")
        if not self.victim.exists() or self.victim.read_text() != "precious":
            raise Fault("a file outside was changed or deleted")


@contextlib.contextmanager
def hang_limit(seconds: float = HANG_SECONDS) -> Iterator[None]:
    """Raise a fault in the main thread where the block does not end in time."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Fault(f"no end after {seconds:g} seconds")

    old = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def command(words: Sequence[str], allowed: Sequence[int] = STATUSES) -> tuple[int, str, str]:
    """Run `adept` in this process; return its status and what it said on stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(err)
    log.addHandler(handler)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(list(words))
    finally:
        log.removeHandler(handler)
    said = err.getvalue()
    if "\x1b" in said + out.getvalue():
        raise Fault(f"adept {' '.join(words)} sent an escape of someone else's to the terminal")
    if status not in allowed or "Traceback" in said:
        raise Fault(f"adept {' '.join(words)} ended with {status} and said: {said}")
    if status == 2 and not any(line.startswith("adept: ") for line in said.splitlines()):
        raise Fault(f"adept {' '.join(words)} was refused without a word: {said!r}")
    return status, out.getvalue(), said


def contents(folder: Path, ignore: str = "") -> dict[str, bytes | str]:
    """Return every file below a folder by its name; links by where they lead."""
    found: dict[str, bytes | str] = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if ignore and re.search(ignore, name):
            continue
        if file.is_symlink():
            found[name] = os.readlink(file)
        elif file.is_file():
            found[name] = file.read_bytes()
    return found


def require_nothing_left(folder: Path) -> None:
    """Refuse half-written files of processes that are gone."""
    left = [str(file) for file in folder.rglob(".*") if re.fullmatch(r"\.adept\.\d+\..+", file.name)]
    if left:
        raise Fault(f"left behind: {', '.join(left)}")


def forked(work: Callable[[], Any], said: Path) -> int:
    """Start work in a child that shares the modules loaded here, and return its process id; it ends with 0 or 1."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        with open(said, "a") as stream:
            os.dup2(stream.fileno(), 2)
            os.dup2(stream.fileno(), 1)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def ended(child: int, seconds: float) -> int | None:
    """Wait for a child; return its exit status, negative for a signal, or None where it still runs."""
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.002)
