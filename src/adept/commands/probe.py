"""`adept probe`: say whether a scheduler's choices mean anything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.table import Table

from adept.cli import parse, print_json
from adept.names import unknown_name
from adept.options import Metavar, Positional
from adept.presets import preset
from adept.probe.distances import BAND, ENOUGH, NOISES, UPDATES, lr_scales
from adept.probe.effects import ArmEffects, effects
from adept.probe.placebo import Placebo, placebos, preference
from adept.probe.records import Records, load_records
from adept.probe.stages import Search, branches_path, load_stages, search, write_branches
from adept.report.statistics import Estimate
from adept.rules import RULES
from adept.runs.imports import import_named
from adept.schedulers import scheduler_class, scheduler_options
from adept.terminal import make_console, say

Arms = Annotated[tuple[int, ...] | None, Metavar("K")]
VERDICTS = {
    "none": "No arm is preferred",
    "cheapest": "The cheapest arm is preferred in {cheapest} of {runs} runs, which saves compute and claims nothing",
    "arms": "It prefers arms on rewards that it cannot have changed",
    "unclear": "These runs are too few to say whether it prefers arms",
}


@dataclass(frozen=True)
class ProbeOptions:
    """Test whether a scheduler prefers arms on placebo rewards, which no choice can change, and finds good arms."""

    scheduler: Positional[str]
    """a scheduler's name (ucb, …), package.module:Class, which is imported, or a controller's name (hindsight, …)"""
    records: Path | None = None
    """a study's folder: the rewards of its runs with fixed epochs are the placebo, its round robin shows the effects"""
    branches: Path | None = None
    """a folder of branches: states from which every one of their arms was tried, with the true return of each"""
    arms: Arms = None
    """arms to choose from; by default those of the study's method with this scheduler, or the preset's"""
    options: dict[str, float | str] = field(default_factory=dict)
    """the scheduler's own options as name value pairs, for example exploration 5 window 10"""
    reward: Literal["gae_return", "episode_return"] = "gae_return"
    """column that the scheduler is credited with"""
    json: bool = False
    """print one JSON object, on stdout"""


@dataclass(frozen=True)
class BranchOptions:
    """Stop a run at several stages, update from each with every K, and measure the true return of the result."""

    env: Positional[str]
    """environment as backend/name, for example minigrid/DoorKey-6x6"""
    out: Path
    """folder of the table of branches"""
    seed: int = 1
    """of the run"""
    arms: Annotated[tuple[int, ...], Metavar("K")] = (1, 2, 4, 8)
    """numbers of epochs that are tried"""
    stages: Annotated[tuple[int, ...], Metavar("N")] = (10, 40, 160)
    """iterations after which the run is stopped"""
    repeats: int = 12
    """rollouts from each stage"""
    settle: int = 3
    """rollouts of the old policy before each, so that the ages of episodes are mixed"""
    listen: int = 10
    """rollouts of the new policy that make up its true return"""


def run(words: list[str]) -> int:
    """Carry out the command."""
    if words[:1] == ["branches"]:
        say(branch(parse(BranchOptions, "probe branches", words[1:])))
        return 0
    options = parse(ProbeOptions, "probe", words)
    result = probe(options)
    if options.json:
        print_json(result)
    return 0


def probe(options: ProbeOptions) -> dict[str, Any]:
    """Carry out `adept probe`; return the object for --json."""
    if options.scheduler in RULES:
        return _probe_controller(options)
    if options.records is None and options.branches is None:
        raise ValueError(
            f"probe: no rewards to feed to {options.scheduler}; give a study's folder, for example "
            "--records results/minigrid, or a folder of branches, for example --branches results/branches"
        )
    if ":" in options.scheduler:
        import_named([options.scheduler])
    # A mistake in the name comes before the records are read.
    known = scheduler_options(scheduler_class(options.scheduler))
    for name in options.options:
        if name not in known:
            raise unknown_name(f"option of scheduler {options.scheduler!r}:", name, known)
    result: dict[str, Any] = {"scheduler": options.scheduler, "reward": options.reward}
    settings = dict(options.options)
    if options.records is not None:
        records = load_records(options.records)
        arms, settings = defaults(records, options)
        found = placebos(records, options.scheduler, arms, settings, options.reward)
        seen = effects(records, options.reward)
        result |= {"arms": list(arms), "options": settings, "placebo": _placebo_facts(records, found)}
        result["effects"] = [_effect_facts(entry) for entry in seen]
        if not options.json:
            _show_placebo(options, arms, settings, records, found)
            _show_effects(seen)
    if options.branches is not None:
        searches = [search(stage, options.scheduler, settings) for stage in load_stages(options.branches)]
        result["branches"] = [_search_facts(entry) for entry in searches]
        if not options.json:
            _show_searches(searches)
    return result


def _probe_controller(options: ProbeOptions) -> dict[str, Any]:
    """Run a controller on evidence that holds no signal."""
    epochs = max(options.arms or (10,))
    found = [lr_scales(options.scheduler, epochs, options.options, noise) for noise in NOISES]
    passed = all(entry.passed for entry in found)
    if not options.json:
        _print(
            [f"Scale of {options.scheduler} with K={epochs} on evidence without a signal, relative to its start:"],
            ("slopes", f"runs of {UPDATES} updates", f"within 1/{BAND:g} and {BAND:g}", "95 % stay within a factor of"),
            [[entry.noise, str(len(entry.table)), f"{100 * entry.inside:.0f} %", f"{entry.furthest:.2f}"]
             for entry in found],
        )  # fmt: skip
        verdict = "It passes" if passed else "It does not pass: it follows noise"
        _print([f"{verdict}; at least {100 * ENOUGH:.0f} % of runs must stay within."])
    facts = {entry.noise: {"runs": len(entry.table), "inside": entry.inside, "furthest": entry.furthest}
             for entry in found}  # fmt: skip
    return {"controller": options.scheduler, "epochs": epochs, "passed": passed, "noise": facts}


def defaults(records: Records, options: ProbeOptions) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the arms and options to probe: as given, else those of the study's method, else the preset's."""
    own = [config for config in records.methods.values() if config.scheduler == options.scheduler]
    if options.arms is not None:
        own = [config for config in own if config.choices == options.arms] or own
    config = own[0] if own else preset(records.tasks[0], scheduler=options.scheduler)
    known = scheduler_options(scheduler_class(options.scheduler))
    settings = {name: value for name, value in config.scheduler_options.items() if name in known}
    return options.arms or config.choices, settings | options.options


def branch(options: BranchOptions) -> Path:
    """Carry out `adept probe branches`; return the file that was written."""
    from adept.probe.branches import Branching, branches  # needs PyTorch

    path = branches_path(options.out, options.env, options.seed)
    if path.exists():
        raise ValueError(f"{path} exists; branches are never overwritten: choose another --out or --seed")
    plan = Branching(options.arms, options.stages, options.repeats, options.settle, options.listen)
    config = replace(preset(options.env, scheduler="fixed"), seed=options.seed)
    write_branches(path, branches(config, plan))
    return path


def _placebo_facts(records: Records, found: Sequence[Placebo]) -> dict[str, Any]:
    verdict = preference(found)
    return {
        "verdict": verdict.verdict,
        "source": records.unchanged(),
        "runs": verdict.runs,
        "most_chosen_share": _numbers(verdict.most),
        "even_share": verdict.even,
        "tasks": [
            {
                "task": entry.task,
                "runs": len(entry.fed),
                "most_chosen_share": _numbers(entry.most),
                "in_random_order": _numbers(entry.shuffled_most),
                "favourites": {str(arm): count for arm, count in entry.favourites.items()},
            }
            for entry in found
        ],
    }


def _effect_facts(entry: ArmEffects) -> dict[str, Any]:
    changes = {str(arm): _numbers(change) for arm, change in zip(entry.arms, entry.changes, strict=True)}
    tries = entry.tries if math.isfinite(entry.tries) else None
    return {"task": entry.task, "noise": entry.noise, "changes": changes, "gap": entry.gap, "tries": tries}


def _search_facts(entry: Search) -> dict[str, Any]:
    stage = entry.stage
    return {"task": stage.task, "seed": stage.seed, "step": stage.step, "arms": list(stage.arms),
            "lead": _numbers(stage.lead("truth")), "best_arm": stage.oracle,
            "best_arm_share": _numbers(entry.best), "regret": _numbers(entry.regret)}  # fmt: skip


def _numbers(estimate: Estimate) -> dict[str, float | None]:
    values = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _percent(estimate: Estimate) -> str:
    if not estimate.has_interval:
        return f"{100 * estimate.value:.0f} %"
    return f"{100 * estimate.value:.0f} % [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"


def _show_placebo(
    options: ProbeOptions, arms: Sequence[int], settings: Mapping[str, Any], records: Records, found: Sequence[Placebo]
) -> None:
    verdict = preference(found)
    given = "".join(f", {name} {value}" for name, value in settings.items())
    lines = [
        f"Placebo: {options.scheduler} with arms {{{', '.join(map(str, arms))}}}{given}, fed the {options.reward} of "
        f"{verdict.runs} runs of {records.unchanged()}, whose epochs never changed."
    ]
    _print(lines, ("task", "runs", "share of the most-chosen arm [95 %]", "the same in random order", "favourite of"), [
        [entry.task, str(len(entry.fed)), _percent(entry.most), _percent(entry.shuffled_most),
         ", ".join(f"K={arm}: {count}" for arm, count in entry.favourites.items())]
        for entry in found
    ])  # fmt: skip
    words = VERDICTS[verdict.verdict].format(cheapest=verdict.cheapest_runs, runs=verdict.runs)
    _print([f"{words}: its most-chosen arm gets {_percent(verdict.most)} of updates; "
            f"{100 * verdict.even:.0f} % would be even."])  # fmt: skip


def _show_effects(found: Sequence[ArmEffects]) -> None:
    if found:
        _print(
            ["", "Effects of the arms on the next reward in round robin, in % of the noise of one change:"],
            ("task", "change after each arm [95 %]", "largest gap", "tries of each arm to see it"),
            [[entry.task,
              "; ".join(f"K={arm}: {_percent(each)}" for arm, each in zip(entry.arms, entry.changes, strict=True)),
              f"{100 * entry.gap:.0f} %", f"{entry.tries:,.0f}"] for entry in found],
        )  # fmt: skip


def _show_searches(searches: Sequence[Search]) -> None:
    _print(
        ["", "Branches: choices where the state stands still, so that every arm can be tried again and again."],
        ("run", "step", "lead of the best arm in true return [95 %]", "best arm", "share of choices", "regret"),
        [[f"{entry.stage.task}, seed {entry.stage.seed}", f"{entry.stage.step:,}",
          _plain(entry.stage.lead("truth")), f"K={entry.stage.oracle}", _percent(entry.best), _percent(entry.regret)]
         for entry in searches],
    )  # fmt: skip


def _plain(estimate: Estimate) -> str:
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def _print(lines: Sequence[str], header: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()) -> None:
    console = make_console()
    console.print("\n".join(lines))
    if header:
        table = Table(*header)
        for row in rows:
            table.add_row(*row)
        console.print(table)
