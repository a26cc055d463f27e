"""How a run stands, as one object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adept.runs.records import read_iterations, read_status


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
    return result


def _finite(value: float) -> float | None:
    return value if value == value else None
