"""Figures as files: PNG and SVG with the CSV of what they draw and a caption, the same bytes from the same records."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adept.report.analysis import Analysis
from adept.report.curves import readable, spread
from adept.report.style import Look, looks
from adept.report.tables import csv_text

Array = npt.NDArray[np.float64]

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9aa0a6",
    "axes.labelcolor": "#4a4f57",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e8eb",
    "grid.linewidth": 0.7,
    "xtick.color": "#4a4f57",
    "ytick.color": "#4a4f57",
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 160,
    "svg.hashsalt": "adept",
    "svg.fonttype": "path",
    "path.simplify": True,
    "text.parse_math": False,  # names are never formulas
}
INTERVAL = "95 % stratified bootstrap interval (seeds resampled within each task)"
SMOOTHING = "Scores are means of the last 100 training episodes; there is no other smoothing."
WIDTH = 7.6


@dataclass(frozen=True)
class Drawing:
    """A figure, what it shows, and the table of what it draws."""

    name: str
    title: str
    caption: str
    figure: Figure
    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def files(self) -> dict[str, bytes]:
        """Return the figure's files by name."""
        found: dict[str, bytes] = {}
        with matplotlib.rc_context(STYLE):
            for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
                buffer = io.BytesIO()
                self.figure.savefig(buffer, format=ending, metadata=metadata, bbox_inches="tight", pad_inches=0.08)
                found[f"{self.name}.{ending}"] = buffer.getvalue()
        found[f"{self.name}.csv"] = csv_text(self.header, self.rows).encode()
        return found


@dataclass(frozen=True)
class Pen:
    """What every figure needs: the findings and how methods look."""

    analysis: Analysis
    looks: dict[str, Look]

    @property
    def names(self) -> list[str]:
        """All methods, in order."""
        return [method.name for method in self.analysis.comparison.methods]

    def label(self, name: str) -> str:
        """Return how a method is called, cut where a figure has no room for more."""
        return clip(self.analysis.comparison.label(name))

    def line(self, axes: Axes, name: str, x: Array, y: Array, low: Array, high: Array) -> None:
        """Draw a method's curve and its band."""
        look = self.looks[name]
        axes.fill_between(x, low, high, color=look.light, alpha=0.13, linewidth=0)
        axes.plot(
            x, y, color=look.light, linewidth=look.width, dashes=look.dash or (None, None), label=self.label(name)
        )

    def count(self, tasks: Iterable[str] | None = None) -> str:
        """Say how many finished runs stand behind each method."""
        comparison = self.analysis.comparison
        here = tuple(tasks or comparison.tasks)
        counts = {}
        for name in self.names:
            done = [len(comparison.finished(name, task)) for task in here if comparison.planned(name, task)]
            planned = [len(comparison.planned(name, task)) for task in here if comparison.planned(name, task)]
            counts[name] = (sum(done), sum(planned))
        few = [f"{self.analysis.comparison.label(name)} {done}/{planned}" for name, (done, planned) in counts.items()
               if done < planned]  # fmt: skip
        seeds = sorted({len(comparison.planned(name, task)) for name in self.names for task in here} - {0})
        text = f"n = {' to '.join(map(str, seeds[:: max(1, len(seeds) - 1)]))} seeds × {len(here)} tasks"
        return text + (f", of which unfinished runs are left out: {', '.join(few)}." if few else ".")


def clip(text: str, most: int = 40) -> str:
    """Cut a long name; tables and the page have it whole."""
    return text if len(text) <= most else text[: most - 1] + "…"


def new_figure(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure with a grid of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, [list(row) for row in axes]


def panels(count: int, most: int = 4) -> tuple[int, int]:
    """Return rows and columns for a number of small panels."""
    columns = min(most, count) if count != 4 else 2
    return -(-count // columns), columns


def legend(figure: Figure, axes: Axes, columns: int = 4) -> None:
    """Put one legend above all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=min(columns, len(labels)), fontsize=8,
                  handlelength=2.6, columnspacing=1.4)  # fmt: skip


def direct_labels(axes: Axes, ends: dict[str, float], pen: Pen, height: float, size: float = 8) -> None:
    """Write each method's name at the end of its curve, moved apart on axes of a height in inches."""
    low, high = axes.get_ylim()
    gap = (high - low) * size * 1.35 / 72 / height
    places = spread(list(ends.values()), gap)
    for (name, _), place in zip(ends.items(), places, strict=True):
        axes.annotate(pen.label(name), (1.0, place), xycoords=("axes fraction", "data"), xytext=(5, 0),
                      textcoords="offset points", va="center", fontsize=size, color=pen.looks[name].light,
                      annotation_clip=False)  # fmt: skip


def step_axis(axes: Axes, label: str = "environment steps") -> None:
    """Write large numbers on the horizontal axis with letters."""
    axes.xaxis.set_major_formatter(lambda value, _: readable(float(value)) if value else "0")
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
    axes.set_xlabel(label)


def draw_all(analysis: Analysis) -> list[Drawing]:
    """Draw every figure that the records allow."""
    from adept.report.drawings import DRAWINGS

    pen = Pen(analysis, looks(analysis.comparison))
    found: list[Drawing] = []
    with matplotlib.rc_context(STYLE):
        for draw in DRAWINGS:
            found += draw(pen)
    return found


Draw = Callable[[Pen], list[Drawing]]
