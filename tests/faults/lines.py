"""Command lines that cannot be meant: each ends in one line and status 2, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.faults.campaign import EVIL, Campaign, Fault, command
from tests.faults.mistakes import MISTAKES

WORDS = (
    "", "-1", "0", "nan", "inf", "-inf", "1e400", "9" * 30, "x", "None", "--", "-", "--help=", "\0", "é", "../..", "/",
    f"{EVIL}:", ":x", ".x:y", "a/b/c", "[1]", "{}", "--json", "=", " ", "minigrid/", "/x", "cuda:-1", "mps", "xla",
)  # fmt: skip
"""Values that options are given in turn."""


@contextlib.contextmanager
def empty_folder() -> Iterator[Path]:
    """Stand in an empty folder meanwhile."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def mistakes(campaign: Campaign, count: int) -> None:
    """Run the table of known mistakes, and lines of it with words exchanged at random."""
    rng = campaign.rng("lines")
    known = [(words, message, True) for words, message in rng.sample(MISTAKES, min(count, len(MISTAKES)))]
    others = [(mutated(rng), "", False) for _ in range(count)]
    for words, message, certain in (*known, *others):
        with campaign.case(f"adept {' '.join(words)}"), empty_folder() as folder:
            try:
                status, _, said = command(words)
            except SystemExit as leaving:  # of --help
                status, said = int(leaving.code or 0), ""
            if certain and (status != 2 or message not in said or said.count("\n") != 1):
                raise Fault(f"status {status}, said {said!r}, expected {message!r}")
            if status == 2 and list(folder.iterdir()):
                raise Fault(f"left behind: {sorted(file.name for file in folder.iterdir())}")


def mutated(rng: random.Random) -> list[str]:
    """Return a known mistake with some words exchanged, gone or added; none of them runs anything."""
    words = list(rng.choice([words for words, _ in MISTAKES]))
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(1, len(words) + 1)
        match rng.randrange(3):
            case 0:
                words.insert(at, rng.choice(WORDS))
            case 1 if at < len(words):
                words[at] = rng.choice(WORDS)
            case _ if at < len(words) and len(words) > 2:
                del words[at]
    if words[0] in ("train", "study", "demo"):  # an accident must not run for minutes
        words += ["--out", "/proc/nowhere"] if "--help" not in words else []
    return words
