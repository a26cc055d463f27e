"""How methods look, the same in every figure and on the page: a hue per scheduler, shades and dashes within it.

The hues are Okabe and Ito's, which people with any colour vision tell apart; dashes and labels carry the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from adept.report.comparison import Comparison

BASELINE = ("#2b2f36", "#e6e8eb")
# Shades for light and for dark ground.
FAMILIES: dict[str, tuple[tuple[str, str], ...]] = {
    "ucb": (("#0072b2", "#4db2ec"), ("#56a0d3", "#9ad1f5"), ("#004a75", "#2b8cc9"), ("#7f9fd0", "#c0d8f2")),
    "thompson": (("#d55e00", "#ff8a3d"), ("#e8935a", "#ffb98a"), ("#8f3f00", "#d96a1d"), ("#b5743f", "#f0d0b8")),
    "round-robin": (("#009e73", "#2fcb9f"), ("#5bbd9f", "#8fe3cb"), ("#00614a", "#1fa07c"), ("#7fa898", "#c5efe2")),
    "fixed": (("#c98a00", "#f2b632"), ("#8a6200", "#c99a3c"), ("#dfb04a", "#fbd98c"), ("#6b5a2e", "#a8925a")),
    "target-kl": (("#b5588d", "#e08fbd"), ("#7d3560", "#b96a97"), ("#d79cbf", "#f2c4de"), ("#8f6a80", "#cba9bd")),
    "imported": (("#7a5fb0", "#b39ae6"), ("#4f6d7a", "#9bb8c4"), ("#a0522d", "#d99a7a"), ("#5f7f2f", "#a8c878")),
}
DASHES: tuple[tuple[float, ...], ...] = ((), (6, 2.5), (1.5, 2), (7, 2.5, 1.5, 2.5))
MARKERS = "osD^vPX*"

ARMS = ("#d5e8c8", "#8fcfb8", "#41a9bd", "#2a78b5", "#3f55a6", "#5b3a94")
"""Few epochs light, many dark."""
PHASES = {"environment": "#8d96a0", "sampling": "#56b4e9", "update": "#0072b2", "rest": "#cfd4d9"}


@dataclass(frozen=True)
class Look:
    """Colour on light and dark ground, dashes and marker of a method."""

    light: str
    dark: str
    dash: tuple[float, ...]
    marker: str
    width: float = 1.6


def looks(comparison: Comparison) -> dict[str, Look]:
    """Assign every method its look, in the order in which methods are declared."""
    seen: dict[str, int] = {}
    result = {}
    for method in comparison.methods:
        if method.name == comparison.baseline:
            result[method.name] = Look(*BASELINE, (), "o", 2.2)
            continue
        family = method.family if method.family in FAMILIES else "imported"
        index = seen.get(family, 0)
        seen[family] = index + 1
        shades = FAMILIES[family]
        light, dark = shades[index % len(shades)]
        marker = MARKERS[(list(FAMILIES).index(family) + index) % len(MARKERS)]
        result[method.name] = Look(light, dark, DASHES[(index + index // len(shades)) % len(DASHES)], marker)
    return result


def arm_colours(arms: tuple[int, ...], everywhere: tuple[int, ...]) -> dict[int, str]:
    """Give every number of epochs its colour, the same for all methods of a comparison."""
    ordered = sorted(everywhere)
    if len(ordered) == 1:
        return dict.fromkeys(arms, ARMS[3])
    last = len(ARMS) - 1
    return {arm: ARMS[round(ordered.index(arm) * last / (len(ordered) - 1))] for arm in arms}
