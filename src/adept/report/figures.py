"""Figures as files: PNG and SVG with the CSV of what they draw and a caption, the same bytes from the same records."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adept.report.analysis import Analysis
from adept.report.statistics import Array
from adept.report.style import Look, looks
from adept.report.tables import Block, csv_text
from adept.report.text import counted, listing, readable, wrapped

SHEET = Path(__file__).parent / "assets" / "figures.mplstyle"
STYLE = matplotlib.rc_params_from_file(SHEET, use_default_template=False)
SOFT, FRAME, GRID = (str(STYLE[key]) for key in ("axes.labelcolor", "axes.edgecolor", "grid.color"))
WIDTH = 7.6
LEGEND_LINES = 8
"""Lines of a legend that a figure has room for."""


@contextlib.contextmanager
def our_style() -> Iterator[None]:
    """Draw as figures.mplstyle says, whatever a matplotlibrc in the current folder or at home does."""
    with matplotlib.style.context(SHEET, after_reset=True):
        yield


@dataclass(frozen=True)
class Drawing:
    """A figure, what it shows, and the table of what it draws."""

    name: str
    title: str
    caption: str
    figure: Figure
    rows: Sequence[Block]
    section: str = ""
    """where the page shows it; what the page draws itself is a file alone"""

    def files(self) -> dict[str, bytes]:
        """Return the figure's files by name."""
        return {f"{self.name}.png": self._saved("png"), f"{self.name}.svg": self.svg.encode(),
                f"{self.name}.csv": csv_text(self.rows).encode()}  # fmt: skip

    @cached_property
    def svg(self) -> str:
        """The figure as SVG, its coordinates to a tenth of a point."""
        return re.sub(r'="[^"]*\d\.\d{3}[^"]*"', _rounded, self._saved("svg").decode())

    def _saved(self, ending: str) -> bytes:
        metadata = {"Software": None} if ending == "png" else {"Date": None, "Creator": None}
        buffer = io.BytesIO()
        with our_style():
            self.figure.savefig(buffer, format=ending, metadata=metadata, bbox_inches="tight", pad_inches=0.08)
        return buffer.getvalue()


def _rounded(attribute: re.Match[str]) -> str:
    return re.sub(r"-?\d+\.\d{3,}", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), attribute[0])


@dataclass(frozen=True)
class Pen:
    """What every figure needs: the findings and how methods look."""

    analysis: Analysis
    looks: dict[str, Look]
    _marks: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def names(self) -> list[str]:
        """All methods, in order."""
        return list(self.looks)

    def label(self, name: str) -> str:
        """Return how a method is called, in lines that fit into a figure."""
        return wrapped(self.analysis.comparison.label(name))

    def row(self, height: float) -> float:
        """Return the height of a method's row: more than the one given where a name takes several lines."""
        return max(height, 0.14 * max(1 + self.label(name).count("\n") for name in self.names))

    def mark(self, name: str, *artists: Artist) -> None:
        """Name what is drawn of a method, so that the page can pick it out."""
        for artist in artists:
            artist.set_gid(f"m{self.names.index(name)}-{next(self._marks)}")

    def line(self, axes: Axes, name: str, x: Array, y: Array, low: Array, high: Array) -> None:
        """Draw a method's curve and its band."""
        look = self.looks[name]
        band = axes.fill_between(x, low, high, color=look.light, alpha=0.13, linewidth=0)
        lines = axes.plot(
            x, y, color=look.light, linewidth=look.width, dashes=look.dash or (None, None), label=self.label(name)
        )
        self.mark(name, band, *lines)

    def count(self, tasks: Iterable[str] | None = None) -> str:
        """Say how many finished runs stand behind each method."""
        comparison, here = self.analysis.comparison, tuple(tasks or self.analysis.comparison.tasks)
        few = []
        for name in self.names:
            done = sum(len(comparison.finished(name, task)) for task in here)
            planned = sum(len(comparison.planned(name, task)) for task in here)
            few += [f"{comparison.label(name)} {done}/{planned}"] if done < planned else []
        text = f"n = {comparison.seeds(here)} × {counted(len(here), 'task')}"
        return text + (f"; unfinished runs are left out: {listing(few)}." if few else ".")


def new_figure(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure with a grid of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, [list(row) for row in figure.subplots(rows, columns, squeeze=False, **options)]


def panel_figure(
    count: int, most: int, width: float, height: float, y: str = "", x: str = "", **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of small panels, labelled at the left and at the bottom, and those that are used."""
    columns = min(most, count) if count != 4 else 2
    lines = -(-count // columns)
    figure, grid = new_figure(lines, columns, width, 0.6 + height * lines, **options)
    flat = [axes for row in grid for axes in row]
    for axes in flat[count:]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel(y)
    for axes in grid[-1]:
        axes.set_xlabel(x)
    return figure, flat[:count]


def legend(figure: Figure, columns: int = 4) -> None:
    """Put one legend above all panels: that of the panel with the most labels. A long one makes the figure higher."""
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles, labels = max(found, key=lambda entry: len(entry[1]))
    columns = min(columns, len(labels))
    length = -(-len(labels) // columns)
    lines = max(sum(1 + label.count("\n") for label in labels[at : at + length])
                for at in range(0, len(labels), length))  # fmt: skip
    figure.set_figheight(figure.get_figheight() + 0.15 * max(0, lines - LEGEND_LINES))
    figure.legend(handles, labels, loc="outside upper left", ncols=columns, fontsize=8, handlelength=2.6,
                  columnspacing=1.4)  # fmt: skip


def step_axis(axes: Axes, label: str | None = "environment steps") -> None:
    """Write large numbers on the horizontal axis with letters."""
    axes.xaxis.set_major_formatter(lambda value, _: readable(float(value)) if value else "0")
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4))
    if label is not None:
        axes.set_xlabel(label)


def draw_all(analysis: Analysis) -> list[Drawing]:
    """Draw every figure that the records allow."""
    from adept.report.plots import DRAWINGS

    pen = Pen(analysis, looks(analysis.comparison))
    with our_style():
        return [drawing for draw in DRAWINGS for drawing in draw(pen)]
