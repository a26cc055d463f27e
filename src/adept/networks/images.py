"""Networks of images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from adept.networks.policy import ActionDistribution, ActorCritic, Heads


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the input and its two convolutions."""
        return x + self.second(torch.relu(self.first(torch.relu(x))))  # type: ignore[no-any-return]


class ImageNetwork(ActorCritic):
    """An encoder of uint8 images, which are divided by 255, and a dense layer of features for both heads."""

    def __init__(self, distribution: ActionDistribution, encoder: nn.Sequential, encoded: int, features: int) -> None:
        super().__init__()
        self.distribution, self.encoder = distribution, encoder
        self.features = nn.Linear(encoded, features)
        actor = nn.Sequential(nn.Linear(features, distribution.outputs))
        self.heads = Heads(distribution, actor, nn.Sequential(nn.Linear(features, 1)))

    def encode(self, observations: Tensor) -> Tensor:
        """Return the features of uint8 images."""
        images = observations.to(dtype=self.features.weight.dtype, memory_format=torch.channels_last) / 255.0
        return torch.relu(self.features(self.encoder(images)))


class ImpalaNetwork(ImageNetwork):
    """IMPALA-CNN: three blocks of conv 3×3, max-pool 3/2 and two residual parts (16, 32, 32 channels), then 256."""

    rows_at_once = 64
    uniform_encoder = True

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        channels, height, width = shape
        blocks: list[nn.Module] = []
        for output in (16, 32, 32):
            blocks += [nn.Conv2d(channels, output, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
            blocks += [Residual(output) for _ in range(2)]
            channels, height, width = output, (height + 1) // 2, (width + 1) // 2
        encoder = nn.Sequential(*blocks, nn.ReLU(), nn.Flatten())
        super().__init__(distribution, encoder, channels * height * width, 256)


class SmallImpalaNetwork(ImageNetwork):
    """For CPUs: a strided convolution, then IMPALA's residual parts where images are small. Ours, not the paper's.

    Conv 4/2 to 16, max-pool 3/2, a residual part, conv 3×3 to 32, max-pool 3/2, a residual part, then 256. A row of
    64×64 pixels costs 4.9 M multiplications instead of 30 M, with as many channels in its convolutions as processors
    need to be fast. With a convolution 8/4 first it is a sixth faster, and learns StarPilot more slowly.
    """

    rows_at_once = 128
    uniform_encoder = True

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        channels, height, width = shape
        encoder = nn.Sequential(
            nn.Conv2d(channels, 16, 4, 2, padding=1), nn.MaxPool2d(3, 2, padding=1), Residual(16),
            nn.Conv2d(16, 32, 3, padding=1), nn.MaxPool2d(3, 2, padding=1), Residual(32), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        cells = [((size // 2 + 1) // 2 + 1) // 2 for size in (height, width)]
        super().__init__(distribution, encoder, 32 * cells[0] * cells[1], 256)


class NatureNetwork(ImageNetwork):
    """The CNN of Mnih et al. (2015), as PPO uses it on Atari: conv 8/4 to 32, 4/2 to 64, 3/1 to 64, then 512."""

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        channels, height, width = shape
        if min(height, width) < 36:
            raise ValueError(f"the nature network needs images of at least 36 × 36 pixels, got {height} × {width}")
        encoder = nn.Sequential(
            nn.Conv2d(channels, 32, 8, 4), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        height, width = ((((size - 8) // 4 + 1) - 4) // 2 + 1 - 2 for size in (height, width))
        super().__init__(distribution, encoder, 64 * height * width, 512)


class MiniGridNetwork(ActorCritic):
    """Conv 2×2 to 16, max-pool 2, conv 2×2 to 32, conv 2×2 to 64, then actor and critic of 64 tanh units each.

    Observations are the raw cell numbers of the 7×7 view, not scaled.
    """

    small = True
    repeats = True

    def __init__(self, shape: tuple[int, ...], distribution: ActionDistribution) -> None:
        super().__init__()
        self.distribution = distribution
        channels, height, width = shape
        if min(height, width) < 7:
            raise ValueError(f"the minigrid network needs views of at least 7 × 7 cells, got {height} × {width}")
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, 16, 2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 2), nn.ReLU(),
            nn.Conv2d(32, 64, 2), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        size = 64 * ((height - 1) // 2 - 2) * ((width - 1) // 2 - 2)
        actor = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, distribution.outputs))
        self.heads = Heads(distribution, actor, nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 1)))
