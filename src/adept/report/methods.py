"""Methods of runs that belong to no study: a method is what differs between runs, and is called by it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adept.config import Config
from adept.presets import preset
from adept.studies.results import MONITORING

PRESET = "preset"
"""Stands for a value that is that of the task's preset: tasks of different presets can then be of one method."""
NO_PART = ("env", "seed", *MONITORING)
"""Configuration keys that are no part of a method."""
CHOOSER = ("scheduler", "epochs", "arms")
"""Keys that make one word of a name: K=4, or ADEPT(U) {4,2,1}."""
NAMES = {"ucb": "ADEPT(U)", "thompson": "ADEPT(G)", "round-robin": "ADEPT(R)"}
"""The paper's names of its bandits."""
Values = dict[str, Any]


def name_methods(configs: Sequence[Config]) -> list[str]:
    """Return each run's method, called by what tells it from the others; equal names are equal methods.

    Runs on different tasks are of one method where each has the values of its task's preset, or where they are equal.
    """
    own, usual = list(map(_values, configs)), list(map(_preset_values, configs))
    shown = [_shown(place, configs, own, usual) for place in range(len(configs))]
    differing, alike = differing_keys(shown), dict[str, list[int]]()
    for place, values in enumerate(shown):
        identity = json.dumps([values.get(key) for key in differing], sort_keys=True)
        alike.setdefault(identity, []).append(place)
    names, taken = dict[int, str](), Counter[str]()
    for places in alike.values():
        name = _name([configs[place] for place in places], [own[place] for place in places], own, differing)
        taken[name] += 1
        names |= dict.fromkeys(places, name if taken[name] == 1 else f"{name} #{taken[name]}")
    return [names[place] for place in range(len(configs))]


def differing_keys(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of which two tables have different values."""
    listed = list(tables)
    keys = dict.fromkeys(key for values in listed for key in values)
    return [key for key in keys if len({json.dumps(values.get(key), sort_keys=True) for values in listed}) > 1]


def deviations(config: Config | None) -> int:
    """Return in how many keys a configuration departs from its preset, the budget of steps aside; 0 without one."""
    if config is None:
        return 0
    usual = _preset_values(config)
    return sum(value != usual[key] for key, value in _values(config).items() if key != "steps")


def _preset_values(config: Config) -> Values:
    return _values(preset(config.env, config.algo, config.scheduler))


def _values(config: Config) -> Values:
    """Return the keys that may tell methods apart, with every option of the scheduler at its value."""
    named = ":" in config.scheduler  # code that a file names is not imported for its options
    options = dict(config.scheduler_options if named else config.rule().options)
    values = {**config.to_dict(), "scheduler_options": options}
    return {key: value for key, value in values.items() if key not in NO_PART}


def _shown(place: int, configs: Sequence[Config], own: list[Values], usual: list[Values]) -> Values:
    """Return a run's values; PRESET where they are the preset's, and no alike run has them by departing from its own.

    A budget of steps that all runs on the task share is the task's.
    """
    alike = [other for other, config in enumerate(configs)
             if (config.algo, config.scheduler) == (configs[place].algo, configs[place].scheduler)]  # fmt: skip
    found = dict(own[place])
    for key, value in own[place].items():
        if key == "steps":
            here = {config.steps for config in configs if config.env == configs[place].env}
            found[key] = value if len(here) > 1 else PRESET
        elif key not in ("algo", "scheduler") and value == usual[place][key]:
            chosen = any(own[other][key] == value != usual[other][key] for other in alike)
            found[key] = value if chosen else PRESET
    return found


def _name(
    configs: Sequence[Config], values: Sequence[Values], every: Sequence[Values], differing: Sequence[str]
) -> str:
    """Call a method by what it is in the keys that differ; by its epochs where none does."""
    first, words = configs[0], []
    if "algo" in differing or not differing:
        words.append(first.algo)
    if not differing or any(key in differing for key in CHOOSER):
        words.append(_chooser(configs))
    for key in differing:
        value, same = values[0][key], all(other[key] == values[0][key] for other in values)
        if key in ("algo", *CHOOSER):
            continue
        if isinstance(value, dict):
            rivals = [table[key] for table in every if table["scheduler"] == first.scheduler]
            words += [f"{name}={_text(value[name])}" for name in differing_keys(rivals) if same and name in value]
        else:
            words.append(f"{key}={_text(value)}" if same else f"{PRESET} {key}")
    return " ".join(words) or _chooser(configs)


def _chooser(configs: Sequence[Config]) -> str:
    choices = {config.choices for config in configs}
    listed = ",".join(map(str, configs[0].choices)) if len(choices) == 1 else ""
    if configs[0].scheduler == "fixed":
        return f"K={listed}" if listed else f"{PRESET} K"
    name = NAMES.get(configs[0].scheduler, configs[0].scheduler)
    return f"{name} {{{listed}}}" if configs[0].is_bandit and listed else name


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
