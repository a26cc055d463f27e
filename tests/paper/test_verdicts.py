"""The one rule: an interval inside the region, outside it, or across its edge."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from adept.report.statistics import Estimate
from paper import blocks, claims
from paper.measures import load
from paper.public.claims import load as load_public
from paper.public.claims import public_claims
from paper.verdicts import (
    ANALOGY,
    ARITHMETIC,
    CONTROL,
    FAILS,
    HOLDS,
    NOT_SHOWN,
    REDUCED,
    UNTESTED,
    Claim,
    Region,
    verdict,
)

MORE, LESS, SAME = Region(above=0), Region(below=0), Region(-0.05, 0.05)


@pytest.mark.parametrize(
    ("estimate", "region", "expected"),
    [
        (Estimate(2.0, 1.0, 3.0), MORE, HOLDS),
        (Estimate(2.0, 1.0, 3.0), LESS, FAILS),
        (Estimate(-2.0, -3.0, -1.0), LESS, HOLDS),
        (Estimate(2.0, -1.0, 5.0), MORE, NOT_SHOWN),
        (Estimate(2.0, -1.0, 5.0), LESS, NOT_SHOWN),
        (Estimate(2.0, 0.0, 5.0), MORE, NOT_SHOWN),
        (Estimate(2.0), MORE, UNTESTED),
        # No difference shown is no proof of equality: the interval must lie within the margin.
        (Estimate(0.0, -0.2, 0.2), SAME, NOT_SHOWN),
        (Estimate(0.0, -0.04, 0.04), SAME, HOLDS),
        (Estimate(0.2, 0.1, 0.3), SAME, FAILS),
        (Estimate(0.7, 0.7, 0.7), Region(0.65, 0.75), HOLDS),
        (Estimate(0.8, 0.8, 0.8), Region(0.65, 0.75), FAILS),
    ],
)
def test_a_verdict_follows_from_interval_and_region(estimate: Estimate, region: Region, expected: str):
    assert verdict(estimate, region) == expected


def test_evenness_of_shares():
    assert claims.entropy(np.array([1.0, 0.0, 0.0])) == 0
    assert claims.entropy(np.array([0.25] * 4)) == pytest.approx(1.0)
    assert claims.entropy(np.array([0.5, 0.5, 0.0, 0.0])) == pytest.approx(0.5)


def test_the_overhead_of_round_robin_is_the_papers_seventy_percent():
    # (T+1)·N·O + 3·O·T·N·K with K = 2 on average against K = 3, T = 256: (257 + 3·256·2)/(257 + 3·256·3).
    assert round((257 + 1536) / (257 + 2304), 2) == 0.70
    claim = claims.overhead(load("procgen-cpu"))
    assert claim.measured.startswith("70 % ")
    assert claim.verdict == HOLDS
    assert claim.kind == ARITHMETIC


def test_only_claims_are_counted():
    found = [
        Claim("a", "", "3", HOLDS), Claim("b", "", "3", FAILS), Claim("c", "", "3", UNTESTED),
        Claim("d", "", "3", HOLDS, ARITHMETIC), Claim("e", "", "3", HOLDS, ANALOGY),
        Claim("f", "", "3", HOLDS, CONTROL),
    ]  # fmt: skip
    assert blocks.tally(found) == (
        "Of the paper's claims, 2 were tested where the paper makes them: "
        "1 hold, 1 do not hold, 0 are not shown either way."
    )


@pytest.mark.slow
def test_claims_about_procgen_tested_elsewhere_are_analogies():
    found = [
        *claims.study_claims(load("minigrid")),
        *claims.study_claims(load("pybullet")),
        *public_claims(load_public()),
    ]
    elsewhere = ("(minigrid)", "(pybullet-500k)", "(PPG)")  # MiniGrid's and PyBullet's own claims name baseline or task
    assert all((claim.kind == ANALOGY) == claim.text.endswith(elsewhere) for claim in found)
    assert sum(claim.kind == ANALOGY for claim in found) == 8


def test_seeds_that_are_declared_and_not_run_are_said():
    pybullet = load("pybullet")
    done = len(pybullet.comparison.finished("fixed-10", "pybullet/Ant"))
    declared = len(pybullet.results.study.seeds)
    assert declared == 5
    assert {claim.seeds for claim in claims.study_claims(pybullet)} == {"5" if done == declared else f"{done}/5"}


def test_scores_on_test_levels_are_on_the_range_of_each_game():
    # CoinRun's range is 5 to 10, StarPilot's 2.5 to 64: leads of 1 and of 12.3 are both a fifth of the range.
    ends = {"fixed-3": {"procgen/coinrun": 6.0, "procgen/starpilot": 10.0},
            "ucb": {"procgen/coinrun": 7.0, "procgen/starpilot": 22.3}}  # fmt: skip
    wiggle = {"procgen/coinrun": 0.05, "procgen/starpilot": 0.615}  # a hundredth of the range
    comparison = SimpleNamespace(
        baseline="fixed-3",
        scores=lambda method, task, name: ends[method][task] + wiggle[task] * np.array([-1.0, 0.0, 1.0]),
    )
    procgen = SimpleNamespace(
        name="procgen-small", tasks=tuple(wiggle), comparison=comparison, seeds="3", label=lambda method: method,
        has=lambda method: method in ends, compute=lambda method: 0.7,
    )  # fmt: skip
    (claim,) = claims.better_on_test_levels(procgen)
    # The mean over two games of differences of means of three runs: error √(2·2·0.01²/3)/2, 8 degrees of freedom.
    half = 2.306 * 0.01 / 3**0.5
    assert claim.measured == f"0.200 [{0.2 - half:.3f}, {0.2 + half:.3f}] of the normalised score; 70 % of its FLOPs"
    assert (claim.kind, claim.verdict) == (REDUCED, HOLDS)


def test_the_verdict_on_the_overhead_can_fail(monkeypatch: pytest.MonkeyPatch):
    # Were sampling to cost nothing, K = 2 on average would be two thirds of K = 3; were it all, the same.
    monkeypatch.setattr(claims.cost, "iteration", lambda config, epochs: 10 + 0.1 * epochs)
    claim = claims.overhead(load("procgen-cpu"))
    assert claim.verdict == FAILS
