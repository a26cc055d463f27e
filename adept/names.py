"""Errors about names: what was given, what is allowed, and the nearest name."""

from __future__ import annotations

from collections.abc import Iterable


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> ValueError:
    """Return the error for a name that is none of those allowed."""
    import difflib  # here, so that `import adept` stays as quick as NumPy

    names = list(allowed)
    near = difflib.get_close_matches(given.lower(), names, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ValueError(f"unknown {kind} {given!r}, expected one of {', '.join(names)}{hint}")
