"""Code that a configuration names: found without importing it, imported only on the user's word."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from adept.config import Config
from adept.envs import BACKENDS
from adept.names import check_reference

SCHEDULER_FIELDS = ("scheduler", "augmentation", "augmentation_scheduler")


def named_schedulers(config: Config) -> list[str]:
    """Return the schedulers that a configuration names as `package.module:Class`."""
    names = [getattr(config, field, "") for field in SCHEDULER_FIELDS]
    return [name for name in dict.fromkeys(names) if ":" in name]


def named_environments(config: Config) -> list[str]:
    """Return the environment, where making it imports a module: Gymnasium's `module:Id-v0`."""
    backend = BACKENDS.get(config.backend)
    return [config.task] if backend is not None and backend.imports_code(config.task) else []


def require_trust(names: Iterable[str], trusted: bool, source: str) -> None:
    """Refuse names of code that come from a file, unless the user has said that they may be imported."""
    named = sorted(set(names))
    if named and not trusted:
        raise ValueError(
            f"{source} names code to import: {', '.join(named)}; nothing was imported. Add --trust if you trust it"
        )


def import_named(names: Iterable[str]) -> None:
    """Import the modules of these names; the current folder is searched too, last, and only meanwhile."""
    for name in names:
        module = name.partition(":")[0]
        check_reference("module", f"{module}:name")
        try:
            with _current_folder_last():
                importlib.import_module(module)
        except Exception as error:  # whatever the user's module does when it is imported
            raise ValueError(
                f"cannot import {module!r}, named by {name!r}: {type(error).__name__}: {error}; "
                "give 'package.module:Class', importable from here"
            ) from error


@contextlib.contextmanager
def _current_folder_last() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.reverse()
        sys.path.remove(folder)
        sys.path.reverse()
