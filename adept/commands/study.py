"""`adept study` and `adept study status`: run the grid of a study, and show how it stands."""

from __future__ import annotations

from adept.cli import parse, print_json
from adept.studies import commands


def run(words: list[str]) -> int:
    """Carry out the command."""
    if words[:1] == ["status"]:
        status = parse(commands.StatusOptions, "study status", words[1:])
        result, code = commands.status(status), 0
        wanted = status.json
    else:
        options = parse(commands.StudyOptions, "study", words)
        result, code = commands.study(options)
        wanted = options.json
    if wanted:
        print_json(result)
    return code
