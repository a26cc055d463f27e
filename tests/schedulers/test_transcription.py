"""The paper once more: Algorithm 1 and equations 2 to 6, written from its text alone, choose what the package chooses.

Nothing here comes from `adept.schedulers` but the classes under test. Where the text leaves something open, the
comment says what is taken; docs/deviations.md gives the reasons.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterator

import numpy as np
import pytest

import adept

Rule = Generator[int, float, None]
STREAMS = 40
EPISODES = 400


def algorithm_1(arms: list[int], c: float, W: int) -> Rule:  # noqa: N803
    """Adaptive data exploitation (UCB): lines 3 to 12. Send V̄, the mean return obtained by the new policy."""
    N = dict.fromkeys(arms, 1)  # noqa: N806
    Q = dict.fromkeys(arms, 0.0)  # noqa: N806
    R = {K: deque(maxlen=W) for K in arms}  # noqa: N806
    t = 1  # not defined before the first choice: log 1 = 0
    while True:
        best, K_e = -math.inf, arms[0]  # noqa: N806
        for K in arms:  # equation 2; ties are left open: the first  # noqa: N806
            bound = Q[K] + c * math.sqrt(math.log(t) / N[K])
            if bound > best:
                best, K_e = bound, K  # noqa: N806
        V = yield K_e  # noqa: N806
        R[K_e].append(V)  # line 10, first in first out
        Q[K_e] = math.fsum(R[K_e]) / len(R[K_e])  # line 11; equation 3 with a full window
        N[K_e] += 1  # line 12
        t += 1


def gaussian_thompson(arms: list[int], eta: float, W: int, seed: int) -> Rule:  # noqa: N803
    """Equations 4 and 5, with Q from equation 3. The start is left open: μ = 0, σ² = 1, N = 0."""
    rng = np.random.default_rng(seed)
    mu, sigma2 = dict.fromkeys(arms, 0.0), dict.fromkeys(arms, 1.0)
    N, R = dict.fromkeys(arms, 0), {K: deque(maxlen=W) for K in arms}  # noqa: N806
    while True:
        draws = {K: float(rng.normal(mu[K], math.sqrt(sigma2[K]))) for K in arms}  # equation 4
        K_t = max(arms, key=draws.__getitem__)  # noqa: N806
        V = yield K_t  # noqa: N806
        R[K_t].append(V)
        Q = math.fsum(R[K_t]) / len(R[K_t])  # noqa: N806
        old = mu[K_t]
        mu[K_t] = old + eta * (Q - old) / (N[K_t] + 1)  # equation 5, first line
        sigma2[K_t] = (N[K_t] * sigma2[K_t] + (Q - old) ** 2) / (N[K_t] + 1)  # second line, with μ of time t
        N[K_t] += 1


def round_robin(arms: list[int]) -> Rule:
    """Equation 6, 𝒦[(t mod |𝒦|) + 1] with the first place being 1; t counts from 0."""
    t = 0
    while True:
        yield arms[(t % len(arms) + 1) - 1]
        t += 1


def returns(stream: int) -> Iterator[float]:
    """Yield the returns of one made-up training run: noise, a trend and a size, all drawn, none of the choices."""
    rng = np.random.default_rng([7, stream])
    size, climb, start = 10 ** rng.uniform(-2, 2), rng.uniform(-3, 6), rng.uniform(-5, 5)
    for episode in range(EPISODES):
        yield float(size * (start + climb * episode / EPISODES + rng.normal()))


def random_arms(stream: int) -> list[int]:
    """Return two to five numbers of epochs in any order."""
    rng = np.random.default_rng([8, stream])
    return [int(arm) for arm in rng.choice(np.arange(1, 11), size=rng.integers(2, 6), replace=False)]


def compare(transcribed: Rule, scheduler: adept.Scheduler[int], stream: int) -> set[int]:
    """Check every choice on one stream, the reward arriving with the next one; return the arms that came up."""
    choice, seen = next(transcribed), set()
    assert scheduler.step(None) == choice
    for number, reward in enumerate(returns(stream)):
        # Besides the return of its own, an arm's reward tells the arms apart a little.
        reward += 0.1 * choice
        choice = transcribed.send(reward)
        assert scheduler.step(reward) == choice, f"choice {number + 2}"
        seen.add(choice)
    return seen


@pytest.mark.filterwarnings("ignore:.*has not tried")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("ucb", options) for options in ((5.0, 10), (1.0, 50), (0.1, 100), (5.0, 1))),
        *(("thompson", options) for options in ((1.0, 50), (0.1, 50), (0.5, 10))),
    ],
)
def test_bandits_are_those_of_the_paper(name: str, options: tuple[float, int]) -> None:
    varied = 0
    for stream in range(STREAMS):
        arms = random_arms(stream)
        ucb = name == "ucb"
        transcribed = algorithm_1(arms, *options) if ucb else gaussian_thompson(arms, *options, seed=stream)
        scheduler = adept.SCHEDULERS[name](arms, *options, seed=stream)
        varied += len(compare(transcribed, scheduler, stream)) > 1
    assert varied > STREAMS / 4, "streams on which the choice changes"


def test_round_robin_is_equation_6() -> None:
    for stream in range(STREAMS):
        arms = random_arms(stream)
        assert compare(round_robin(arms), adept.RoundRobin(arms), stream) == set(arms)
