"""The table of the comparison with other libraries."""

from __future__ import annotations

from typing import Any

from benchmarks.rivals.tasks import TASKS, Task

ONE_WORLD = ("cleanrl", "sb3", "sbx", "rlox")
"""Sides that step the same environments."""
NAMES = {
    "ours": "ADEPT",
    "cleanrl": "CleanRL's loop",
    "sb3": "Stable-Baselines3",
    "sbx": "sbx (JAX)",
    "rlox": "rlox (Rust)",
    "rlox-rust": "rlox, its own CartPole in Rust",
    "rejax": "rejax (JAX)",
}
DIFFERENCES = {
    "ours": "monitors its updates, as it does by default",
    "cleanrl": "in its manner; the step after an episode's end ignores the action, as in its EnvPool scripts",
    "sb3": "clips no value loss; makes a Monitor's episode statistics",
    "sbx": "as Stable-Baselines3; each gradient step is compiled, the loop around it is Python",
    "rlox": "Rust for advantages, rollout buffers and normalisation; network and gradients are PyTorch's",
    "rlox-rust": "other environments: CartPole in Rust",
    "rejax": "other environments: {twin}; the whole iteration is compiled, environments included",
}


def text(rows: list[dict[str, Any]]) -> str:
    """Return the page."""
    by_task = {name: [row for row in rows if row["task"] == name] for name in TASKS}
    lines = ["# Other libraries, beside ours", "", *verdict(rows), ""]
    for name, found in by_task.items():
        if found:
            lines += section(TASKS[name], found)
    lines += [
        "`× ours` is our steps per CPU second over theirs, the median of the rounds with the lowest and the highest:"
        " above 1, ours is faster. Start and compilation are CPU seconds that the speeds leave out: making the"
        " environments and the model, and what the first iteration takes beyond the second.",
        "",
        NOT_RUN,
        "",
        "Made by `python -m benchmarks.rivals` from rivals.csv, which has the versions, the commit and the processor.",
    ]
    return "\n".join(lines) + "\n"


NOT_RUN = """Not run:

- MuJoCo in JAX: gymnax has no MuJoCo, and rejax's pins leave out Brax.
- PufferLib 3.0.0: it has no wheel, and its setup.py downloads Raylib while pip reads its metadata; where that is out of
  reach it ends with `urllib.error.URLError: <urlopen error [Errno -2] Name or service not known>`. With `NO_OCEAN=1`,
  which skips that, it ends with `NameError: name 'c_extension_paths' is not defined`.
- Sample Factory 2.1.1: its sampler, inference and learner are processes that run at the same time, which one processor
  does not show."""


def verdict(rows: list[dict[str, Any]]) -> list[str]:
    """Say who is faster, then how far ours is ahead."""
    others = [row for row in rows if row["side"] != "ours"]
    faster = [row for row in others if float(row["ratio_processor"]) < 1]
    slower = [row for row in others if float(row["ratio_processor"]) >= 1 and row["side"] in ONE_WORLD]
    lines = []
    if faster:
        said = [f"{NAMES[r['side']]} on {r['task']} ({1 / float(r['ratio_processor']):.1f} ×)" for r in faster]
        lines.append(f"Faster than ours: {', '.join(said)}.")
    if slower:
        least = min(slower, key=lambda row: float(row["ratio_processor"]))
        one_world = all(row["side"] not in ONE_WORLD for row in faster)
        lines.append(
            f"On the same environments ours is {'the fastest of all' if one_world else 'ahead of the others'};"
            f" the closest is {NAMES[least['side']]} on {least['task']}"
            f" ({float(least['ratio_processor']):.1f} × fewer steps in the same CPU time)."
        )
    return lines


def section(task: Task, rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of one task, the fastest first."""
    network = "three convolutions, then towers of 64" if task.convolutions else "towers of 64 and 64, tanh"
    normalized = ", observations and rewards normalised" if task.normalize else ""
    lines = [
        f"## {task.name}",
        "",
        f"{task.env_id} of EnvPool, {task.environments} × {task.rollout_length} steps, {task.epochs} epochs of"
        f" {task.minibatches} minibatches, {network}{normalized}.",
        "",
        "| | steps per CPU second | × ours, CPU | × ours, clock | start, s | compilation, s | what differs |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted(rows, key=lambda row: -float(row["steps_per_processor_second"])):
        ratios = ("", "")
        if row["side"] != "ours":
            spread = f"{float(row['ratio_lowest']):.1f} to {float(row['ratio_highest']):.1f}"
            ratios = (f"{float(row['ratio_processor']):.2f} ({spread})", f"{float(row['ratio_clock']):.2f}")
        lines.append(
            f"| {NAMES[row['side']]} | {float(row['steps_per_processor_second']):,.0f} | {ratios[0]} | {ratios[1]} |"
            f" {float(row['making_seconds']):.1f} | {float(row['compilation_seconds']):.1f} |"
            f" {DIFFERENCES[row['side']].format(twin=task.twin)} |"
        )
    return [*lines, ""]
