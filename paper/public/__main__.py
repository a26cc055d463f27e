"""Write results/procgen-public from a folder of the published records."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from adept.runs.safe_io import write_aside
from paper.public import figures, tables
from paper.public.claims import FOLDER, Public


def made(data: Path) -> dict[str, list[tables.Row]]:
    """Return the committed tables, by name, from the records."""
    runs = tables.read_ppo(data)
    return {
        "placebo": tables.placebo_table(runs),
        "epochs": tables.epochs_table(tables.read_ppg(data)),
        "ppo": tables.ppo_table(runs),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write tables and figures."""
    parser = argparse.ArgumentParser(prog="python -m paper.public", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {tables.PPO_FILE}, {tables.PPG_FILE}")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args(arguments)
    try:
        found = made(options.data)
        records = tables.read_ppg(options.data)
    except ValueError as error:
        print(f"paper.public: {error}", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    public = Public(**found)
    drawn = (figures.placebo_figure(public), figures.epochs_figure(records, public), figures.gap_figure(public))
    for drawing in drawn:
        for name, content in drawing.files().items():
            if not name.endswith(".csv"):  # drawn from the tables, but for the curves
                write_aside(options.out / name, lambda file, content=content: file.write(content))  # type: ignore[misc]
    write_aside(options.out / "epochs-curves.csv", drawn[1].files()["epochs.csv"].decode())
    for name, rows in found.items():
        write_aside(options.out / f"{name}.csv", tables.csv_of(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
