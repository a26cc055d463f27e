"""Rules on noise: without a signal a rule must not carry the learning rate away.

Feedback without any signal is made in two ways: slopes that are standard normal numbers, and slopes estimated from
rows whose advantages were permuted, with long tails and rows that depend on each other within an environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from adept.hindsight.estimates import Estimate, time_groups, weighted
from adept.probe.records import Array
from adept.rules import RULES, Feedback, Rule, make_rule, rule_options

BAND = 3.0
"""The scale must stay within its start divided and multiplied by this."""
ENOUGH = 0.95
"""Share of runs that must stay within the band."""
UPDATES, RUNS = 300, 100
STEPS, ENVIRONMENTS = 64, 8
"""Size of the rollouts whose advantages are permuted."""
ROLLOUTS = 2000
PRESET_KL = 0.01
"""KL of an update with the scale at its start, for rules that go by KL; it grows with the square of the scale."""


@dataclass(frozen=True, eq=False)
class LRScales:
    """The course of a controller's scale on evidence without a signal, relative to its start: a row per run."""

    table: Array

    @property
    def inside(self) -> float:
        """Share of runs that never left the band."""
        within = (self.table >= 1 / BAND) & (self.table <= BAND)
        return float(within.all(1).mean())

    @property
    def furthest(self) -> float:
        """The factor that 95 % of runs stayed within."""
        return float(np.quantile(np.exp(np.abs(np.log(self.table)).max(1)), ENOUGH))

    @property
    def passed(self) -> bool:
        """Whether enough runs stayed within the band."""
        return self.inside >= ENOUGH


@cache
def permuted_rollouts() -> Array:
    """Estimate the slope of rollouts whose advantages were permuted among the rows.

    Weights have long tails and are correlated within an environment, as derivatives of log-probabilities are.
    """
    rng, groups = np.random.default_rng(0), time_groups(STEPS, ENVIRONMENTS)
    found = []
    for _ in range(ROLLOUTS):
        weights = rng.standard_t(4, (STEPS, ENVIRONMENTS)) + rng.normal(size=ENVIRONMENTS)
        advantages = rng.standard_t(4, STEPS * ENVIRONMENTS).cumsum() + 20 * rng.normal(size=STEPS * ENVIRONMENTS)
        found.append(weighted(weights.ravel(), rng.permutation(advantages), groups).z)
    return np.array(found)


NOISES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, count: rng.normal(size=count),
    "permuted": lambda rng, count: rng.choice(permuted_rollouts(), count),
}
"""Slopes in standard errors by kind of noise: standard normal, or drawn from many rollouts with permuted advantages."""


def course(rule: Rule, slopes: Array, rng: np.random.Generator) -> Array:
    """Return the scales of one run, relative to the first one; the first update has no feedback.

    For a rule with a `distance` in its diagnostics, the distance counts instead of the scale. A rule of slopes gets no
    KL, so that its guard does not help it. A rule of the KL gets that of its own scale, with noise.
    """
    settings = rule.step(None)
    start, found = settings.lr_scale, []
    first = rule.diagnostics().get("distance")
    for slope in slopes:
        kl = PRESET_KL * (settings.lr_scale / start) ** 2 * math.exp(0.3 * rng.normal())
        gain = float(rng.normal())
        gains = {epoch: Estimate(float(each), 1.0) for epoch, each in enumerate(rng.normal(size=settings.epochs), 1)}
        settings = rule.step(
            Feedback(
                slope=Estimate(float(slope), 1.0), update_gain=Estimate(gain, 1.0), gain_by_epoch=gains,
                kl=None if rule.needs_slope else kl, epochs_done=settings.epochs,
            )
        )  # fmt: skip
        found.append(settings.lr_scale / start if first is None else rule.diagnostics()["distance"] / first)
    return np.array(found)


def lr_scales(name: str, epochs: int, options: Mapping[str, Any], noise: str, runs: int = RUNS) -> LRScales:
    """Run a rule on feedback without a signal, with as many seeds as runs are asked for.

    A bound of the rule's own on its distance, `max_factor`, would hide noise: it is lifted unless the options set it.
    """
    if name in RULES and "max_factor" in rule_options(RULES[name]):
        options = {"max_factor": 1000.0, **options}
    table = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        rule = make_rule({"name": name, **options}, epochs=epochs, seed=seed)
        rule.require_updates()
        table.append(course(rule, NOISES[noise](rng, UPDATES), rng))
    return LRScales(np.array(table))
