from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def double() -> Iterator[None]:
    """Compute in float64: two ways to one result then differ by far less than any mistake would make them.

    In float32 they may not. Rounding decides which of two places wins under max-pooling, and Adam makes a whole step of
    a gradient that is almost zero; how both turn out depends on the processor.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
