"""Where records go besides the run's folder: TensorBoard always, Weights & Biases if asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from adept.config import Config
from adept.extras import require
from adept.records import tag_of


def scalars(record: Mapping[str, Any], previous_seconds: float, previous_step: float) -> Iterator[tuple[str, float]]:
    """Yield a record's numbers under their tags (`adept.records`); what is not a number is left out."""
    elapsed = record["seconds"] - previous_seconds
    if elapsed > 0:
        yield "charts/SPS", (record["step"] - previous_step) / elapsed
    for name, value in record.items():
        if (tag := tag_of(name)) and isinstance(value, int | float) and math.isfinite(value):
            yield tag, float(value)


class Tracker(Protocol):
    """Take records as they come."""

    def log(self, record: Mapping[str, Any]) -> None:
        """Show one record."""

    def close(self) -> None:
        """Write out what is held back."""


class TensorBoard:
    """Write TensorBoard events into the run's folder."""

    def __init__(self, path: Path, resumed_step: int) -> None:
        require("tensorboard", "train")
        from torch.utils.tensorboard import SummaryWriter

        # Events after the step resumed from are of the work that is done again: TensorBoard drops them.
        self._writer = SummaryWriter(str(path), purge_step=resumed_step + 1 if resumed_step else None)
        self._last = (0.0, float(resumed_step))

    def log(self, record: Mapping[str, Any]) -> None:
        """Write one record's scalars at its step."""
        for tag, value in scalars(record, *self._last):
            self._writer.add_scalar(tag, value, int(record["step"]))
        self._last = (record["seconds"], record["step"])

    def close(self) -> None:
        """Flush the events."""
        self._writer.close()


class WeightsAndBiases:
    """Log to Weights & Biases, one run per run's folder."""

    def __init__(self, config: Config, path: Path) -> None:
        wandb = require("wandb", "wandb")
        values = config.__dict__ | {"run": config.id}
        self._run = wandb.init(
            project="adept", id=config.id, name=path.name, config=values, resume="allow", dir=str(path)
        )
        self._last = (0.0, 0.0)

    def log(self, record: Mapping[str, Any]) -> None:
        """Log one record's scalars at its step."""
        self._run.log(dict(scalars(record, *self._last)), step=int(record["step"]))
        self._last = (record["seconds"], record["step"])

    def close(self) -> None:
        """Finish the run there."""
        self._run.finish()
