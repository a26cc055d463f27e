"""How a run stands, as one object."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from adept.envs import backend_of
from adept.runs.records import (
    NUMBERS_OF_AN_EVALUATION,
    read_config,
    read_evaluations,
    read_iterations,
    read_status,
)  # fmt: skip


def summary(path: Path) -> dict[str, Any]:
    """Return how a run stands, as one JSON-safe object."""
    columns = read_iterations(path)
    result: dict[str, Any] = {"run": str(path), **read_status(path)}
    result |= {"unreadable_rows": columns.unreadable} if columns.unreadable else {}
    if not columns or not len(columns["step"]):
        return result
    last = {name: values[-1].item() for name, values in columns.items()}
    counts = ("iteration", "step", "episodes", "gradient_steps", "flops", "monitor_flops")
    result |= {name: int(last[name]) for name in counts if name in last or name != "monitor_flops"}
    score = last["score"]
    result |= {"score": None if math.isnan(score) else score, "seconds": round(last["seconds"], 3)}
    result["epochs"] = int(columns["epochs_done"].sum())
    arms = sorted(set(columns["epochs"].astype(int).tolist()), reverse=True)
    result["shares"] = {str(arm): float((columns["epochs"] == arm).mean()) for arm in arms}
    for row in reversed(read_evaluations(path)):  # the newest one of the last policy
        if row.keys() >= set(NUMBERS_OF_AN_EVALUATION) and float(row["iteration"]) == result["iteration"]:
            found = {name: float(row[name]) for name in ("return_mean", "return_std", "length_mean")}
            levels = {"levels": row.get("levels", "test")} if backend_of(read_config(path)).has_test_levels else {}
            result["evaluation"] = {**levels, "episodes": int(float(row["episodes"])), **found}
            break
    return result
