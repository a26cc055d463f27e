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


def numbers(scheduler: Scheduler[Any], name: str) -> list[float]:
    """Return a rule's numbers of one name, in the order of the arms."""
    return [value for key, value in scheduler.diagnostics().items() if key.startswith(f"{name}/")]


@pytest.fixture(scope="session", params=[*SCHEDULERS, OUTSIDE])
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a scheduler; a new line in `SCHEDULERS` is covered by being there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent / "outside")
        yield str(request.param)


@pytest.fixture(scope="session")
def make(name: str) -> Make:
    """Build the scheduler from arms; a fixed one takes the first of them."""

    def build(arms: Sequence[Any], seed: int = 0, **options: Any) -> Scheduler[Any]:
        return make_scheduler(name, arms[:1] if name == "fixed" else arms, seed=seed, **options)

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
