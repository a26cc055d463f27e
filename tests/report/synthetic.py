"""Folders of studies with invented numbers, written by the code that writes real ones."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adept.config import Config
from adept.report.comparison import Comparison
from adept.report.loading import load_comparison
from adept.runs.records import RunFolder, append_evaluation
from adept.studies.grid import Study, cell_path, parse_study

Values = dict[str, Any]
Method = tuple[str, str, Values, float, float]
"""Name, label, keys, final score, share of the budget at which half of it is reached."""
METHODS: list[Method] = [
    ("fixed-4", "PPO (K=4)", {"scheduler": "fixed", "epochs": 4}, 0.80, 0.30),
    ("fixed-1", "PPO (K=1)", {"scheduler": "fixed", "epochs": 1}, 0.70, 0.40),
    ("ucb", "ADEPT(U) {4,2,1}", {"scheduler": "ucb", "arms": [4, 2, 1]}, 0.90, 0.25),
    ("thompson", "ADEPT(G) {4,2,1}", {"scheduler": "thompson", "arms": [4, 2, 1]}, 0.82, 0.28),
    ("round-robin", "ADEPT(R) {4,2,1}", {"scheduler": "round-robin", "arms": [4, 2, 1]}, 0.78, 0.33),
]
MORE: list[Method] = [
    ("fixed-2", "PPO (K=2)", {"scheduler": "fixed", "epochs": 2}, 0.79, 0.33),
    ("fixed-8", "PPO (K=8)", {"scheduler": "fixed", "epochs": 8}, 0.76, 0.31),
    ("target-kl", "PPO target-KL 0.02",
     {"scheduler": "fixed", "epochs": 4, "stopping": {"target-kl": 0.02}}, 0.74, 0.38),
    ("ucb-84", "ADEPT(U) {8,4}", {"scheduler": "ucb", "arms": [8, 4]}, 0.86, 0.24),
    ("ucb-64", "ADEPT(U) {6,4}", {"scheduler": "ucb", "arms": [6, 4]}, 0.83, 0.26),
    ("ucb-c5", "ADEPT(U) {4,2,1} c=5",
     {"scheduler": "ucb", "arms": [4, 2, 1], "scheduler_options": {"exploration": 5.0, "window": 50}}, 0.84, 0.27),
    ("ucb-w10", "ADEPT(U) {4,2,1} W=10",
     {"scheduler": "ucb", "arms": [4, 2, 1], "scheduler_options": {"exploration": 1.0, "window": 10}}, 0.87, 0.27),
    ("round-robin-84", "ADEPT(R) {8,4}", {"scheduler": "round-robin", "arms": [8, 4]}, 0.81, 0.29),
]  # fmt: skip
TASKS = ["minigrid/DoorKey-6x6", "minigrid/LavaGapS7"]
SCALE = {"minigrid": 1.0, "procgen": 12.0, "pybullet": 2000.0}


def study_text(methods: Sequence[Method], tasks: Sequence[str], seeds: Sequence[int], steps: int) -> str:
    """Return the TOML of a study."""
    lines = [
        'name = "synthetic"', 'title = "A made-up study"', f"tasks = {json.dumps(list(tasks))}",
        f"seeds = {list(seeds)}", f"baseline = {json.dumps(methods[0][0])}",
        'differs = ["scheduler", "scheduler_options", "epochs", "arms", "stopping", "learning_rate"]',
        "[base]", f"steps = {steps}",
    ]  # fmt: skip
    for name, label, values, *_ in methods:
        lines += ["[[methods]]", f"name = {json.dumps(name)}", f"label = {json.dumps(label)}"]
        for key, value in values.items():
            pairs = value.items() if isinstance(value, dict) else ()
            inside = ", ".join(f"{option} = {json.dumps(entry)}" for option, entry in pairs)
            lines.append(f"{key} = {{ {inside} }}" if inside else f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def write_study(
    directory: Path, methods: Sequence[Method], tasks: Sequence[str], seeds: Sequence[int], *, iterations: int = 60,
    states: Mapping[tuple[str, str, int], str] | None = None, evaluate: bool = False, scale: float | None = None,
    monitor: bool = False,
) -> Study:  # fmt: skip
    """Write a study's folder; cells are done unless `states` says otherwise."""
    batch = 64 * 256 if tasks[0].startswith("procgen") else 2048
    study = parse_study(study_text(methods, tasks, seeds, iterations * batch), "synthetic")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "study.toml").write_text(study.text)
    for index, task in enumerate(tasks):
        difficulty = 1 - 0.4 * index / max(1, len(tasks))
        for name, _, _, final, half in methods:
            for seed in seeds:
                state = (states or {}).get((name, task, seed), "done")
                if state != "missing":
                    factor = SCALE[task.partition("/")[0]] if scale is None else scale
                    shape = (final * difficulty * factor, half + 0.15 * index / len(tasks))
                    path = cell_path(directory, name, task, seed)
                    write_run(study, path, (name, task, seed), state, shape, evaluate, monitor)
    return study


def compare(
    directory: Path, methods: Sequence[Method], tasks: Sequence[str] = TASKS[:1], seeds: Sequence[int] = (1, 2, 3),
    **options: Any,
) -> Comparison:  # fmt: skip
    """Write a study's folder, by default of 20 iterations, and return its comparison."""
    write_study(directory, methods, tasks, seeds, **{"iterations": 20, **options})
    return load_comparison([directory])


def write_run(
    study: Study, path: Path, cell: tuple[str, str, int], state: str, shape: tuple[float, float], evaluate: bool,
    monitor: bool = False,
) -> None:  # fmt: skip
    """Write one run's folder with an S-shaped curve and choices that drift to the last arm."""
    config = study.config(*cell)
    random = np.random.default_rng([cell[2], *cell[0].encode(), *cell[1].encode()])
    final, half = shape[0] * random.normal(1, 0.04), shape[1] * random.normal(1, 0.1)
    count = config.iterations if state == "done" else config.iterations // 2
    folder = RunFolder(path, config)
    flops, seconds, gradient_steps, score = 0, 0.0, 0, 0.0
    for iteration in range(1, count + 1):
        progress = iteration / config.iterations
        drift = np.linspace(1.1 - progress, 0.4 + progress, len(config.choices))
        epochs = int(random.choice(config.choices, p=drift / drift.sum()))
        done = 1 if config.stopping and random.random() < 0.3 else epochs
        passes = 2 if config.algo == "drac" else 1
        flops += 60_000 * ((config.rollout_length + 1) * config.environments + 3 * config.batch_size * done * passes)
        update = 0.05 * done
        seconds += 0.1 + update
        gradient_steps += done * config.minibatches
        score = float(final / (1 + np.exp(-12 * (progress - half))) + abs(final) * 0.01 * random.normal())
        arms = {f"arm_choices/{arm}": float(iteration) for arm in config.choices}
        folder.append(
            {
                "iteration": iteration, "step": iteration * config.batch_size, "epochs": epochs, "epochs_done": done,
                "gradient_steps": gradient_steps, "reward": score, "gae_return": score,
                "episode_return": score if iteration > 1 else float("nan"),
                "score": score if iteration > 1 else float("nan"),
                "flops": flops, "seconds": seconds, "environment_seconds": 0.06, "inference_seconds": 0.03,
                "update_seconds": update, **arms, **(hindsight(iteration, config, random) if monitor else {}),
            }
        )  # fmt: skip
    if evaluate and state == "done":
        row = {"iteration": count, "step": count * config.batch_size, "levels": "test", "deterministic": False,
               "seed": 0, "episodes": 100, "return_mean": 0.8 * score, "return_std": 0.1,
               "length_mean": 50.0}  # fmt: skip
        append_evaluation(path, row)
    folder.add_start({"time": "2026-01-01T00:00:00Z", "commit": "0" * 40, "dirty": False, "python": "3.11.9",
                      "packages": {"adept-rl": "0.1.0", "numpy": "2.4.0", "torch": "2.13.0"},
                      "platform": "Linux", "processor": "An example", "cores": 2, "memory_gib": 16.0,
                      "accelerator": None})  # fmt: skip
    error = {"error": "FloatingPointError: loss is not finite"} if state == "failed" else {}
    folder.set_status(state, iteration=count, **error)
    folder.close()


def hindsight(iteration: int, config: Config, random: np.random.Generator) -> dict[str, float]:
    """Invent what the next rollout says: gains of 1 - 2^-k per cent, halved in the last third, slopes of 0.5 ± 1."""
    late = 0.5 if iteration > 2 * config.iterations / 3 else 1.0
    gain = {k: 0.01 * late * (1 - 0.5**k) + 1e-4 * random.normal() for k in (1, 2, 4)}
    row = {"slope": 0.001, "slope_z": 0.5 + random.normal(), "update_gain": gain[4],
           **{f"gain/{k}": gain[k] for k in (1, 2)}, "gain/x0.5": 0.7 * gain[4], "gain/x2": 1.6 * gain[4]}  # fmt: skip
    row = row if iteration > 1 else dict.fromkeys(row, math.nan)
    return {**row, "lr_scale": 1.02**iteration if config.scheduler == "hindsight" else math.nan}
