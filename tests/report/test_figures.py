"""How methods look: colours that differ, labels that do not overlap."""

from __future__ import annotations

import itertools

import pytest

from adept.report.loading import load_comparison
from adept.report.style import arm_colours, looks, ramp

pytest.importorskip("matplotlib")

from adept.report.figures import spread


def distance(first: str, second: str) -> float:
    parts = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in (first, second)]
    return max(abs(a - b) for a, b in zip(*parts, strict=True))


@pytest.mark.parametrize("count", [2, 3, 6, 7, 8, 10, 12])
def test_neighbouring_numbers_of_epochs_have_different_colours(count):
    colours = arm_colours(range(1, count + 1), range(1, count + 1))
    for first, second in itertools.pairwise(colours.values()):
        assert distance(first, second) >= 14, (first, second)


def test_a_ramp_passes_through_its_stops():
    stops = ("#000000", "#0000ff", "#ffffff")
    assert [ramp(stops, share) for share in (0, 0.25, 0.5, 1)] == ["#000000", "#000080", "#0000ff", "#ffffff"]


def test_methods_are_told_apart(study):
    found = looks(load_comparison([study]))
    assert len({(look.light, look.dash) for look in found.values()}) == len(found)


def test_labels_are_moved_apart_in_order_and_no_further_than_needed():
    assert spread([1.0, 1.0, 5.0], 0.5) == pytest.approx([0.75, 1.25, 5.0])
    assert spread([2.0, 1.0, 1.2], 0.5) == pytest.approx([2.0, 0.85, 1.35])
    crowded = spread([0.01 * index for index in range(15)], 1.0)
    assert all(b - a >= 1 - 1e-9 for a, b in itertools.pairwise(crowded))
