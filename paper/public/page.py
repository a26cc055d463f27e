"""The tables of results/procgen-public."""

from __future__ import annotations

import numpy as np

from adept.report.text import interval
from paper.intervals import student
from paper.public.claims import Public
from paper.public.tables import ARMS, SIZES, by_game
from paper.words import percent_interval, table


def placebo_block(public: Public) -> str:
    """Return shares and favourites by scheduler, order and size of rewards."""
    rows = []
    for scheduler, name in (("ucb", "ADEPT(U), c = 5, W = 10"), ("thompson", "ADEPT(G), η = 1, W = 50")):
        for size in SIZES:
            for order in ("recorded", "random"):
                liked = public.favourites(scheduler, order, size)
                rows.append([
                    name, order, f"× {size:g}", percent_interval(public.most(scheduler, order, size)),
                    *(percent_interval(public.share(scheduler, arm, order, size)) for arm in ARMS),
                    " / ".join(f"{liked[arm]}" for arm in ARMS),
                ])  # fmt: skip
    header = ("scheduler", "order", "returns", "most-chosen K", *(f"K={arm}" for arm in ARMS), "favourite K=3/2/1")
    return table(header, rows, 5)


def epochs_block(public: Public) -> str:
    """Return scores by setting, and what choosing K per game could gain."""
    rows = []
    for kind, name, numbers in (("e-pi", "policy epochs", range(1, 7)), ("e-aux", "value epochs", (1, 2, 3, 6, 9))):
        for number in numbers:
            scores = [public.scores(f"{kind}-{number}", column) for column in ("over_the_run", "at_the_end")]
            rows.append([f"{name}: {number}", *(f"{each.mean():.3f}" for each in scores)])
    best = public.best_epochs()
    liked = ", ".join(f"{game} {best[game]}" for game in best)
    lines = []
    for column, words in (("over_the_run", "Over the run"), ("at_the_end", "At the end")):
        real, chance = public.headroom(column)
        one = float(public.scores("e-pi-1", column).mean())
        lines.append(
            f"- {words}: K=1 scores {one:.3f}, the best of K=1, 2, 3 on each game {one + real.mean():.3f} (after the "
            f"fact), {interval(student(real), 3)} more. The best of three runs of *one* setting has "
            f"{interval(student(chance), 3)} more than their mean. What is left for a chooser of K: "
            f"{interval(student(real - chance), 3)}."
        )
    lines.append(f"- Best number of policy epochs over the run, after the fact: {liked}.")
    return table(("setting", "over the run", "at the end"), rows, 2) + "\n\n" + "\n".join(lines)


def gap_block(public: Public) -> str:
    """Return PPO's scores by game."""
    plain = {levels: by_game(public.ppo, levels) for levels in ("train", "test")}
    gaps = public.gaps()
    spread = {
        game: float(np.std([float(row["train"]) for row in public.ppo if row["game"] == game], ddof=1)) for game in gaps
    }
    rows = [
        [game, f"{plain['train'][game]:.1f}", f"{spread[game]:.1f}", f"{plain['test'][game]:.1f}", f"{gap:.2f}"]
        for game, gap in gaps.items()
    ]
    rows.append(["mean, normalised", "", "", "", interval(student(list(gaps.values())))])
    return table(("game", "train", "standard deviation between runs", "test", "gap, normalised"), rows, 4)
