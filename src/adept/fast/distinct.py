"""What is equal is computed once: a pass over the distinct observations of a minibatch.

The views of a small grid world repeat: of the 2048 rows of a first rollout in DoorKey-6x6 some 200 are distinct. What a
network gives depends on the observation alone, and the gradients of equal rows add up at its output.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from adept.fast.passes import Pass

GRAIN = 32
"""Distinct rows are filled up to a multiple of this, so that few sizes of memory serve all minibatches."""


def distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows in the order of their first appearance, and each row's number among them."""
    numbers: dict[bytes, int] = {}
    numbered = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows.numpy()])
    first = np.unique(numbered, return_index=True)[1]
    return rows.index_select(0, torch.from_numpy(first)), torch.from_numpy(numbered)


class DistinctPass:
    """Run a pass of a fitting size over distinct observations, and spread its outputs over the rows."""

    def __init__(self, make: Callable[[int], Pass], grain: int = GRAIN) -> None:
        self._make, self._grain = make, grain
        self._passes: dict[int, Pass] = {}
        self._table = self._inverse = torch.empty(0)

    def prepare(self, observations: Tensor) -> Tensor:
        """Number the distinct observations; return each row's number."""
        return self.number(*distinct(observations))

    def number(self, table: Tensor, numbers: Tensor) -> Tensor:
        """Take distinct observations that were numbered before; return each row's number."""
        self._table = table.flatten(1)
        return numbers

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs of rows given by number."""
        numbers = rows.numpy()
        counts = np.bincount(numbers, minlength=len(self._table))
        distinct = np.flatnonzero(counts)
        counts[distinct] = np.arange(len(distinct))
        self._inverse = torch.from_numpy(counts[numbers])
        size = -(-len(distinct) // self._grain) * self._grain
        if size not in self._passes:
            self._passes[size] = self._make(size)
        self._pass = self._passes[size]
        filled = np.zeros(size, np.int64)
        filled[: len(distinct)] = distinct
        outputs, values = self._pass.forward(self._table.index_select(0, torch.from_numpy(filled)))
        self._size = size
        return outputs.index_select(1, self._inverse), values.index_select(1, self._inverse)

    def backward(self, actor: Tensor, critic: Tensor) -> None:
        """Add up the gradients of equal rows, and set those of all layers."""
        self._pass.backward(*(self._added(gradient) for gradient in (actor, critic)))

    def _added(self, gradient: Tensor) -> Tensor:
        return torch.zeros(len(gradient), self._size).index_add_(1, self._inverse, gradient)
