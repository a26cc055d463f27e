"""Optional dependencies: a missing one is answered with the command that installs it."""

from __future__ import annotations

import importlib
from types import ModuleType


class MissingExtra(ImportError):
    """A dependency that only an extra of this package installs is missing."""


def require(module: str, extra: str) -> ModuleType:
    """Import a module that comes with an extra; where it is missing, say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A missing dependency of an installed module is not ours to explain.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise MissingExtra(
            f"{error.name} is not installed; it comes with the extra {extra!r}: pip install 'adept-rl[{extra}]'",
            name=error.name,
        ) from error
