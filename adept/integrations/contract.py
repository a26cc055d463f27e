"""What every integration shares: how it checks what it was given, and how it names what it logs."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

from adept.schedulers import Scheduler, epoch_arms

PREFIX = "adept"
"""Everything logged under the host's logger starts with it."""


def missing(framework: str, extra: str) -> ImportError:
    """Return the error for a framework that is not installed."""
    return ImportError(f"{framework} is not installed, this integration needs it; run: {_command(extra)}")


def require_version(package: str, *, at_least: str, below: str, extra: str) -> None:
    """Refuse a version of a framework that this integration was not written for."""
    try:
        installed = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise missing(package, extra) from None
    if not _release(at_least) <= _release(installed) < _release(below):
        raise ImportError(
            f"{package} {installed} is installed, this integration works with {package}>={at_least},<{below}; "
            f"run: {_command(extra)}"
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


def _command(extra: str) -> str:
    return f"pip install 'adept-rl[{extra}]'"


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, which is all that the bounds here speak of."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in leading.group().split(".")) if leading else ()
