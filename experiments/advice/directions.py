"""Does the advice name the right direction? 31 runs that are wrong on purpose, or good, and the advice on them.

python -m experiments.advice.directions run      makes the runs that are missing in results/advice
python -m experiments.advice.directions table    prints the advice on each, and whether it is right

| kind | what is done | right is |
| --- | --- | --- |
| short | learning rate ÷ 10 | a larger learning rate |
| over | learning rate × 10 | a smaller learning rate, or fewer epochs since the later ones lose |
| epochs | K = 30 | fewer epochs, or a smaller learning rate |
| solved | trained on long after the task is solved | no larger learning rate, unless for an earlier third |
| good | the preset | no smaller learning rate |
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace

from adept.config import Config
from adept.hindsight.advice import Advice
from adept.hindsight.stages import STAGE_NAMES
from adept.presets import preset
from adept.runs.advice import advice_of
from experiments.advice.runs import RESULTS, make, read

Cells = list[tuple[str, str, Config]]
"""Name, kind and configuration of runs."""


def varied(env: str, seed: int, steps: int, factor: float, epochs: int) -> Config:
    """Return a preset with another learning rate and other epochs."""
    base = preset(env, scheduler="fixed")
    rate = base.learning_rate * factor
    return replace(base, seed=seed, steps=steps, epochs=epochs, learning_rate=rate)


def pendulum(seed: int, factor: float, epochs: int) -> Config:
    """Return a run of Pendulum."""
    return varied("gymnasium/Pendulum-v1", seed, 100_000, factor, epochs)


def hopper(seed: int, factor: float, epochs: int) -> Config:
    """Return a run of PyBullet's Hopper."""
    return varied("pybullet/Hopper", seed, 100_000, factor, epochs)


def mujoco(seed: int, factor: float, epochs: int) -> Config:
    """Return a run of MuJoCo's Hopper."""
    return varied("envpool/Hopper-v4", seed, 100_000, factor, epochs)


def cartpole(seed: int, monitor_every: int = 2) -> Config:
    """Return a run of CartPole."""
    return replace(
        preset("gymnasium/CartPole-v1", scheduler="fixed"), seed=seed, steps=80_000, monitor_every=monitor_every
    )


def minigrid(task: str, seed: int, monitor_every: int = 2) -> Config:
    """Return a run of a grid world with 8 epochs."""
    base = preset(f"minigrid/{task}", scheduler="fixed")
    return replace(base, seed=seed, epochs=8, monitor_every=monitor_every, steps=300_000)


KINDS: dict[str, tuple[float, int]] = {"short": (0.1, 10), "over": (10.0, 10), "epochs": (1.0, 30), "good": (1.0, 10)}
"""The factor of the learning rate, and the epochs."""
FAR = KINDS | {"over": (30.0, 10)}
"""PyBullet's and MuJoCo's presets step short (pilots: up to ten times): a rate that is too large is × 30 there."""


def others(
    seed: int, walker: Callable[[int, float, int], Config], maze: str, monitor_every: int = 2
) -> Cells:  # fmt: skip
    """Return ten runs of one seed: each kind on Pendulum and on a robot, and two tasks that are solved early."""
    return [
        *((f"{name}-pendulum-{seed}", name, pendulum(seed, *how)) for name, how in KINDS.items()),
        *((f"{name}-{walker.__name__}-{seed}", name, walker(seed, *how)) for name, how in FAR.items()),
        (f"solved-cartpole-{seed}", "solved", cartpole(seed, monitor_every)),
        (f"solved-empty-{seed}", "solved", minigrid(maze, seed, monitor_every)),
    ]


CELLS: Cells = [
    *((f"{name}-{seed}", name, pendulum(seed, *how)) for name, how in KINDS.items() for seed in (1, 2)),
    *((f"solved-{seed}", "solved", cartpole(seed)) for seed in (1, 2)),
    ("solved-3", "solved", minigrid("DoorKey-6x6", 3)),
    *others(11, hopper, "Empty-8x8"),
    *others(21, mujoco, "Empty-6x6", monitor_every=0),
]
"""Runs that were known when the present advice was written; those of seed 21 are monitored as by default."""


def right(kind: str, advice: Advice) -> bool:
    """Return whether the advice on a run of this kind is right."""
    rate, epochs = advice.factor("learning-rate"), advice.factor("epochs")
    raised = [each.stage for each in advice.recommendations if each.action == "learning-rate" and each.factor > 1]
    return {
        "short": rate > 1,
        "over": rate < 1 or (epochs < 1 and advice.whole.rest.value < 0 and not rate > 1),
        "epochs": epochs < 1 or rate < 1,
        "solved": not raised or raised[0] in (*STAGE_NAMES[:2], "first two thirds"),
        "good": rate >= 1,
    }[kind]


def judged(cells: Cells) -> Iterator[tuple[str, float, Advice, bool]]:
    """Yield name, final score, advice and whether it is right, for each run that was made."""
    for name, kind, config in cells:
        path = RESULTS / f"{name}.csv.gz"
        if path.exists():
            columns = read(path)
            advice = advice_of(config, columns)
            yield name, float(columns["score"][-1]), advice, right(kind, advice)


def shortened(advice: Advice) -> str:
    """Return the findings of the advice with their actions, in a few words."""
    said = []
    for each in advice.recommendations:
        stage = "" if each.stage == "run" else f" ({each.stage})"
        change = "" if each.action == "keep" else f": {each.action}"
        factor = f" × {each.factor:.2g}" if each.factor != 1 else ""
        said.append(f"{each.finding.replace('-', ' ')}{stage}{change.replace('-', ' ')}{factor}")
    return "; ".join(said)


def table(*, full: bool = False) -> str:
    """Return how often the direction is right, and the advice on each run, in Markdown; in full or in a few words."""
    found = list(judged(CELLS))
    silent = sum(all(each.action == "keep" for each in advice.recommendations) for _, _, advice, _ in found)
    lines = [
        f"The direction is right on {sum(correct for *_, correct in found)} of {len(found)} runs ({silent} without a "
        "recommendation).",
        "",
        "| run | final score | right | advice |",
        "| --- | --- | --- | --- |",
    ]
    for name, score, advice, correct in found:
        said = str(advice) if full else shortened(advice)
        lines.append(f"| {name} | {score:.4g} | {'yes' if correct else 'no'} | {said} |")
    return "\n".join(lines)


def main() -> None:
    """Carry out a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--only", default="", help="runs whose names begin so")
    options = parser.parse_args()
    if options.command != "run":
        print(table(full=True))
        return
    for name, _, config in CELLS:
        if name.startswith(options.only) and make(RESULTS / f"{name}.csv.gz", config):
            print(name, flush=True)


if __name__ == "__main__":
    main()
