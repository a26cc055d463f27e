"""Where records go besides the run's folder: TensorBoard always, Weights & Biases if asked for."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

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


@contextlib.contextmanager
def tracking(
    config: Config, path: Path, resumed: tuple[float, int], *, wandb: bool
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Give a function that shows a record; `resumed` are the seconds and the step from which the run goes on."""
    require("tensorboard", "train")
    from torch.utils.tensorboard import SummaryWriter

    # Events after the step resumed from are of the work that is done again: TensorBoard drops them.
    writer = SummaryWriter(str(path), purge_step=resumed[1] + 1 if resumed[1] else None)
    run: Any = None
    if wandb:
        values = config.__dict__ | {"run": config.id}
        run = require("wandb", "wandb").init(
            project="adept", id=config.id, name=path.name, config=values, resume="allow", dir=str(path)
        )
    previous: tuple[float, float] = resumed

    def track(record: Mapping[str, Any]) -> None:
        nonlocal previous
        found, step = dict(scalars(record, *previous)), int(record["step"])
        for tag, value in found.items():
            writer.add_scalar(tag, value, step)
        if run is not None:
            run.log(found, step=step)
        previous = record["seconds"], record["step"]

    try:
        yield track
    finally:
        writer.close()
        if run is not None:
            run.finish()
