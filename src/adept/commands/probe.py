"""`adept probe`: say whether a scheduler's choices mean anything."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from adept.cli import parse, print_json
from adept.names import unknown_name
from adept.options import Positional
from adept.presets import preset
from adept.probe.distances import BAND, ENOUGH, NOISES, UPDATES, lr_scales
from adept.probe.effects import effects
from adept.probe.placebo import Placebo, placebos, preference
from adept.probe.records import configs, unchanged
from adept.probe.stages import branches_path, load_stages, search, write_branches
from adept.rules import RULES
from adept.runs.imports import import_named
from adept.schedulers import scheduler_class, scheduler_options
from adept.studies.results import StudyResults, load_results
from adept.terminal import make_console, say, table

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
    arms: tuple[int, ...] | None = None
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
    arms: tuple[int, ...] = (1, 2, 4, 8)
    """numbers of epochs that are tried"""
    stages: tuple[int, ...] = (10, 40, 160)
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
    carry_out, show = (probe_rule, show_rule) if options.scheduler in RULES else (probe_scheduler, show_scheduler)
    facts = carry_out(options)
    if options.json:
        print_json(facts)
    else:
        show(facts)
    return 0


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


def probe_rule(options: ProbeOptions) -> dict[str, Any]:
    """Run a rule on evidence that holds no signal; return the facts for --json."""
    epochs = max(options.arms or (10,))
    found = {noise: lr_scales(options.scheduler, epochs, options.options, noise) for noise in NOISES}
    facts = {noise: {"runs": len(each.table), "inside": each.inside, "furthest": each.furthest}
             for noise, each in found.items()}  # fmt: skip
    passed = all(each.passed for each in found.values())
    return {"controller": options.scheduler, "epochs": epochs, "passed": passed, "noise": facts}


def show_rule(facts: Mapping[str, Any]) -> None:
    """Print what `probe_rule` found."""
    console = make_console()
    console.print(f"Scale of {facts['controller']} with K={facts['epochs']} on evidence without a signal, "
                  "relative to its start:")  # fmt: skip
    console.print(table(
        ("slopes", f"runs of {UPDATES} updates", f"within 1/{BAND:g} and {BAND:g}", "95 % stay within a factor of"),
        [[noise, str(each["runs"]), f"{100 * each['inside']:.0f} %", f"{each['furthest']:.2f}"]
         for noise, each in facts["noise"].items()],
    ))  # fmt: skip
    verdict = "It passes" if facts["passed"] else "It does not pass: it follows noise"
    console.print(f"{verdict}; at least {100 * ENOUGH:.0f} % of runs must stay within.")


def probe_scheduler(options: ProbeOptions) -> dict[str, Any]:
    """Feed a scheduler placebo rewards and those of branches; return the facts for --json."""
    if options.records is None and options.branches is None:
        raise ValueError(
            f"probe: no rewards to feed to {options.scheduler}; give a study's folder, for example "
            "--records results/minigrid, or a folder of branches, for example --branches results/branches"
        )
    if ":" in options.scheduler:
        import_named([options.scheduler])
    known = scheduler_options(scheduler_class(options.scheduler))
    for name in options.options:  # a mistake in a name comes before the records are read
        if name not in known:
            raise unknown_name(f"option of scheduler {options.scheduler!r}:", name, known)
    facts: dict[str, Any] = {"scheduler": options.scheduler, "reward": options.reward}
    settings = dict(options.options)
    if options.records is not None:
        results = load_results(options.records)
        arms, settings = defaults(results, options, known)
        found = placebos(results, options.scheduler, arms, settings, options.reward)
        facts |= {"arms": list(arms), "options": settings, "placebo": _placebo_facts(results, found)}
        facts["effects"] = [
            {"task": each.task, "noise": each.noise,
             "changes": {str(arm): asdict(change) for arm, change in zip(each.arms, each.changes, strict=True)},
             "gap": each.gap, "tries": each.tries}
            for each in effects(results, options.reward)
        ]  # fmt: skip
    if options.branches is not None:
        facts["branches"] = [
            {"task": stage.task, "seed": stage.seed, "step": stage.step, "arms": list(stage.arms),
             "lead": asdict(stage.lead("truth")), "best_arm": stage.best("truth"),
             "best_arm_share": asdict(result.best), "regret": asdict(result.regret)}
            for stage in load_stages(options.branches)
            for result in [search(stage, options.scheduler, settings)]
        ]  # fmt: skip
    return facts


def defaults(
    results: StudyResults, options: ProbeOptions, known: Collection[str]
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Return the arms and options to probe: as given, else those of the study's method, else the preset's."""
    own = [config for config in configs(results.study).values() if config.scheduler == options.scheduler]
    if options.arms is not None:
        own = [config for config in own if config.choices == options.arms] or own
    config = own[0] if own else preset(results.study.tasks[0], scheduler=options.scheduler)
    settings = {name: value for name, value in config.scheduler_options.items() if name in known}
    return options.arms or config.choices, settings | options.options


def _placebo_facts(results: StudyResults, found: Sequence[Placebo]) -> dict[str, Any]:
    verdict = preference(found)
    return {
        "verdict": verdict.verdict,
        "source": unchanged(results),
        "runs": verdict.runs,
        "most_chosen_share": asdict(verdict.most),
        "even_share": verdict.even,
        "tasks": [
            {
                "task": entry.task,
                "runs": len(entry.fed),
                "most_chosen_share": asdict(entry.most),
                "in_random_order": asdict(entry.shuffled_most),
                "favourites": {str(arm): count for arm, count in entry.favourites.items()},
            }
            for entry in found
        ],
    }


def show_scheduler(facts: Mapping[str, Any]) -> None:
    """Print what `probe_scheduler` found."""
    console = make_console()
    if "placebo" in facts:
        placebo, arms = facts["placebo"], facts["arms"]
        given = "".join(f", {name} {value}" for name, value in facts["options"].items())
        console.print(
            f"Placebo: {facts['scheduler']} with arms {{{', '.join(map(str, arms))}}}{given}, fed the "
            f"{facts['reward']} of {placebo['runs']} runs of {placebo['source']}, whose epochs never changed."
        )
        console.print(table(
            ("task", "runs", "share of the most-chosen arm [95 %]", "the same in random order", "favourite of"),
            [[each["task"], str(each["runs"]), _percent(each["most_chosen_share"]), _percent(each["in_random_order"]),
              ", ".join(f"K={arm}: {count}" for arm, count in each["favourites"].items())]
             for each in placebo["tasks"]],
        ))  # fmt: skip
        cheapest = sum(each["favourites"][str(min(arms))] for each in placebo["tasks"])
        words = VERDICTS[placebo["verdict"]].format(cheapest=cheapest, runs=placebo["runs"])
        console.print(f"{words}: its most-chosen arm gets {_percent(placebo['most_chosen_share'])} of updates; "
                      f"{100 * placebo['even_share']:.0f} % would be even.")  # fmt: skip
    if facts.get("effects"):
        console.print("\nEffects of the arms on the next reward in round robin, in % of the noise of one change:")
        console.print(table(
            ("task", "change after each arm [95 %]", "largest gap", "tries of each arm to see it"),
            [[each["task"], "; ".join(f"K={arm}: {_percent(change)}" for arm, change in each["changes"].items()),
              f"{100 * each['gap']:.0f} %", f"{each['tries']:,.0f}"]
             for each in facts["effects"]],
        ))  # fmt: skip
    if "branches" in facts:
        console.print(
            "\nBranches: choices where the state stands still, so that every arm can be tried again and again."
        )
        console.print(table(
            ("run", "step", "lead of the best arm in true return [95 %]", "best arm", "share of choices", "regret"),
            [[f"{each['task']}, seed {each['seed']}", f"{each['step']:,}",
              "{value:.3g} [{low:.3g}, {high:.3g}]".format(**each["lead"]), f"K={each['best_arm']}",
              _percent(each["best_arm_share"]), _percent(each["regret"])] for each in facts["branches"]],
        ))  # fmt: skip


def _percent(estimate: Mapping[str, float]) -> str:
    value, low, high = (100 * each for each in estimate.values())
    return f"{value:.0f} %" if math.isnan(low) else f"{value:.0f} % [{low:.0f}, {high:.0f}]"
