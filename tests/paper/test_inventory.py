"""The paper's figures: each is there once, with a command, and its hours follow from declared grids."""

from __future__ import annotations

import re

import pytest

from adept.studies.grid import load_study
from paper.inventory import ENVIRONMENT_STEPS, GPU_FLOPS, PASS_FLOPS, entries, figure_table, hours

FIGURES = 37
"""Of the paper, in the order of its text."""


def numbers(text: str) -> list[int]:
    """Return the figures that an entry names."""
    found = []
    for first, last in re.findall(r"(?<!Tables )\b(\d+)(?: to (\d+))?", text):
        found += range(int(first), int(last or first) + 1)
    return found


def test_every_figure_has_one_command() -> None:
    found = [entry for entry in entries() if "Tables" not in entry.figures]
    assert sorted(number for entry in found for number in numbers(entry.figures)) == list(range(1, FIGURES + 1))
    for entry in found:
        assert bool(entry.studies) != bool(entry.command)
        assert all(load_study(name).name == name for name in entry.studies)


def test_hours_of_a_gpu_by_hand() -> None:
    cpu, gpu = hours("procgen-search-u-ppo")
    # 16 games × 5 seeds × 11 methods of 1,525 iterations would be 16·5·11·1525; the study says how many there are.
    study = load_study("procgen-search-u-ppo")
    steps = flops = 0.0
    for method in study.methods:
        config = study.config(method.name, study.tasks[0], 1)
        mean = sum(config.choices) / len(config.choices)
        runs = len(study.tasks) * len(study.seeds)
        steps += runs * 1525 * 64 * 256
        # (T+1)·N forward passes of sampling; 3 passes' worth for every row and epoch.
        flops += runs * 1525 * PASS_FLOPS * (257 * 64 + 3 * 64 * 256 * mean)
    assert gpu == pytest.approx((flops / GPU_FLOPS + steps / ENVIRONMENT_STEPS) / 3600)
    assert cpu > 10 * gpu


def test_small_networks_have_no_hours_on_a_gpu() -> None:
    assert hours("minigrid")[1] is None
    (minigrid,) = (entry for entry in entries() if entry.studies == ("minigrid",))
    assert "| 8 | MiniGrid | `minigrid` | run at full scale: 10 seeds | 3 | – |" in figure_table([minigrid])
