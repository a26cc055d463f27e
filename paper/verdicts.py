"""The one rule by which claims are judged: a claim names a region, and the 95 % interval says whether it lies in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from adept.report.statistics import Estimate

HOLDS, FAILS, NOT_SHOWN, UNTESTED = "holds", "does not hold", "not shown", "not tested"
DEPENDS = "depends on the reward's size"
CLAIM, ANALOGY, CONTROL, PREMISE = "claim", "analogy", "control", "premise"
ARITHMETIC, RIVAL, REDUCED = "arithmetic", "rival", "reduced"
"""The paper's claim where the paper makes it; one about Procgen tested elsewhere; what chance or the trend alone does;
what a claim takes for granted; what follows from a formula; a comparison that the paper leaves out; a claim about
Procgen with fewer steps and a smaller network. Only the first are counted as claims."""
MARGIN = 0.05
"""What counts as "about the same", "no loss" and "no gain": 5 % of what is compared with. Set before any test."""


@dataclass(frozen=True)
class Region:
    """The values for which a claim is true: more than one bound and less than another."""

    above: float = -math.inf
    below: float = math.inf


@dataclass(frozen=True)
class Claim:
    """One row of the table: what is claimed, what was measured, and the seeds behind it."""

    text: str
    measured: str
    seeds: str
    verdict: str
    kind: str = CLAIM


def verdict(estimate: Estimate, region: Region) -> str:
    """Judge a claim: it holds where the interval lies in the region, fails where it lies outside, else it is not shown.

    A claim that something is larger has the region above 0. A claim that something makes no difference, or no loss,
    has a region with a margin: a difference that is merely not shown does not prove it.
    """
    if not estimate.has_interval:
        return UNTESTED
    if region.above < estimate.low and estimate.high < region.below:
        return HOLDS
    return FAILS if estimate.high < region.above or estimate.low > region.below else NOT_SHOWN
