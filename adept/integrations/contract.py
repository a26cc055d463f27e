"""What every integration shares: how it checks what it was given, and how it names what it logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from adept.extras import MissingExtra, require
from adept.schedulers import Scheduler, epoch_arms

PREFIX = "adept"
"""Everything logged under the host's logger starts with it."""


def require_framework(module: str, *, package: str, at_least: str, below: str, extra: str) -> None:
    """Refuse a framework that is missing, or of a version that this integration was not written for."""
    try:
        require(module, extra)
    except MissingExtra:
        raise
    except ImportError as error:  # for example Ray without what its RLlib needs
        raise ImportError(
            f"{package} is installed, but {module} cannot be imported ({error}): pip install 'adept-rl[{extra}]'"
        ) from error
    installed = metadata.version(package)
    if not _release(at_least) <= _release(installed) < _release(below):
        raise ImportError(
            f"{package} {installed} is installed; adept.integrations.{extra} works with {package}>={at_least},<{below}"
            f": pip install 'adept-rl[{extra}]'"
        )


def epoch_scheduler(scheduler: Any) -> Scheduler[int]:
    """Check that a scheduler chooses numbers of epochs."""
    if not isinstance(scheduler, Scheduler):
        raise ValueError(f"expected a scheduler, got {scheduler!r}; for example adept.UCB([10, 5, 1])")
    epoch_arms(scheduler.arms)
    return scheduler


def metrics(
    scheduler: Scheduler[int],
    *,
    epochs: float | None = None,
    epochs_done: float | None = None,
    reward: float | None = None,
) -> dict[str, float]:
    """Return what the host's logger gets: a choice, what came of it, and the numbers of each arm."""
    choice = {"epochs": epochs, "epochs_done": epochs_done, "reward": reward}
    named = {name: float(value) for name, value in choice.items() if value is not None}
    return {f"{PREFIX}/{name}": value for name, value in (named | scheduler.diagnostics()).items()}


def restore(scheduler: Scheduler[int], state: Any, *, forget: str) -> None:
    """Load a state found in the host's checkpoint; `forget` tells how to do without it."""
    try:
        scheduler.load_state_dict(state)
    except ValueError as error:
        raise ValueError(f"{error}; or {forget} to start it afresh") from error


class GradientSteps:
    """Count the steps of a PyTorch optimiser, which tell what an update really did."""

    def __init__(self, optimizer: Any) -> None:
        self.count = 0
        self._hook = optimizer.register_step_post_hook(self._add)

    def _add(self, *_: Any) -> None:
        self.count += 1

    def remove(self) -> None:
        """Stop counting."""
        self._hook.remove()


@contextmanager
def held_steps(learning_rate: Any) -> Iterator[list[tuple[Any, ...]]]:
    """Keep a learning-rate schedule that counts epochs, or steps within them, from counting the chosen ones.

    The steps that the host makes of it meanwhile are not made; their arguments are yielded. It is then for the
    integration to make as many as the configured number of epochs would have asked for.
    """
    asked: list[tuple[Any, ...]] = []
    own = vars(learning_rate).get("step")
    learning_rate.step = lambda *args: asked.append(args)
    try:
        yield asked
    finally:
        del learning_rate.step
        if own is not None:
            learning_rate.step = own


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, which is all that the bounds here speak of."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in leading.group().split(".")) if leading else ()
