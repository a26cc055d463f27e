"""Draw front.png, README's figure, from tables beside the records: `python docs/images/front.py`."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

RESULTS = Path(__file__).parents[2] / "results"
BANDITS = {
    "ucb-4-2-1": ("ADEPT(U)", "#0072b2", "o"),
    "thompson-4-2-1": ("ADEPT(G)", "#d55e00", "D"),
    "round-robin-4-2-1": ("ADEPT(R)", "#009e73", "s"),
}
STARTS = {"div30": "÷ 30", "div10": "÷ 10", "div3": "÷ 3", "x1": "preset", "x3": "× 3", "x10": "× 10", "x30": "× 30"}
METHODS = {
    "fixed": ("fixed learning rate", "#777777", "o"),
    "kl-minibatch-0.02": ("KL rule of rsl_rl (0.02)", "#cc79a7", "^"),
    "hindsight-compute": ("hindsight (compute)", "#009e73", "s"),
    "hindsight-samples": ("hindsight (samples)", "#0072b2", "D"),
}


def rows(path: str) -> list[dict[str, str]]:
    """Return a table of results by its path."""
    with (RESULTS / path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def paper(axis: Axes) -> None:
    """Draw score against compute on MiniGrid: fixed K as a line, the paper's bandits on {4,2,1} beside it."""
    found = {row["method"]: row for row in rows("minigrid/report/figures/score-against-compute.csv")}

    def point(name: str) -> tuple[float, float, float, float]:
        row = found[name]
        score, low, high = (float(row[key]) for key in ("iqm", "iqm_low", "iqm_high"))
        return 100 * float(row["update_compute"]), 100 * score, 100 * (score - low), 100 * (high - score)

    epochs = sorted(int(name.removeprefix("fixed-")) for name in found if name.startswith("fixed-"))
    line = [point(f"fixed-{k}") for k in epochs]
    x, y, below, above = zip(*line, strict=True)
    axis.errorbar(x, y, (below, above), color="#777777", marker="o", elinewidth=1, label="fixed K")
    for k, each in zip(epochs, line, strict=True):
        axis.annotate(f"K={k}", each[:2], (5, -11), textcoords="offset points", fontsize=8, color="#555555")
    for shift, (name, (label, color, marker)) in zip((0, 3, -3), BANDITS.items(), strict=True):
        x1, y1, below1, above1 = point(name)  # a few per cent aside, so that intervals do not cover each other
        axis.errorbar(
            x1 + shift, y1, ([below1], [above1]), color=color, marker=marker, ls="", elinewidth=1, label=label
        )
    axis.set(xlabel="update FLOPs, % of PPO with K=4", ylabel="steps saved, % of the budget (IQM)")
    axis.set_title("The paper's bandits: MiniGrid, 10 seeds", fontsize=10)
    axis.legend(fontsize=8, loc="lower right")


def hindsight(axis: Axes) -> None:
    """Draw the score over the starting learning rate."""
    found = rows("start-anywhere/curve.csv")
    for method, (label, color, marker) in METHODS.items():
        points = [next(row for row in found if (row["method"], row["start"]) == (method, start)) for start in STARTS]
        values, low, high = ([100 * float(row[key]) for row in points] for key in ("iqm", "seeds_low", "seeds_high"))
        axis.plot(range(len(STARTS)), values, color=color, marker=marker, label=label)
        axis.fill_between(range(len(STARTS)), low, high, color=color, alpha=0.15, lw=0)
    axis.set_xticks(range(len(STARTS)), list(STARTS.values()))
    axis.set(
        ylim=(0, 105), xlabel="learning rate that PPO starts from", ylabel="score, % of the best fixed start (IQM)"
    )
    axis.set_title("Hindsight: 10 tasks, 3 seeds", fontsize=10)
    axis.legend(fontsize=8, loc="lower center")


def main() -> None:
    """Write the figure beside this file."""
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.9))
    for axis, draw in zip(axes, (paper, hindsight), strict=True):
        draw(axis)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=130, metadata={"Software": None})
    print(f"wrote {path.name}, {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
