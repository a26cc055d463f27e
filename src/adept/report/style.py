"""How methods look, the same in every figure and on the page: a hue per scheduler, shades and dashes within it.

The hues are Okabe and Ito's, which people with any colour vision tell apart; dashes and labels carry the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adept.report.comparison import Comparison

BASELINE = ("#2b2f36", "#e6e8eb")
# From dark to light, on light ground; unknown schedulers take a hue that is free.
FAMILIES: dict[str, tuple[str, ...]] = {
    "hindsight": ("#5b1f7a", "#9a4fc2", "#b57fd4"),
    "ucb": ("#003f66", "#0072b2", "#5aa5d6"),
    "thompson": ("#8f3f00", "#d55e00", "#e88a4e"),
    "round-robin": ("#00523c", "#009e73", "#4fb898"),
    "fixed": ("#4d3800", "#b97f00", "#d9a227"),
    "stopping": ("#7d3560", "#b5588d", "#cf85b0"),
}
SPARE = (
    ("#1f5c63", "#2f8f9b", "#8fc9d0"), ("#6b2f2f", "#b34747", "#dd9a9a"), ("#405a1c", "#6f9a2f", "#b3cf85"),
    ("#3c3f73", "#6468b8", "#aeb1de"), ("#5f4b3b", "#97765c", "#c9b29f"), ("#3f4c55", "#6d818d", "#aebac2"),
)  # fmt: skip
DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2.5), (1.5, 2), (7, 2.5, 1.5, 2.5))
MARKERS = "osD^vPX*"

ARMS = ("#d5e8c8", "#8fcfb8", "#41a9bd", "#2a78b5", "#3f55a6", "#5b3a94", "#3d1456")
"""Few epochs light, many dark; as many shades in between as there are numbers of epochs."""
PHASES = {"sampling": "#56b4e9", "update": "#0072b2", "monitoring": "#9a4fc2"}


@dataclass(frozen=True)
class Look:
    """Colour on light and dark ground, dashes and marker of a method."""

    light: str
    dark: str
    dash: tuple[float, ...]
    marker: str
    width: float = 1.6


def ramp(stops: Sequence[str], share: float) -> str:
    """Return the colour at a share of the way along some stops."""
    channels = [[int(stop[start : start + 2], 16) for stop in stops] for start in (1, 3, 5)]
    mixed = [float(np.interp(share * (len(stops) - 1), range(len(stops)), channel)) for channel in channels]
    return "#" + "".join(f"{round(value):02x}" for value in mixed)


def looks(comparison: Comparison) -> dict[str, Look]:
    """Assign every method its look: shades of its family's hue, fixed ones in the order of their epochs."""
    families: dict[str, list[str]] = {}
    for method in sorted(comparison.methods, key=lambda entry: entry.fixed_epochs or 0):
        if method.name != comparison.baseline:
            families.setdefault(method.family, []).append(method.name)
    found = {comparison.baseline: Look(*BASELINE, (), "o", 2.2)}
    unknown = [family for family in families if family not in FAMILIES]
    for number, (family, names) in enumerate(families.items()):
        hue = FAMILIES.get(family) or SPARE[unknown.index(family) % len(SPARE)]
        for index, name in enumerate(names):
            light = ramp(hue, 0.5 if len(names) == 1 else index / (len(names) - 1))
            dark = ramp((light, "#ffffff"), 0.42)
            found[name] = Look(light, dark, DASHES[index % len(DASHES)], MARKERS[(number + index) % len(MARKERS)])
    return {method.name: found[method.name] for method in comparison.methods}


def arm_colours(arms: Sequence[int], everywhere: Sequence[int] | None = None) -> dict[int, str]:
    """Give every number of epochs its colour, the same wherever `everywhere` lists all that there are."""
    ordered = sorted(set(everywhere or arms))
    return {arm: ramp(ARMS, ordered.index(arm) / (len(ordered) - 1) if len(ordered) > 1 else 0.5) for arm in arms}
