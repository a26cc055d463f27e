"""The runs that are branched: the same update with every K from one state of a run.

python -m experiments.choice.branches [--workers 2]    runs what is missing in results/branches
"""

from __future__ import annotations

import argparse
import multiprocessing
from dataclasses import replace

from adept.presets import preset
from adept.probe.branches import Branching, branches
from adept.probe.stages import branches_path, write_branches
from paper.measures import ROOT

RESULTS = ROOT / "results" / "branches"
MINIGRID = Branching((1, 2, 4, 8), (10, 20, 40, 80, 160, 240), repeats=12, settle=3, listen=10)
CELLS = [
    ("minigrid/DoorKey-6x6", 3, MINIGRID),  # seeds 1 and 2 meet no reward (docs/training.md): no arm is worth anything
    ("minigrid/DoorKey-6x6", 4, MINIGRID),
    ("minigrid/LavaGapS7", 1, MINIGRID),
    ("minigrid/Empty-16x16", 1, MINIGRID),
]


def run(cell: tuple[str, int, Branching]) -> str:
    """Branch one run, if that was not done before, and return the file's name."""
    task, seed, branching = cell
    path = branches_path(RESULTS, task, seed)
    if not path.exists():
        config = replace(preset(task, scheduler="fixed"), seed=seed)
        write_branches(path, branches(config, branching))
    return path.name


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        for name in pool.imap_unordered(run, CELLS):
            print(name, flush=True)


if __name__ == "__main__":
    main()
