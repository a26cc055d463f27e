"""How much exploration a bandit needs once its rewards are standardised: regret on simulated returns.

    python -m experiments.exploration

Three arms, the best one better than the worst by `gap` in units of the noise. A regret of 1 is that of a uniform
choice. Every row is the mean over seeds, which also permute the arms; the last column is the mean over the bandits.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from adept import make_scheduler

ARMS = (3, 2, 1)
STAYS = np.array([[0.0, 0.5, 1.0]])
SWITCHES = np.array([[0.0, 0.5, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.5, 0.0, 1.0]])
BANDITS = {
    "stays": (STAYS, 2.0, 0.0),
    "switches": (SWITCHES, 2.0, 0.0),
    "weak": (STAYS, 0.5, 0.0),
    "climbs": (STAYS, 1.0, 50.0),
    "climbs, switches": (SWITCHES, 1.0, 50.0),
}
"""By name: what the arms are worth in each part of the run, the gap, and how far the return climbs, in noises."""
METHODS: list[tuple[str, dict[str, Any]]] = [
    *(("standardized-ucb", {"exploration": c, "window": w}) for w in (10, 50) for c in (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)),
    ("standardized-thompson", {}),
    ("ucb", {}),
    ("ucb", {"exploration": 1.0}),
    ("thompson", {}),
    ("round-robin", {}),
]


def regret(name: str, options: dict[str, Any], bandit: str, steps: int, seed: int, size: float) -> float:
    """Return the regret of one run as a share of a uniform choice's; rewards arrive with the next `step`."""
    parts, gap, climb = BANDITS[bandit]
    rng = np.random.default_rng([seed, steps])
    gain = np.repeat(parts, steps // len(parts), axis=0)[:, rng.permutation(len(ARMS))]
    place = np.arange(len(gain)) / len(gain)
    rewards = climb / (1 + np.exp(-10 * (place - 0.4)))[:, None] + gap * gain + rng.normal(size=(len(gain), 1))
    scheduler = make_scheduler(name, ARMS, seed=seed, **options)
    arm = ARMS.index(scheduler.step(None))
    lost = 0.0
    for row, reward in zip(gain, rewards, strict=True):
        lost += row.max() - row[arm]
        arm = ARMS.index(scheduler.step(size * float(reward[arm])))
    return float(lost / (gain.max(1) - gain.mean(1)).sum())


def main() -> None:
    """Print the table, for short runs and long ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--size", type=float, default=10.0, help="size of the noise, in units of the reward")
    options = parser.parse_args()
    for steps in (100, 400):
        print(f"\n| {steps} updates | {' | '.join(BANDITS)} | mean |\n| --- |{' --- |' * (len(BANDITS) + 1)}")
        for name, knobs in METHODS:
            found = [
                np.mean([regret(name, knobs, bandit, steps, seed, options.size) for seed in range(options.seeds)])
                for bandit in BANDITS
            ]
            label = " ".join([name, *(f"{knob}={value}" for knob, value in knobs.items())])
            print(f"| {label} | {' | '.join(f'{value:.2f}' for value in found)} | {np.mean(found):.2f} |", flush=True)


if __name__ == "__main__":
    main()
