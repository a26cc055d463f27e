"""Random streams: every use of randomness has a generator of its own, all of them fixed by one seed."""

from __future__ import annotations

import numpy as np

STREAMS = (
    "network",
    "actions",
    "minibatches",
    "environments",
    "scheduler",
    "augmentation",
    "evaluation",
    "held-out",
    "monitor",
)


def stream_seed(seed: int, stream: str, *index: int) -> int:
    """Return a seed of 31 bits for one use of randomness, and, within it, for one index such as an iteration."""
    sequence = np.random.SeedSequence([seed, STREAMS.index(stream), *index])
    return int(sequence.generate_state(1)[0]) & 0x7FFF_FFFF


def generator(seed: int, stream: str) -> np.random.Generator:
    """Return the generator of one use of randomness."""
    return np.random.default_rng([seed, STREAMS.index(stream)])
