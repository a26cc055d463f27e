"""Time each augmentation as a share of DrAC's update of 2048 frames: `python benchmarks/augmentations.py`.

One thread; processor time, the best of a few runs, so that other programs on the machine disturb little. The update is
the forward and backward pass of the IMPALA network on the frames and on the augmented ones. A copy of the frames is
given for scale: no augmentation can be faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from adept.algorithms.augmentations import AUGMENTATIONS
from adept.envs import Discrete
from adept.networks import make_network

COUNT = 2048


def best(work: Callable[[], object], runs: int) -> float:
    """Return the processor seconds of the fastest run."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def pass_through(network: torch.nn.Module, images: Tensor) -> None:
    """Make a forward and a backward pass."""
    sum(output.square().mean() for output in network(images)).backward()


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (COUNT, 3, 64, 64), generator=generator, dtype=torch.uint8)
    network = make_network("impala", (3, 64, 64), Discrete(15), 0)
    update = 2 * best(lambda: pass_through(network, images), runs=3)
    print(f"DrAC minibatch of {COUNT}: {update:.2f} s; a copy of the frames: {1e3 * best(images.clone, 20):.1f} ms")
    print("| augmentation | ms | share of update |\n| --- | ---: | ---: |")
    for name, augment in AUGMENTATIONS.items():
        ours = best(lambda augment=augment: augment(images, generator), runs=10)
        print(f"| {name} | {1e3 * ours:.1f} | {ours / (update + ours):.2%} |", flush=True)


if __name__ == "__main__":
    main()
