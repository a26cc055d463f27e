"""How a run stands, as one object."""

from __future__ import annotations

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
    if columns and len(columns["step"]):
        last = {name: values[-1].item() for name, values in columns.items()}
        epochs = columns["epochs_done"]
        counts = ("iteration", "step", "episodes", "gradient_steps", "flops", "monitor_flops")
        result |= {name: int(last[name]) for name in counts if name in last or name != "monitor_flops"}
        result |= {"score": _finite(last["score"]), "seconds": round(last["seconds"], 3)}
        result |= {"epochs": int(epochs.sum())}
        arms = sorted(set(columns["epochs"].astype(int).tolist()), reverse=True)
        result["shares"] = {str(arm): float((columns["epochs"] == arm).mean()) for arm in arms}
        result |= _evaluated(path, result["iteration"])
    return result


def _evaluated(path: Path, iteration: int) -> dict[str, Any]:
    """Return the newest evaluation of the last policy, where there is one; its levels where the backend has any."""
    rows = [row for row in read_evaluations(path) if row.keys() >= set(NUMBERS_OF_AN_EVALUATION)]
    last = next((row for row in reversed(rows) if float(row["iteration"]) == iteration), None)
    if last is None:
        return {}
    found: dict[str, float] = {"episodes": int(float(last["episodes"]))}
    found |= {name: float(last[name]) for name in ("return_mean", "return_std", "length_mean")}
    levels = {"levels": last.get("levels", "test")} if backend_of(read_config(path)).has_test_levels else {}
    return {"evaluation": {**levels, **found}}


def _finite(value: float) -> float | None:
    return value if value == value else None
