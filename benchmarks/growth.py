"""How does cost grow? Steps per second, memory and seconds per update against the size of what is run.

    python -m benchmarks.growth            measures, writes results/throughput/growth.csv and draws growth.png
    python -m benchmarks.growth --draw     draws it again

One size grows while the others stay: environments, rollout length and parameters. Each point is a process of its own,
which runs one iteration to warm up and then at least three; seconds are CPU seconds of the fastest. Growth is the
exponent b of seconds ~ size^b between a point and the one before it: 1 is linear. Costs of studies are read from
studies.csv beside it, if that has been measured.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

from adept.config import Config, Execution
from adept.networks import NETWORKS, ActionDistribution, Heads, MlpNetwork
from adept.presets import preset
from adept.rollout import Rollout
from adept.rules import Settings
from adept.training import Trainer, Update
from benchmarks.tables import RESULTS, read, write

ENV = "envpool/CartPole-v1"
ENVIRONMENTS = (1, 4, 16, 64, 256, 1024, 4096)
ROLLOUT_LENGTHS = (32, 128, 512, 2048, 8192)
WIDTHS = (64, 220, 705, 2235)
"""Units of both layers of both towers: about 10 thousand to 10 million parameters."""
MINIBATCHES, EPOCHS = 4, 4
AT_LEAST, REPEATS = 0.5, 3
"""CPU seconds, and iterations, that a point is measured on at least."""


def wide(width: int) -> type[MlpNetwork]:
    """Return the network of vectors with layers of another width."""

    class Wide(MlpNetwork):
        """Actor and critic of two layers of `width` tanh units each."""

        def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
            super().__init__(shape, distribution)

            def tower(outputs: int) -> nn.Sequential:
                layers = (nn.Linear(math.prod(shape), width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
                return nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, outputs))

            self.heads = Heads(distribution, tower(distribution.outputs), tower(1))

    return Wide


def configure(environments: int = 8, rollout_length: int = 128) -> Config:
    """Return a run with as many minibatches whatever its size, whose policy stays random.

    A policy that learns has fewer episodes to restart, and would learn more where more iterations are measured.
    """
    rows = environments * rollout_length
    return replace(
        preset(ENV, scheduler="fixed"), epochs=EPOCHS, environments=environments, rollout_length=rollout_length,
        minibatch_size=max(1, rows // MINIBATCHES), learning_rate=1e-12, network="mlp", steps=1000 * rows,
    )  # fmt: skip


def points() -> Iterator[tuple[str, int, Config]]:
    """Yield what grows, its size (of a network the width), and the run."""
    for environments in ENVIRONMENTS:
        yield "environments", environments, configure(environments, 32)
    for rollout_length in ROLLOUT_LENGTHS:
        yield "rollout_length", rollout_length, configure(rollout_length=rollout_length)
    for width in WIDTHS:
        yield "parameters", width, configure()


def measure(config: Config, width: int | None, answer: Any) -> None:
    """Send the seconds of an iteration and of its update, the parameters, and the memory that the run added."""
    if width is not None:
        NETWORKS["mlp"] = wide(width)  # in this process alone
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trainer = Trainer(config, Execution(device="cpu"))
    update, updating = trainer._update, 0.0

    def timed(rollout: Rollout, settings: Settings) -> Update:
        nonlocal updating
        started = time.process_time()
        made = update(rollout, settings)
        updating = time.process_time() - started
        return made

    trainer._update = timed  # type: ignore[method-assign]
    records = iter(trainer)
    next(records)
    times: list[tuple[float, float]] = []
    while len(times) < REPEATS or sum(seconds for seconds, _ in times) < AT_LEAST:
        started = time.process_time()
        next(records)
        times.append((time.process_time() - started, updating))
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    answer.send((*min(times), sum(each.numel() for each in trainer.network.parameters()), added / 1024))


def row(grows: str, size: int, config: Config) -> dict[str, Any]:
    """Measure a point in a process of its own, which starts with everything imported."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=measure, args=(config, size if grows == "parameters" else None, sender))
    process.start()
    sender.close()
    seconds, updated, parameters, memory = receiver.recv()
    process.join()
    return {
        "grows": grows,
        "size": parameters if grows == "parameters" else size,
        "environments": config.environments,
        "rollout_length": config.rollout_length,
        "parameters": parameters,
        "seconds_per_iteration": seconds,
        "seconds_per_update": updated,
        "steps_per_second": config.batch_size / seconds,
        "memory_mb": memory,
    }


def with_growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the exponent of an iteration's seconds since the smaller point; nothing for the smallest."""
    for before, after in pairwise(rows):
        if before["grows"] == after["grows"]:
            ratio = after["seconds_per_iteration"] / before["seconds_per_iteration"]
            after["exponent"] = math.log(ratio) / math.log(after["size"] / before["size"])
    return rows


def draw(rows: list[dict[str, Any]], studies: list[dict[str, Any]], path: Path) -> None:
    """Draw seconds and memory against each size, with a line of slope 1 through the largest."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    kinds = list(dict.fromkeys(each["grows"] for each in rows))
    panels = [(kind, [each for each in rows if each["grows"] == kind], "size") for kind in kinds]
    columns: dict[str, tuple[str, ...]] = dict.fromkeys(kinds, ("seconds_per_iteration", "seconds_per_update"))
    if studies:
        panels.append(("runs of a study", studies, "runs"))
        columns["runs of a study"] = ("scheduling_seconds", "packing_seconds", "report_seconds")
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4 * len(panels), 3.4), layout="constrained")
    for axis, (kind, found, size) in zip(axes, panels, strict=True):
        x = [float(each[size]) for each in found]
        for column in columns[kind]:
            y = [float(each[column]) for each in found]
            axis.loglog(x, y, marker="o", markersize=3, label=column.replace("_", " "))
        largest = float(found[-1][columns[kind][0]])
        axis.loglog(x, [largest * each / x[-1] for each in x], color="grey", linewidth=0.8, label="linear")
        axis.set_xlabel(kind.replace("_", " "))
        axis.set_ylabel("CPU seconds")
        other = axis.twinx()
        other.semilogx(x, [float(each["memory_mb"]) for each in found], color="C7", linestyle=":")
        other.set_ylim(bottom=0)
        other.set_ylabel("memory, MB (dotted)")
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure every point and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draw", action="store_true", help="draw the rows there are")
    options = parser.parse_args()
    path = RESULTS / "growth.csv"
    if not options.draw:
        torch.set_num_threads(1)
        rows = []
        for point in points():
            rows.append(row(*point))
            write(path, with_growth(rows))
            print({key: f"{value:.4g}" if isinstance(value, float) else value for key, value in rows[-1].items()})
    draw(read(path), read(RESULTS / "studies.csv"), RESULTS / "growth.png")


if __name__ == "__main__":
    main()
