"""Write the generated blocks of the docs and of results/*/README.md, and their figures, from the committed records.

python -m experiments [PAGE …]    writes all pages, or some of them, and the figures
python -m experiments --check     says what no longer follows from the records, exit 1 if so

A block stands between `<!-- results: NAME -->` and `<!-- end of results -->`. A room gives its blocks as `BLOCKS`,
functions by name, and its figures as `drawings()`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from adept.report.figures import Drawing
from adept.runs.safe_io import write_aside
from experiments.advice import directions, followed
from experiments.choice import page as choice
from experiments.full_budget import page as full_budget
from experiments.procgen_watch import page as procgen_watch
from experiments.stable_baselines3 import advice, learning, savings, starts
from experiments.start_anywhere import analysis as start_anywhere
from experiments.tournament import page as tournament
from experiments.truth import page as truth
from paper import blocks as paper
from paper.measures import RESULTS, ROOT

BLOCKS: Mapping[str, Callable[[], str]] = {
    **paper.BLOCKS,
    **choice.BLOCKS,
    **procgen_watch.BLOCKS,
    **tournament.BLOCKS,
    **truth.BLOCKS,
    **learning.BLOCKS,
    **advice.BLOCKS,
    **savings.BLOCKS,
    **starts.BLOCKS,
    "advice": directions.table,
    "advice-followed": followed.block,
    **start_anywhere.BLOCKS,
    **full_budget.BLOCKS,
}
DRAWINGS: Mapping[Path, Callable[[], Sequence[Drawing]]] = {
    RESULTS / "choice": choice.drawings,
    RESULTS / "tournament-2" / "figures": tournament.drawings,
    RESULTS / "hindsight": truth.drawings,
    RESULTS / "learning": learning.drawings,
}
MARKER = re.compile(r"(<!-- results: (\S+) -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)
content = cache(lambda name: BLOCKS[name]().strip())


def pages() -> list[Path]:
    """Return the pages that may have blocks."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(RESULTS.glob("**/README.md"))]


def filled(text: str, block: Callable[[str], str] = content) -> str:
    """Return a page with the content of its marked blocks replaced; an unknown block is an error."""
    return MARKER.sub(lambda found: f"{found[1]}\n{block(found[2])}\n\n{found[4]}", text)


def figures() -> Iterator[tuple[Path, bytes]]:
    """Yield the files of every figure."""
    for folder, draw in DRAWINGS.items():
        for drawing in draw():
            yield from ((folder / name, data) for name, data in drawing.files().items() if data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write everything, or with --check say what no longer follows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="these pages alone, and no figures")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    new = {page: filled(page.read_text(encoding="utf-8")).encode() for page in options.pages or pages()}
    stale = [page for page, text in new.items() if page.read_bytes() != text]
    if not options.pages:
        drawn = dict(figures())
        new |= drawn
        # Pictures depend on the version of matplotlib; the tables of what they draw do not.
        tables = {path: data for path, data in drawn.items() if path.suffix == ".csv"}
        stale += [path for path, data in tables.items() if not path.exists() or path.read_bytes() != data]
    if options.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} no longer follows from the records")
        return int(bool(stale))
    for path, data in new.items():
        write_aside(path, lambda file, data=data: file.write(data))  # type: ignore[misc]
    return 0


if __name__ == "__main__":
    sys.exit(main())
