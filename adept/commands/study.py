"""`adept study`, `adept study status` and `adept study pack`: run the grid of a study, show it, store it small."""

from __future__ import annotations

from typing import Any

from adept.cli import parse, print_json
from adept.studies import commands
from adept.studies.results import pack


def run(words: list[str]) -> int:
    """Carry out the command."""
    match words[:1]:
        case ["status"]:
            options = parse(commands.StatusOptions, "study status", words[1:])
            return _end(commands.status(options), options.json)
        case ["pack"]:
            options = parse(commands.StatusOptions, "study pack", words[1:])
            file = pack(options.directory)
            if not options.json:
                print(f"{file}: {file.stat().st_size:,} bytes; the folder runs/ is not needed to report")
            return _end({"file": str(file), "bytes": file.stat().st_size}, options.json)
    wanted = parse(commands.StudyOptions, "study", words)
    result, code = commands.study(wanted)
    _end(result, wanted.json)
    return code


def _end(result: dict[str, Any], json: bool) -> int:
    if json:
        print_json(result)
    return 0
