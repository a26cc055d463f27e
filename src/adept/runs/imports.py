"""Code that a configuration names: found without importing it, imported only on the user's word.

Nothing else is imported from the folder in which a command is given, neither here nor in processes started for it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from adept.config import Config
from adept.envs import BACKENDS
from adept.names import check_reference


def named_environments(config: Config) -> list[str]:
    """Return the environment, where making it imports a module: Gymnasium's `module:Id-v0`."""
    backend = BACKENDS.get(config.backend)
    return [config.task] if backend is not None and backend.imports_code(config.task) else []


def named_code(config: Config) -> list[str]:
    """Return everything that a configuration names to be imported: schedulers as `package.module:Class`, too."""
    schedulers = dict.fromkeys((config.scheduler, config.augmentation, config.augmentation_scheduler))
    return [*(name for name in schedulers if ":" in name), *named_environments(config)]


def import_trusted(names: Iterable[str], trusted: bool, source: str, folder: Path | None = None) -> None:
    """Import code that a file names; refuse to, unless the user has said that it may be imported."""
    named = sorted(set(names))
    if named and not trusted:
        raise ValueError(
            f"{source} names code to import: {', '.join(named)}; nothing was imported. Add --trust if you trust it"
        )
    import_named(named, folder)


def import_named(names: Iterable[str], folder: Path | None = None) -> None:
    """Import the modules of these names; a folder, by default the current one, is searched last, and only meanwhile."""
    searched = str(folder or Path.cwd())
    for name in names:
        module = name.partition(":")[0]
        check_reference("module", f"{module}:name")
        sys.path.append(searched)
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever the user's module does when it is imported
            raise ValueError(
                f"cannot import {module!r}, named by {name!r}: {type(error).__name__}: {error}; "
                "give 'package.module:Class', importable from here"
            ) from error
        finally:
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(searched)]  # the last one


@contextlib.contextmanager
def outside_current_folder() -> Iterator[None]:
    """Stand in the root folder meanwhile: processes that start find no modules in the folder of the command."""
    folder, before = Path.cwd(), os.environ.get("PYTHONPATH")
    if before:  # what is relative there would be searched for elsewhere
        os.environ["PYTHONPATH"] = os.pathsep.join(str(folder / entry) for entry in before.split(os.pathsep) if entry)
    os.chdir("/")
    try:
        yield
    finally:
        os.chdir(folder)
        if before:
            os.environ["PYTHONPATH"] = before
