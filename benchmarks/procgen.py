"""Is there a faster way to run Procgen's full network on a CPU? Ways of computing the same passes, in turn.

    OMP_WAIT_POLICY=passive python -m benchmarks.procgen [--repeats 5] [--steps 8]

Our trainer collects a short rollout of BigFish, and makes one epoch of updates on it, with the paper's network and its
rows per pass. Every round tries all ways in one process. A ratio is that to `as it is` in the same round, of sampling
and epoch together, and the median over the rounds is taken. *two processes* is how much faster two such runs beside
each other are than one after the other; all ways but it and *two threads* use one thread. Beside the clock stand the
CPU time of all threads and that of the main thread. Where threads sleep while they wait, the latter is the time that an
idle machine would take at best, and other programs disturb it little. First calls, which compile, stand in columns of
their own; the C++ compiler's CPU time is not in them. Writes results/throughput/procgen.csv.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import torch
from torch import Tensor

from adept.config import Execution
from adept.networks.images import ImageNetwork
from adept.presets import preset
from adept.runs.machine import describe
from adept.trainer_engine import preset_settings
from adept.training import Trainer
from benchmarks.tables import RESULTS, write

Forward = Callable[[Tensor], tuple[Tensor, Tensor]]
Seconds = dict[str, float]

CLOCKS = {"clock": time.perf_counter, "processor": time.process_time, "thread": time.thread_time}
PLAIN, PAIR = "as it is", "two processes"
THREADS = {"two threads": 2}
"""Threads of PyTorch, where they are not 1."""


def contiguous(network: ImageNetwork) -> Forward:
    """Return the forward pass with channels before pixels, as they are stored."""

    def forward(observations: Tensor) -> tuple[Tensor, Tensor]:
        images = observations.to(network.features.weight.dtype) / 255.0
        features = torch.relu(network.features(network.encoder(images)))
        return network.heads.policy(features), network.heads.value(features)

    return forward


def half(forward: Forward) -> Forward:
    """Return a forward pass whose layers compute in bfloat16; what it gives is float32."""

    def halved(observations: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            parameters, values = forward(observations)
        return parameters.float(), values.float()

    return halved


def ways(network: ImageNetwork) -> dict[str, Forward]:
    """Return the forward pass by every way; PyTorch derives the backward pass from it."""
    return {
        PLAIN: network.forward,
        "two threads": network.forward,
        "contiguous": contiguous(network),
        "compiled": torch.compile(network.forward, dynamic=False),
        "bfloat16": half(network.forward),
    }


def make_trainer(steps: int, environments: int) -> Trainer:
    config = preset("procgen/bigfish", scheduler="fixed")
    size = min(config.minibatch_size, steps * environments)
    config = replace(config, rollout_length=steps, environments=environments, minibatch_size=size)
    trainer = Trainer(config, Execution(device="cpu"))
    trainer.collector.restart(0)
    return trainer


def timed(work: Callable[[], Any], name: str, seconds: Seconds) -> Any:
    """Run something; put its seconds by every clock under a name."""
    before = {clock: read() for clock, read in CLOCKS.items()}
    found = work()
    seconds |= {f"{name}_{clock}": read() - before[clock] for clock, read in CLOCKS.items()}
    return found


def iteration(trainer: Trainer) -> Seconds:
    """Collect a rollout and make an epoch; return what both took."""
    seconds: Seconds = {}
    settings = preset_settings(trainer.config, 1, trainer.config.learning_rate)
    rollout = timed(trainer.collector.collect, "sampling", seconds)
    timed(lambda: list(trainer.learner.epochs(rollout, settings)), "epoch", seconds)
    return seconds


def other(connection: Connection, steps: int, environments: int) -> None:
    """Run an iteration whenever told to, in a process of its own."""
    trainer = make_trainer(steps, environments)
    iteration(trainer)
    connection.send(None)
    while connection.recv():
        connection.send(iteration(trainer))
    trainer.close()


def measure(repeats: int, steps: int, environments: int) -> dict[str, list[Seconds]]:
    """Return the seconds of every round by way, those of the first calls first."""
    trainer = make_trainer(steps, environments)
    network: Any = trainer.network
    here, there = multiprocessing.Pipe()
    arguments = (there, steps, environments)
    process = multiprocessing.get_context("spawn").Process(target=other, args=arguments, daemon=True)
    process.start()
    here.recv()

    def run(forward: Forward, threads: int) -> Seconds:
        network.forward = forward
        torch.set_num_threads(threads)
        return iteration(trainer)

    def run_pair() -> Seconds:
        here.send(True)
        own = run(plain, 1)
        both = (own, here.recv())
        # Of two runs at once, each has taken half of the time.
        return {name: sum(each[name] for each in both) / (2 if name.endswith("processor") else 4) for name in own}

    plain = network.forward
    runs = {name: partial(run, forward, THREADS.get(name, 1)) for name, forward in ways(network).items()}
    runs[PAIR] = run_pair
    rounds: dict[str, list[Seconds]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name in list(runs) if number % 2 else reversed(runs):
            rounds[name].append(runs[name]())
            print(f"{number} {name}: {total(rounds[name][-1], 'clock'):.2f} s", flush=True)
    here.send(False)
    process.join()
    trainer.close()
    return rounds


def total(seconds: Seconds, clock: str) -> float:
    """Return sampling and epoch together, by one of the clocks."""
    return seconds[f"sampling_{clock}"] + seconds[f"epoch_{clock}"]


def row(name: str, found: list[Seconds], plain: list[Seconds]) -> dict[str, Any]:
    """Return the figures of one way."""
    first, *later = found
    pairs = list(zip(plain[1:], later, strict=True))
    ratios = {clock: [total(before, clock) / total(after, clock) for before, after in pairs] for clock in CLOCKS}
    return {
        "way": name,
        **{f"ratio_{clock}": median(found) for clock, found in ratios.items()},
        "ratio_thread_lowest": min(ratios["thread"]),
        "ratio_thread_highest": max(ratios["thread"]),
        **{
            f"ratio_{part}_thread": median(
                before[f"{part}_thread"] / after[f"{part}_thread"] for before, after in pairs
            )
            for part in ("sampling", "epoch")
        },
        **{part: median(each[part] for each in later) for part in first},
        "first_call_processor": total(first, "processor") - median(total(each, "processor") for each in later),
        "first_call_clock": total(first, "clock") - median(total(each, "clock") for each in later),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="of a rollout, in each environment")
    parser.add_argument("--environments", type=int, default=64)
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    size = {"environments": options.environments, "steps": options.steps, "rounds": options.repeats}
    machine = describe()
    size |= {name: machine[name] for name in ("commit", "dirty", "processor", "time")} | {"torch": torch.__version__}
    rounds = measure(options.repeats, options.steps, options.environments)
    rows = [row(name, found, rounds[PLAIN]) | size for name, found in rounds.items()]
    for each in rows:
        print(
            f"{each['way']:<16}{each['ratio_clock']:>6.2f} × by the clock,{each['ratio_processor']:>6.2f} × CPU,"
            f"{each['ratio_thread']:>6.2f} × ({each['ratio_thread_lowest']:.2f} to {each['ratio_thread_highest']:.2f})"
            f" main thread; first call {each['first_call_processor']:.0f} s of CPU"
        )
    if not options.no_write:
        write(RESULTS / "procgen.csv", rows)


if __name__ == "__main__":
    main()
