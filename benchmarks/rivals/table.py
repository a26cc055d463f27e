"""The table of the comparison with other libraries."""

from __future__ import annotations

from typing import Any

from benchmarks.rivals.tasks import TASKS, Task

ONE_WORLD = ("cleanrl", "sb3", "sbx", "rlox", "sample_factory")
"""Sides that step the same environments."""
NAMES = {
    "ours": "ADEPT",
    "cleanrl": "CleanRL's loop",
    "sb3": "Stable-Baselines3",
    "sbx": "sbx (JAX)",
    "rlox": "rlox (Rust)",
    "rlox-rust": "rlox, its own CartPole in Rust",
    "sample_factory": "Sample Factory",
    "rejax": "rejax (JAX)",
}
DIFFERENCES = {
    "ours": "monitors its updates, as it does by default",
    "cleanrl": "in its manner; a time limit counts as an end",
    "sb3": "clips no value loss; makes a Monitor's episode statistics",
    "sbx": "as Stable-Baselines3; each gradient step is compiled, the loop around it is Python",
    "rlox": "Rust for advantages, rollout buffers and normalisation; network and gradients are PyTorch's",
    "rlox-rust": "other environments: CartPole in Rust",
    "sample_factory": "serial and synchronous; clips ratios below at 1/1.2; with normalisation, of returns instead of"
    " rewards; rollouts not longer than a minibatch",
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
        " above 1, ours is faster. Ours is that of the same run. Rows of one task may be of several runs, whose times"
        " rivals.csv has; compare their ratios, since speeds depend on what else the machine did. Start and compilation"
        " are CPU seconds that the speeds leave out: making the environments and the model, and what the first"
        " iteration takes beyond the second. On a busy machine the clock favours sides with several threads, which are"
        " scheduled more often: read the CPU time.",
        "",
        *([EARLIER, ""] if any(row.get("time", POOL_SHARED) < POOL_SHARED for row in rows) else []),
        NOT_RUN,
        "",
        "Made by `python -m benchmarks.rivals` from rivals.csv, which has the versions, the commit and the processor.",
    ]
    return "\n".join(lines) + "\n"


POOL_SHARED = "2026-11-19T00:08"
"""Since then the other sides step EnvPool by the code that ours uses, and not through EnvPool's own Python."""
EARLIER = (
    "Rows of 18 November 2026, which are all but Sample Factory's, let the other sides step EnvPool through its own"
    " Python code, which is slower than ours; CleanRL's loop then left resetting to EnvPool, which ignores the action"
    " of the step after an episode's end."
)

NOT_RUN = """Not run:

- MuJoCo in JAX: gymnax has no MuJoCo, and rejax's pins leave out Brax.
- PufferLib 3.0.0: it has no wheel, and its setup.py downloads Raylib while pip reads its metadata; where that is out of
  reach it ends with `urllib.error.URLError: <urlopen error [Errno -2] Name or service not known>`. With `NO_OCEAN=1`,
  which skips that, it ends with `NameError: name 'c_extension_paths' is not defined`."""


def verdict(rows: list[dict[str, Any]]) -> list[str]:
    """Say who is faster, then how far ours is ahead on the same environments."""
    ratios = {(row["side"], row["task"]): float(row["ratio_processor"]) for row in rows if row["side"] != "ours"}
    faster = [f"{NAMES[side]} on {task} ({1 / ratio:.1f} ×)" for (side, task), ratio in ratios.items() if ratio < 1]
    lines = [f"Faster than ours: {', '.join(faster)}."] if faster else []
    cleanrl = [ratio for (side, _), ratio in ratios.items() if side == "cleanrl"]
    if cleanrl:
        lines.append(
            f"In the same CPU time on the same environments ours makes {min(cleanrl):.1f} to {max(cleanrl):.1f} ×"
            " the steps of CleanRL's loop."
        )
    ahead = [(ratio, key) for key, ratio in ratios.items() if ratio >= 1 and key[0] in ONE_WORLD]
    if ahead:
        ratio, (side, task) = min(ahead)
        lines.append(f"The closest it is ahead of is {NAMES[side]} on {task} ({ratio:.1f} ×).")
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
    for row in sorted(rows, key=lambda row: float(row["ratio_processor"])):
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
