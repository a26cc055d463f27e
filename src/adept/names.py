"""Errors about names: what was given, what is allowed, and the nearest name."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_REFERENCE = 200

MOST_LISTED = 30
"""Longer lists of allowed names are cut to the nearest ones: an error is to be read."""


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> ValueError:
    """Return the error for a name that is none of those allowed; upper and lower case count as equal."""
    import difflib  # here, so that `import adept` stays as quick as NumPy

    names = {name.lower(): name for name in allowed}
    near = [names[match] for match in difflib.get_close_matches(given.lower(), names, n=5, cutoff=0.4)]
    if not names:
        expected = "there are none"
    elif len(names) <= MOST_LISTED:
        expected = f"expected one of {', '.join(names.values())}"
    else:
        expected = f"expected one of {len(names)} names" + (f", such as {', '.join(near)}" if near else "")
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ValueError(f"unknown {kind} {given!r}, {expected}{hint}")


def check_reference(kind: str, given: str) -> None:
    """Check that a name has the form `package.module:Class`, importing nothing."""
    module, _, attribute = given.partition(":")
    parts = [*module.split("."), attribute]
    if len(given) > LONGEST_REFERENCE or not all(part.isidentifier() for part in parts):
        raise ValueError(f"{kind} {given[:LONGEST_REFERENCE]!r} is no name of a class; give 'package.module:Class'")
