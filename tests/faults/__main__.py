"""The campaign: `python -m tests.faults [--seed N] [--parts NAME …] [--share X]`, or `make faults`.

It counts its cases and ends at the first fault: a traceback, a hang, a silent loss, a file left behind. The same seed
gives the same cases; a fault's message tells the case.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.faults import files, kills, lines
from tests.faults.campaign import Campaign, Fault


def parts(campaign: Campaign, share: float) -> dict[str, Callable[[], None]]:
    """Return the parts of the campaign by name; `share` scales their numbers of cases."""

    def times(count: int) -> int:
        return max(1, round(count * share))

    @functools.cache
    def study() -> Path:
        """Return the tiny study, made when it is first needed."""
        return files.make_study(campaign.folder / "study")

    found: dict[str, Callable[[], None]] = {
        "lines": lambda: lines.mistakes(campaign, times(120)),
        "readers": lambda: files.readers(campaign, study(), times(400)),
        "declared": lambda: files.declared(campaign, study(), times(400)),
        "packed": lambda: files.packed(campaign, study(), times(200)),
        "resumed": lambda: files.resumed(campaign, times(200)),
        "played": lambda: files.played(campaign, times(60)),
        "events": lambda: files.events(campaign, times(300)),
        "reports": lambda: files.reports(campaign, study(), times(6)),
        "failures": lambda: kills.resume_after_failure(campaign),
        "looking": lambda: kills.look_while_starting(campaign, study(), times(10)),
    }
    killed = {name: (campaign, name, config, times(6)) for name, config in kills.families().items()}
    return found | {f"kills: {name}": functools.partial(kills.kill_family, *each) for name, each in killed.items()}


def main(arguments: list[str]) -> int:
    """Run the campaign; return 1 at the first fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="decides every case")
    parser.add_argument("--share", type=float, default=1.0, help="multiplies the numbers of cases")
    parser.add_argument("--parts", nargs="*", default=[], help="beginnings of the parts' names; all by default")
    parser.add_argument("--go-on", action="store_true", help="list every fault instead of ending at the first")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="adept-faults-") as folder:
        os.chdir(folder)
        campaign = Campaign(Path(folder), options.seed, go_on=options.go_on)
        try:
            for name, part in parts(campaign, options.share).items():
                if not options.parts or name.startswith(tuple(options.parts)):
                    before, started = campaign.cases, time.monotonic()
                    part()
                    took = time.monotonic() - started
                    print(f"{name:<36}{campaign.cases - before:>6} cases {took:>7.1f} s", flush=True)
        except Fault as fault:
            print(f"FAULT after {campaign.cases} cases: {fault}", file=sys.stderr)
            return 1
        finally:
            os.chdir("/")
    for fault in campaign.faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    print(f"{campaign.cases} cases, {len(campaign.faults) or 'no'} faults")
    return int(bool(campaign.faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
