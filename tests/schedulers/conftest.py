"""Every scheduler there is: the table's, by name, and one from outside, by `package.module:Class`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from adept.schedulers import SCHEDULERS, Scheduler, make_scheduler, scheduler_class, scheduler_options

# The same examples in every run, and no clock: a busy machine is not a failure.
settings.register_profile("adept", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("adept")

Make = Callable[..., Scheduler[Any]]

OUTSIDE = "a_users_module:Softmax"


VARIANTS = [
    *((name, {}) for name in (*SCHEDULERS, OUTSIDE)),
    *((name, {"scale": None}) for name in ("ucb", "thompson")),
]


@pytest.fixture(scope="session", params=VARIANTS, ids=lambda variant: variant[0] + "-paper" * bool(variant[1]))
def variant(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    """A scheduler's name and options; a new line in `SCHEDULERS` is covered by being there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent / "outside")
        yield request.param


@pytest.fixture(scope="session")
def name(variant: tuple[str, dict[str, Any]]) -> str:
    """The name of a scheduler."""
    return variant[0]


@pytest.fixture(scope="session")
def make(name: str, variant: tuple[str, dict[str, Any]]) -> Make:
    """Build the scheduler from arms; a fixed one takes the first of them."""

    def build(arms: Sequence[Any], seed: int = 0, **options: Any) -> Scheduler[Any]:
        return make_scheduler(name, arms[:1] if name == "fixed" else arms, seed=seed, **variant[1], **options)

    return build


@pytest.fixture
def used(name: str, make: Make) -> Scheduler[Any]:
    """A scheduler in the middle of its life, with windows that have overflowed."""
    small = {"window": 4} if "window" in scheduler_options(scheduler_class(name)) else {}
    scheduler = make([3, 2, 1], seed=5, **small)
    rng = random.Random(0)
    for _ in range(200):
        scheduler.step(rng.gauss(1.0, 2.0))
    return scheduler
