"""`adept flops`: count the compute of an agent."""

from __future__ import annotations

from adept.cli import parse, print_json
from adept.studies import commands


def run(words: list[str]) -> int:
    """Carry out the command."""
    options = parse(commands.FlopsOptions, "flops", words)
    result = commands.flops(options)
    if options.json:
        print_json(result)
    return 0
