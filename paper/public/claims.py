"""What the published records say of the paper's claims. Games are the units: 16 of them, Student's intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adept.probe.placebo import MARGIN as PREFERRED
from adept.report.statistics import Estimate
from adept.report.text import interval
from paper.intervals import student
from paper.measures import RESULTS
from paper.public.tables import ARMS, SIZES, Row, by_game, read_table
from paper.verdicts import ANALOGY, CONTROL, DEPENDS, PREMISE, Claim, Region, verdict
from paper.words import percent_interval

FOLDER = RESULTS / "procgen-public"
TABLES = ("placebo", "epochs", "ppo")
PAPERS_SHARE = 0.6
"""Of K=1 in ADEPT(U) on Procgen, as the paper tells: K=2 and K=3 "each account for approximately 20 %"."""
MORE = Region(above=0)
REPEATS = ("ppg-run0", "ppg-run1", "ppg-run2")
"""Three runs of one setting, PPG's default, with one policy epoch."""


@dataclass(frozen=True)
class Public:
    """The committed tables."""

    placebo: list[Row]
    epochs: list[Row]
    ppo: list[Row]

    def fed(self, scheduler: str, order: str = "recorded", size: float = 1.0) -> list[Row]:
        """Return the placebo's rows of one scheduler, order and size of rewards."""
        wanted = (scheduler, order, size)
        return [row for row in self.placebo if (row["scheduler"], row["order"], row["size"]) == wanted]

    def most(self, scheduler: str, order: str = "recorded", size: float = 1.0) -> Estimate:
        """Return the share of a run's most-chosen arm."""
        return student(list(by_game(self.fed(scheduler, order, size), "most").values()))

    def share(self, scheduler: str, arm: int, order: str = "recorded", size: float = 1.0) -> Estimate:
        """Return the share of one arm."""
        return student(list(by_game(self.fed(scheduler, order, size), f"share_{arm}").values()))

    def favourites(self, scheduler: str, order: str = "recorded", size: float = 1.0) -> dict[int, int]:
        """Return how many runs chose each arm most."""
        rows = self.fed(scheduler, order, size)
        return {arm: sum(row["favourite"] == arm for row in rows) for arm in ARMS}

    def scores(self, setting: str, column: str = "over_the_run") -> np.ndarray:
        """Return a setting's normalised score on each game."""
        return np.array(list(by_game([row for row in self.epochs if row["setting"] == setting], column).values()))

    def best_epochs(self, column: str = "over_the_run") -> dict[str, int]:
        """Return the best number of policy epochs of each game, from 1 to 6, after the fact."""
        table = np.array([self.scores(f"e-pi-{epochs}", column) for epochs in range(1, 7)])
        return dict(zip(sorted({str(row["game"]) for row in self.epochs}), (table.argmax(0) + 1).tolist(), strict=True))

    def headroom(self, column: str = "over_the_run") -> tuple[np.ndarray, np.ndarray]:
        """Return, by game, what choosing the best of K=1, 2, 3 gains over K=1, and what chance alone gains.

        The second is the best of three runs with one setting, less their mean.
        """
        arms = np.array([self.scores(f"e-pi-{epochs}", column) for epochs in (1, 2, 3)])
        repeats = np.array([self.scores(setting, column) for setting in REPEATS])
        return arms.max(0) - arms[0], repeats.max(0) - repeats.mean(0)

    def gaps(self) -> dict[str, float]:
        """Return train less test score at the end, normalised, by game."""
        train, test = by_game(self.ppo, "train_normalised"), by_game(self.ppo, "test_normalised")
        return {game: train[game] - test[game] for game in train}


def load(folder: Path = FOLDER) -> Public:
    """Read the committed tables."""
    return Public(*(read_table(folder / f"{name}.csv") for name in TABLES))


def public_claims(public: Public) -> list[Claim]:
    """Return the claims that the published records decide, or show to be no evidence."""
    return [*placebo(public), *landscape(public), generalisation(public)]


def placebo(public: Public) -> list[Claim]:
    """What U and G do on returns of PPO with K=3 at full scale, which no choice can have changed."""
    runs = f"{len(public.fed('ucb'))}"
    liked = ", ".join(f"K={arm} in {count}" for arm, count in public.favourites("ucb").items())
    most = [public.most("ucb", size=size) for size in SIZES]
    ones = [public.share("ucb", 1, size=size) for size in SIZES]
    mosts = {name: [by_game(public.fed(name, size=size), "most") for size in SIZES] for name in ("ucb", "thompson")}
    gaps = [
        student([ours[game] - theirs[game] for game in ours])
        for ours, theirs in zip(mosts["ucb"], mosts["thompson"], strict=True)
    ]
    return [
        Claim("U settles on one arm where K has no effect (Procgen, 25 M)",
              f"on placebo, the most-chosen arm gets {_by_size(most)} of updates (even: 33 %); in random order "
              f"{percent_interval(public.most('ucb', 'random'))}; favourite: {liked} of {runs} runs",
              runs, _over_sizes(most, Region(above=1 / len(ARMS) + PREFERRED)), CONTROL),
        Claim("U's share of K=1 in the paper, about 60 %, is more than the trend gives",
              f"on placebo, K=1 gets {_by_size(ones)} of updates",
              runs, _over_sizes(ones, Region(below=PAPERS_SHARE)), CONTROL),
        Claim("G spreads its choices more than U where K has no effect",
              f"on placebo, the most-chosen arm's share, U less G: {_by_size(gaps)}",
              runs, _over_sizes(gaps, MORE), CONTROL),
    ]  # fmt: skip


def _by_size(estimates: Sequence[Estimate]) -> str:
    """Return estimates with the factor on the recorded returns that each belongs to."""
    words = [f"{percent_interval(found)} (returns × {size:g})" for found, size in zip(estimates, SIZES, strict=True)]
    return ", ".join(words)


def _over_sizes(estimates: Sequence[Estimate], region: Region) -> str:
    """Judge a claim that has to hold whatever the size of the rewards."""
    found = {verdict(estimate, region) for estimate in estimates}
    return found.pop() if len(found) == 1 else DEPENDS


def landscape(public: Public) -> list[Claim]:
    """Policy epochs from 1 to 6 and value epochs from 1 to 9 in PPG on hard Procgen, one run each."""
    less = student(public.scores("e-pi-1") - public.scores("e-pi-3"))
    real, chance = public.headroom()
    gain = student(real - chance)
    value = student(public.scores("e-aux-9") - public.scores("e-aux-1"))
    ones = sum(best == 1 for best in public.best_epochs().values())
    return [
        Claim("K=1 beats K=3 over the run (PPG)",
              f"{interval(less, 3)} of the normalised score; K=1 is the best of 1 to 6 on {ones} of 16 games",
              "1", verdict(less, MORE), ANALOGY),
        Claim("the best K per game beats K=1 (PPG)",
              f"best of K=1, 2, 3 after the fact: {real.mean():+.3f}; the best of three runs of one setting: "
              f"{chance.mean():+.3f}; difference {interval(gain, 3)}", "1", verdict(gain, MORE), ANALOGY),
        Claim("9 value epochs beat 1 (PPG)",
              f"{interval(value, 3)} of the normalised score", "1", verdict(value, MORE), ANALOGY),
    ]  # fmt: skip


def generalisation(public: Public) -> Claim:
    """PPO with K=3 at 25 M steps: train and test levels."""
    gaps = public.gaps()
    gap = student(list(gaps.values()))
    widest = sorted(gaps, key=lambda game: -gaps[game])
    train, test = (np.mean(list(by_game(public.ppo, f"{levels}_normalised").values())) for levels in ("train", "test"))
    measured = (
        f"normalised score {train:.2f} on training levels, {test:.2f} on test levels: {interval(gap)}; most on "
        f"{widest[0]} ({gaps[widest[0]]:.2f}), least on {widest[-1]} ({gaps[widest[-1]]:.2f})"
    )
    text = "PPO (K=3) scores lower on test levels than on training levels (Procgen, 25 M)"
    return Claim(text, measured, "3", verdict(gap, MORE), PREMISE)
