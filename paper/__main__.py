"""Write the generated blocks of docs/paper.md, docs/results.md and the README, and their figures, or check them."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from adept.report.figures import Drawing
from adept.runs.safe_io import write_aside
from paper import appendix, blocks, choices, figures
from paper.measures import ROOT, Evidence, load
from paper.procgen import monitor_block
from paper.tournament import page
from paper.tournament.field import load_tournaments

PAGES = (*(ROOT / "docs" / name for name in ("paper.md", "results.md", "results-appendix.md")), ROOT / "README.md")
FIGURES = ROOT / "results" / "choice"
MARKER = re.compile(r"(<!-- results: (\S+) -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)


def filled(text: str, content: dict[str, str]) -> str:
    """Return a page with the content of its marked blocks replaced; an unknown block is an error."""
    return MARKER.sub(lambda found: f"{found[1]}\n{content[found[2]].strip()}\n\n{found[4]}", text)


def drawings(minigrid: Evidence | None, pybullet: Evidence | None) -> list[Drawing]:
    """Draw what the records allow."""
    found = []
    for evidence in (minigrid, pybullet):
        if evidence is not None:
            names = [name for name in blocks.PLACEBOS[evidence.results.study.name] if evidence.has(name)]
            tables = [entry for name in names for entry in choices.preferences(evidence, name)]
            labels = {name: evidence.comparison.label(name).removeprefix("PPO+") for name in names}
            if tables:
                found.append(figures.placebo_figure(evidence.results.study.name, tables, labels))
    stages = choices.stages()
    for backend in ("minigrid", "pybullet"):
        own = [stage for stage in stages if stage.task.startswith(backend)]
        if own:
            found.append(figures.branch_figure(backend, own))
    if minigrid is not None and minigrid.has(appendix.ONE_RUN[0]):
        found.append(figures.run_figure(minigrid, *appendix.ONE_RUN))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write everything, or with --check say what no longer follows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say what no longer follows, exit 1 if so")
    options = parser.parse_args(arguments)
    minigrid, pybullet, procgen = (load(name) for name in ("minigrid", "pybullet", "procgen-cpu"))
    studies, tournaments = (minigrid, pybullet, procgen), load_tournaments()
    content = blocks.all_blocks(*studies, tournaments) | appendix.appendix_blocks(minigrid, pybullet)
    content["procgen-watch"] = monitor_block(load("procgen-watch"))
    stale: list[Path] = []
    for file in PAGES:
        text = file.read_text(encoding="utf-8")
        new = filled(text, content)
        if new != text:
            stale.append(file)
            if not options.check:
                write_aside(file, new)
    drawn = [(FIGURES, drawing) for drawing in drawings(minigrid, pybullet)]
    for tournament in tournaments[:1]:
        drawn += [(page.figures_of(tournament), drawing) for drawing in page.tournament_drawings(tournament)]
    for folder, drawing in drawn:
        for name, data in drawing.files().items():
            path = folder / name
            # Pictures depend on the version of matplotlib; the tables of what they draw do not.
            if path.suffix == ".csv" and (not path.exists() or path.read_bytes() != data):
                stale.append(path)
            if not options.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_aside(path, lambda file, data=data: file.write(data))  # type: ignore[misc]
    for path in stale if options.check else []:
        print(f"{path.relative_to(ROOT)} no longer follows from the records")
    return int(bool(options.check and stale))


if __name__ == "__main__":
    sys.exit(main())
