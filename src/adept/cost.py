"""The cost formula of training and the budget of monitoring, without PyTorch.

FLOPs are these counts times those of one row's forward pass, O. Source: the paper's appendix "Calculation of
Computational Overhead"; docs/studies.md explains it. A backward pass costs twice a forward pass.
"""

from __future__ import annotations

import math

from adept.algorithms import ALGORITHMS
from adept.config import Config
from adept.engine import marked_epochs
from adept.hindsight.evaluation import LENGTHS
from adept.rules import RULES

MONITOR_SHARE = 0.05
"""Share of a run that monitoring takes at most: of its FLOPs, and of its calls."""
PASS_CALLS = 5
"""Calls that a pass of an evaluation counts for: parameters are exchanged, and an estimate is made from its rows."""


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


def epoch_flops(config: Config, flops: float, epochs: float) -> float:
    """Return the FLOPs of one epoch, given those of an iteration without measurements, the first."""
    return flops / iteration(config, epochs) * epoch(config)


def calls(config: Config, epochs: int) -> int:
    """Return the fixed cost of one iteration, which FLOPs do not show: T + 3·K·(N_batches + 1) + 12 calls.

    A call is a forward pass of few rows. A gradient step costs three, and so does shuffling for an epoch; advantages,
    metrics and the record cost 12. Measured in processor time of the fast paths on an Intel Xeon: 0.08 ms a call, with
    4 to 6 calls per pass of an evaluation of 8 rows. `benchmarks/monitoring.py` measures what comes of it.
    """
    return config.rollout_length + 3 * epochs * (config.minibatches + 1) + 12


def pays_for_monitoring(config: Config) -> bool:
    """Return whether measuring updates is part of the method: a rule that goes by slopes pays for them."""
    return config.scheduler in RULES and RULES[config.scheduler].needs_slope


def measuring(config: Config) -> tuple[int, int]:
    """Return the rows on which an update is measured, and the iterations between two measurements of gains.

    A rule's own slopes cost two passes of the policy: on K/8 of a rollout they are a twelfth of an update. Everything
    else stays within `MONITOR_SHARE` of the FLOPs and of the calls, hence of the time of a network of any size, unless
    the configuration says how often to monitor. An iteration counts as the shortest one there may be: a bandit may stay
    at its smallest arm, a stopping rule may end every update after one epoch.
    """
    rows, interval, passes = min(config.monitor_rows, config.batch_size), config.monitor_interval, _gain_passes(config)
    slopes = pays_for_monitoring(config)
    if slopes:
        rows = min(rows, max(1, config.batch_size * max(config.choices) // 8))
    else:
        passes += 3  # the slope's two, the critic's one
    if config.monitor_every:
        return rows, interval
    epochs = 1 if config.stopping else min(config.choices)
    interval = max(interval, math.ceil(passes * PASS_CALLS / (MONITOR_SHARE * calls(config, epochs))))
    budget = MONITOR_SHARE * iteration(config, epochs)
    if slopes:
        return rows, max(interval, math.ceil(passes * rows / budget))
    return max(1, min(rows, int(budget * interval / passes))), interval


def measured_passes(config: Config) -> tuple[int, int]:
    """Return the rows that measuring passes through the policy and through the critic in a run of the largest K.

    A slope costs two passes of the policy and one of the critic. A rule that needs slopes has them measured after every
    update.
    """
    rows, interval = measuring(config)
    gains = (config.iterations - 1) // interval if config.monitor else 0
    slopes = config.iterations - 1 if pays_for_monitoring(config) else gains
    return rows * (2 * slopes + _gain_passes(config) * gains), rows * slopes


def _gain_passes(config: Config) -> int:
    """Return the passes that gains cost: the start, the marked epochs but the last, and the lengths."""
    made = max(config.choices)
    if config.scheduler in RULES:  # which may make other epochs than K
        rule = config.rule()
        rule.begin(config.learning_rate)
        made = rule.step(None).epochs
    return 1 + sum(epoch < made for epoch in marked_epochs(config.choices)) + len(LENGTHS)
