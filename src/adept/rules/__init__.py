"""Rules: from feedback on the last update to the epochs and the learning rate of the next one.

A new rule is one new file and one line in `RULES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adept.hindsight.evaluation import Feedback
from adept.names import unknown_name
from adept.rules.adam_rel import AdamRel
from adept.rules.bandit import BanditRule
from adept.rules.base import Rule, Settings, rule_options
from adept.rules.hindsight import HindsightRule
from adept.rules.hypergradient import Hypergradient
from adept.rules.kl_rate import KLRate
from adept.rules.kl_rate_minibatch import KLRateMinibatch
from adept.schedulers import ARMS_ALONE, SCHEDULERS, Scheduler, make_scheduler

RULES: dict[str, type[Rule]] = {
    "hindsight": HindsightRule,
    "kl-rate": KLRate,
    "kl-rate-minibatch": KLRateMinibatch,
    "hypergradient": Hypergradient,
    "adam-rel": AdamRel,
}
"""Rules by name; the names of `SCHEDULERS` are rules as well, through `BanditRule`."""

__all__ = [
    "RULES",
    "AdamRel",
    "BanditRule",
    "Feedback",
    "HindsightRule",
    "Hypergradient",
    "KLRate",
    "KLRateMinibatch",
    "Rule",
    "Settings",
    "make_rule",
    "rule_options",
]


def make_rule(given: Any, *, epochs: int, arms: Sequence[int] | None = None, seed: int = 0) -> Rule:
    """Return the rule that a value stands for, so that a file or a command line can name one.

    Args:
        given: a rule, which is returned as it is; a scheduler; the name of a rule or of a scheduler; a list of arms,
            for `StandardizedUCB` on them; or a mapping of `name`, `epochs` or `arms`, `seed` and the rule's own
            options, such as `{"name": "ucb", "arms": [10, 5, 1], "window": 20}`, where only what differs need be given.
        epochs: the host's epochs per update, which a rule starts from.
        arms: for a scheduler that names none; by default the host's epochs, half of them, and one.
        seed: for a value that names none.
    """
    if isinstance(given, Rule):
        return given
    if isinstance(given, Scheduler):
        return BanditRule(given)
    if isinstance(given, str):
        given = {"name": given}
    elif isinstance(given, Sequence) and not isinstance(given, bytes):
        given = {"arms": given}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ValueError(
            f"a rule is a Rule, a Scheduler, a name, a list of arms or a mapping of name and options, got {given!r}; "
            "for example 'hindsight', or {'name': 'ucb', 'arms': [10, 5, 1]}"
        )
    values = {"name": ARMS_ALONE, "seed": seed, **given}
    name = values.pop("name")
    if isinstance(name, str) and name in RULES:
        allowed = rule_options(RULES[name])
        for option in values.keys() - {"epochs", "seed"}:
            if option not in allowed:
                raise unknown_name(f"option of rule {name!r}:", option, allowed)
        return RULES[name](values.pop("epochs", epochs), **values)
    if isinstance(name, str) and name not in SCHEDULERS and ":" not in name:
        raise unknown_name("scheduler or rule", name, (*SCHEDULERS, *RULES))
    default = tuple(dict.fromkeys((epochs, max(1, epochs // 2), 1))) if arms is None else arms
    return BanditRule(make_scheduler(name, values.pop("arms", default), **values))
