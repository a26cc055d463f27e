"""Reads packed records of the first schema: one stream of shuffled bytes. New files are written by `packing`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from adept.runs.safe_io import Archive

SCHEMA = 1
INDEX = "index.json"


def read(
    archive: Archive, entries: Callable[[bytes, int], list[dict[str, Any]]], exact: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, npt.NDArray[np.float64]]]]:
    """Return the index and each run's columns.

    A column's numbers of all the runs that have it stand one run after the other, bytes of equal weight side by side;
    columns follow each other in the order of their names.
    """
    index, content = entries(archive.read(INDEX), SCHEMA), archive.read("columns")
    found: list[dict[str, npt.NDArray[np.float64]]] = [dict.fromkeys(entry["columns"], np.empty(0)) for entry in index]
    start = 0
    for name in sorted({name for entry in index for name in entry["columns"]}):
        having = [place for place, entry in enumerate(index) if name in entry["columns"]]
        dtype = np.dtype("<f8" if name in exact else "<f4")
        size = dtype.itemsize * sum(index[place]["rows"] for place in having)
        if start + size > len(content):
            raise ValueError(f"the column {name!r} claims more than the file holds")
        weights = np.frombuffer(content, np.uint8, size, start).reshape(dtype.itemsize, -1)
        values = np.ascontiguousarray(weights.T).reshape(-1).view(dtype).astype(np.float64)
        ends = np.cumsum([index[place]["rows"] for place in having])
        for place, part in zip(having, np.split(values, ends[:-1]), strict=True):
            found[place][name] = part
        start += size
    return index, found
