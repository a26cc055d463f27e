"""The figures of "where the choice goes wrong", each with the table of what it draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from adept.probe.records import mean_interval
from adept.probe.stages import Stage
from adept.report.figures import WIDTH, Drawing, legend, new_figure, our_style, step_axis
from adept.report.statistics import Estimate
from adept.report.style import arm_colours
from adept.report.tables import Block
from experiments.choice.choices import Preferences
from paper.measures import Evidence

REAL, FED = "#2a78b5", "#c3cad1"
MEASURES = {
    "truth": "true return",
    "reward": "bandit's reward",
    "critic_shift": "critic's shift",
}


@our_style()
def placebo_figure(name: str, found: Sequence[Preferences], labels: dict[str, str]) -> Drawing:
    """Draw a row per method and a panel per task: the share of each arm, real and fed."""
    methods, tasks = list(dict.fromkeys(entry.method for entry in found)), list(dict.fromkeys(e.task for e in found))
    figure, grid = new_figure(len(methods), len(tasks), WIDTH, 0.7 + 1.5 * len(methods), sharey=True)
    rows: list[Block] = []
    for entry in found:
        arms = entry.placebo.arms
        axes = grid[methods.index(entry.method)][tasks.index(entry.task)]
        for offset, colour, label, table in (
            (-0.2, REAL, "in its own runs", entry.real),
            (0.2, FED, "fed the rewards of a fixed K", entry.placebo.fed),
        ):
            shares = [mean_interval(column) for column in table.T]
            places = np.arange(len(arms)) + offset
            axes.bar(places, [100 * share.value for share in shares], 0.38, color=colour, label=label)
            whiskers(axes, places, [share.times(100) for share in shares])
            rows += [{"method": entry.method, "task": entry.task, "epochs": arm, "rewards": label,
                      "share": share.value, "low": share.low, "high": share.high}
                     for arm, share in zip(arms, shares, strict=True)]  # fmt: skip
        axes.set_xticks(range(len(arms)), [f"K={arm}" for arm in arms])
        axes.grid(axis="x", visible=False)
        axes.set_ylim(0, 100)
        if entry.method == methods[0]:
            axes.set_title(entry.task.partition("/")[2])
        if entry.task == tasks[0]:
            axes.set_ylabel(f"{labels[entry.method]}\nshare of updates, %")
    legend(figure)
    return Drawing(
        f"placebo-{name}", "What the scheduler prefers where no choice has any effect",
        "Share of updates by number of epochs K: in the method's own runs, and where the same scheduler is fed the "
        "rewards of the baseline's runs, whose K never changed. Means over seeds with 95 % bootstrap intervals.",
        figure, rows,
    )  # fmt: skip


def whiskers(axes: Axes, places: Sequence[float] | np.ndarray, estimates: Sequence[Estimate]) -> None:
    """Draw intervals as thin lines."""
    for place, estimate in zip(places, estimates, strict=True):
        if estimate.has_interval:
            axes.plot([place, place], [estimate.low, estimate.high], color="#2b2f36", linewidth=0.9)


@our_style()
def branch_figure(name: str, found: Sequence[Stage]) -> Drawing:
    """Draw a row per measure and a panel per run: how arms differ from their mean, at each stage."""
    cells = list(dict.fromkeys((stage.task, stage.seed) for stage in found))
    arms = tuple(sorted({arm for stage in found for arm in stage.arms}))
    colours = arm_colours(arms, (0, *arms))  # the darker shades
    figure, grid = new_figure(len(MEASURES), len(cells), WIDTH, 5.2, sharex="col", sharey=False)
    rows: list[Block] = []
    for column, cell in enumerate(cells):
        own = [stage for stage in found if (stage.task, stage.seed) == cell]
        steps = np.array([stage.step for stage in own], float)
        for axes, measure in zip((row[column] for row in grid), MEASURES, strict=True):
            tables = [stage.against_mean(measure) for stage in own]
            for index, arm in enumerate(own[0].arms):
                line = [table[index] for table in tables]
                axes.fill_between(steps, [e.low for e in line], [e.high for e in line], color=colours[arm], alpha=0.18,
                                  linewidth=0)  # fmt: skip
                axes.plot(
                    steps, [e.value for e in line], color=colours[arm], label=f"K={arm}", marker="o", markersize=2.5
                )
                rows += [{"task": cell[0], "seed": cell[1], "step": stage.step, "measure": measure, "epochs": arm,
                          "less_mean": e.value, "low": e.low, "high": e.high}
                         for stage, e in zip(own, line, strict=True)]  # fmt: skip
            axes.axhline(0, color="#9aa0a6", linewidth=0.8)
            axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
        grid[0][column].set_title(f"{cell[0].partition('/')[2]}, seed {cell[1]}", fontsize=8.5)
        step_axis(grid[-1][column])
    for row, words in zip(grid, MEASURES.values(), strict=True):
        row[0].set_ylabel(f"{words},\nless mean of arms")
    legend(figure)
    repeats = sorted({len(stage.truth) for stage in found})
    return Drawing(
        f"branches-{name}", "What each arm was worth, and what a bandit would have seen of it",
        "From one state of a run the update is made with every K on the same data, and how each arm then differs from "
        "the mean of all: in the return of episodes of the new policy, in the GAE return of the next rollout (the "
        f"bandit's reward), and in how far the update moved the critic's mean value. Means of {repeats[-1]} rollouts "
        "with 95 % bootstrap intervals.",
        figure, rows,
    )  # fmt: skip


@our_style()
def run_figure(evidence: Evidence, method: str, task: str, seed: int) -> Drawing:
    """Draw one run: the reward, what the scheduler believes of each arm, and what it chose."""
    cell = next(cell for cell in evidence.results.cells if cell.key == (method, task, seed))
    columns = evidence.results.curve(cell)
    arms = cell.config.arms
    colours = arm_colours(arms, tuple(sorted({1, 2, *arms})))  # the darker shades
    figure, ((above,), (below,)) = new_figure(2, 1, WIDTH, 3.6, sharex=True, height_ratios=(3, 1))
    steps = columns["step"]
    above.plot(steps, columns["gae_return"], color="#9aa0a6", linewidth=1, label="reward of the iteration")
    for arm in arms:
        above.plot(steps, columns[f"arm_value/{arm}"], color=colours[arm], linewidth=1.8, label=f"value of K={arm}")
    for place, arm in enumerate(sorted(arms)):
        taken = columns["epochs"] == arm
        below.plot(steps[taken], np.full(int(taken.sum()), place), "|", color=colours[arm], markersize=7)
    below.set_yticks(range(len(arms)), [f"K={arm}" for arm in sorted(arms)])
    below.set_ylim(-0.6, len(arms) - 0.4)
    below.set_ylabel("choices")
    above.set_ylabel("GAE return")
    step_axis(below)
    legend(figure)
    names = ["step", "epochs", "gae_return", *(f"arm_value/{arm}" for arm in arms)]
    return Drawing(
        "one-run", "Arms that are not tried keep the value of another time",
        f"{evidence.comparison.label(method)} on {task.partition('/')[2]}, seed {seed}: the reward of each iteration, "
        "the mean of each arm's window, and the choices. No smoothing.",
        figure, [{name: columns[name] for name in names}],
    )  # fmt: skip
