"""Draw augmentations.png: the eight augmentations on Procgen frames. Run `python docs/images/augmentations.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import torch

from adept.algorithms.augmentations import AUGMENTATIONS
from adept.envs import make_environments
from adept.presets import preset

GAMES = ("bigfish", "climber", "coinrun", "fruitbot", "jumper", "starpilot")
STEPS = 40  # of random play before the picture is taken
SEED = 3  # of the levels and the play
AUGMENTATION_SEED = 65  # one that turns and mirrors most rows


def frame(game: str) -> np.ndarray:
    """Return the picture (3, 64, 64) of a game after a little random play."""
    environments = make_environments(preset(f"procgen/{game}"), count=1)
    actions = np.random.default_rng(SEED).integers(15, size=(STEPS, 1))
    pixels = environments.restart(SEED)
    for action in actions:
        pixels = environments.step(action).observations
    environments.close()
    return np.array(pixels[0])


def main() -> None:
    """Write the sheet beside this file."""
    frames = torch.from_numpy(np.stack([frame(game) for game in GAMES]))
    columns = {"original": frames}
    for name, augment in AUGMENTATIONS.items():
        columns[name] = augment(frames, torch.Generator().manual_seed(AUGMENTATION_SEED))
    figure, axes = plt.subplots(len(GAMES), len(columns), figsize=(11.2, 7.55), squeeze=False)
    for column, (name, images) in enumerate(columns.items()):
        axes[0, column].set_title(name, fontsize=11)
        for row, game in enumerate(GAMES):
            axis = axes[row, column]
            axis.imshow(images[row].permute(1, 2, 0), interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
            if column == 0:
                axis.set_ylabel(game, fontsize=11)
    figure.subplots_adjust(left=0.03, right=0.997, bottom=0.005, top=0.96, wspace=0.04, hspace=0.04)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=120, metadata={"Software": None})
    print(f"wrote {path.name}, {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
