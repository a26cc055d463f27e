"""The figures of the published records, each with the table of what it draws."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from adept.report.figures import WIDTH, Drawing, legend, new_figure, our_style
from adept.report.style import arm_colours
from adept.report.tables import Block
from paper.public.claims import Public
from paper.public.tables import ARMS, Array, by_game, normalised

NAMES = {"ucb": "ADEPT(U), c = 5, W = 10", "thompson": "ADEPT(G), η = 1, W = 50"}
ORDERS = {"recorded": "as recorded", "random": "in random order"}
STEPS_PER_ROW = 64 * 256 * 4
"""Environment steps between two rows of PPG's logs: 4 workers with 64 environments each."""
EVERY = 8
"""Of PPG's rows, those that the compacted file keeps."""
SHADES = (0, *range(1, 10))
TRAIN, TEST = "#9aa0a6", "#2a78b5"


@our_style()
def placebo_figure(public: Public) -> Drawing:
    """Draw the share of each arm in every run, as recorded and in random order."""
    colours = arm_colours(ARMS, (0, *ARMS))
    figure, grid = new_figure(len(NAMES), len(ORDERS), WIDTH, 4.2, sharex=True, sharey=True)
    rows: list[Block] = []
    for line, (scheduler, name) in zip(grid, NAMES.items(), strict=True):
        for axes, (order, words) in zip(line, ORDERS.items(), strict=True):
            found = sorted(public.fed(scheduler, order), key=lambda row: (str(row["game"]), int(row["run"])))
            base = np.zeros(len(found))
            for arm in ARMS:
                shares = np.array([100 * float(row[f"share_{arm}"]) for row in found])
                axes.bar(range(len(found)), shares, 0.9, bottom=base, color=colours[arm], label=f"K={arm}")
                base += shares
            rows += [{key: row[key] for key in ("scheduler", "order", "game", "run", "share_3", "share_2", "share_1")}
                     for row in found]  # fmt: skip
            axes.set_title(f"{name}, {words}", fontsize=8.5)
            axes.set_ylim(0, 100)
            axes.grid(axis="x", visible=False)
            games = [str(row["game"]) for row in found]
            places = [games.index(game) + 1 for game in dict.fromkeys(games)]
            axes.set_xticks(places, list(dict.fromkeys(games)), rotation=90, fontsize=7)
        line[0].set_ylabel("share of updates, %")
    legend(figure)
    return Drawing(
        "placebo", "What the paper's bandits choose where no choice has any effect, Procgen at full scale",
        "The paper's bandits on {3, 2, 1} are fed the training returns that OpenAI recorded of PPO with K=3 (25 M "
        "steps, 200 levels, easy): one bar per run, three runs per game. No choice can have changed these returns. "
        "They are means over recent episodes, smoother than the paper's reward.",
        figure, rows,
    )  # fmt: skip


@our_style()
def epochs_figure(records: Mapping[tuple[str, str], Array], public: Public) -> Drawing:
    """Draw scores over the run by number of policy epochs and of value epochs, and both means side by side."""
    figure, ((left, middle, right),) = new_figure(1, 3, WIDTH, 2.9)
    rows: list[Block] = []
    games = sorted({game for _, game in records})
    for axes, kind, name, numbers in (
        (left, "e-pi", "policy epochs", range(1, 7)),
        (middle, "e-aux", "value epochs", (1, 2, 3, 6, 9)),
    ):
        colours = arm_colours(list(numbers), SHADES)
        for number in numbers:
            curves = [normalised(game, records[f"{kind}-{number}", game], easy=False) for game in games]
            mean = np.mean(curves, 0)
            steps = (1 + EVERY * np.arange(len(mean))) * STEPS_PER_ROW / 1e6
            axes.plot(steps, mean, color=colours[number], label=f"{number}", linewidth=1.3)
            rows += [{"epochs_of": name, "epochs": number, "million_steps": round(float(step), 2),
                      "mean_normalised_score": round(float(score), 4)}
                     for step, score in list(zip(steps, mean, strict=True))[::5]]  # fmt: skip
        means = [float(public.scores(f"{kind}-{number}").mean()) for number in numbers]
        right.plot(list(numbers), means, marker="o", markersize=3.5, label=name)
        axes.set_title(name)
        axes.set_xlabel("million steps")
        axes.set_ylim(0, 0.85)
        axes.legend(fontsize=7.5, ncols=2)
    left.set_ylabel("mean normalised score")
    right.set_title("mean over the run")
    right.set_xlabel("epochs")
    right.set_ylim(0, 0.85)
    right.legend(fontsize=7.5)
    return Drawing(
        "epochs", "Policy epochs and value epochs apart: PPG on Procgen",
        "Phasic policy gradient on 16 games, hard mode, 100 M steps, one run for each setting and game (OpenAI's "
        "records, every 8th row, no smoothing). Left: policy epochs, value epochs being apart. Middle: value epochs of "
        "the auxiliary phase. Right: means over the run. 0 is a random policy, 1 the highest score or nearly so.",
        figure, rows,
    )  # fmt: skip


@our_style()
def gap_figure(public: Public) -> Drawing:
    """Draw train and test scores of every game, ordered by their gap."""
    gaps = public.gaps()
    order = sorted(gaps, key=gaps.__getitem__)
    figure, ((axes,),) = new_figure(1, 1, WIDTH, 3.6)
    scores = {levels: by_game(public.ppo, f"{levels}_normalised") for levels in ("train", "test")}
    for place, game in enumerate(order):
        axes.plot([scores["train"][game], scores["test"][game]], [place, place], color="#c3cad1", linewidth=2, zorder=1)
    for levels, colour, name in (("train", TRAIN, "200 training levels"), ("test", TEST, "all levels")):
        means = [scores[levels][game] for game in order]
        axes.scatter(means, range(len(order)), color=colour, s=26, label=name, zorder=3)
        runs = [float(row[f"{levels}_normalised"]) for row in public.ppo]
        places = [order.index(str(row["game"])) for row in public.ppo]
        axes.scatter(runs, places, color=colour, s=7, alpha=0.6, zorder=2)
    axes.set_yticks(range(len(order)), order)
    axes.set_xlabel("normalised score at 25 M steps (small dots: runs)")
    legend(figure)
    rows: list[Block] = [
        {"game": game, "train": round(scores["train"][game], 4), "test": round(scores["test"][game], 4),
         "gap": round(gaps[game], 4)} for game in reversed(order)
    ]  # fmt: skip
    return Drawing(
        "generalisation", "PPO with K=3 at 25 M steps: training levels and all levels",
        "OpenAI's three runs per game, easy mode, 200 training levels: mean over the last 5 % of the run.",
        figure, rows,
    )  # fmt: skip
