"""The cost formula of training, without PyTorch: FLOPs are these counts times those of one row's forward pass, O.

Source: the paper's appendix "Calculation of Computational Overhead"; docs/studies.md explains it. A backward pass costs
twice a forward pass.
"""

from __future__ import annotations

from adept.algorithms import ALGORITHMS
from adept.config import Config
from adept.rules import RULES


def sampling(config: Config) -> int:
    """Return O_sampling/O = (T+1)·N of one rollout; the +1 is the value of what comes after it."""
    return (config.rollout_length + 1) * config.environments


def update(config: Config, rows: int) -> int:
    """Return the cost of gradient steps on `rows` rows, in forward passes: 3 × rows × passes of the algorithm."""
    return 3 * rows * ALGORITHMS[config.algo].passes


def epoch(config: Config, *, minibatches: int | None = None) -> int:
    """Return the cost of one epoch, 3·B·N_batches."""
    return update(config, config.minibatch_size * (config.minibatches if minibatches is None else minibatches))


def iteration(config: Config, epochs: float, *, minibatches: int | None = None) -> float:
    """Return the cost of one iteration of K epochs, O_sampling/O + K·(O_epoch/O)."""
    return sampling(config) + epoch(config, minibatches=minibatches) * epochs


def ratio(config: Config, epochs: float, *, minibatches: int | None = None) -> float:
    """Return the cost of iterations of `epochs` epochs on average, over that of always using the largest arm."""
    largest = iteration(config, max(config.choices), minibatches=minibatches)
    return iteration(config, epochs, minibatches=minibatches) / largest


def pays_for_monitoring(config: Config) -> bool:
    """Return whether measuring updates is part of the method: a rule that goes by slopes pays for them."""
    return config.scheduler in RULES and RULES[config.scheduler].needs_slope


def epoch_flops(config: Config, flops: float, epochs: float) -> float:
    """Return the FLOPs of one epoch, given those of an iteration without measurements, the first."""
    return flops / iteration(config, epochs) * epoch(config)
