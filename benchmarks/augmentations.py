"""Time each augmentation on 2048 frames: against loops over the images, and as a share of DrAC's update.

Run `python benchmarks/augmentations.py` (two minutes, half of them in auto-drac's random convolution). One thread;
times are CPU time, the best of a few runs, so that other programs on the machine disturb little. The columns:

- ms: ours, on uint8 frames; a copy of those frames is given for scale, as no augmentation can be faster;
- loop: the same augmentation of the same frames, image by image: draw, change, and stack at the end;
- auto-drac: the loop of that code, on float frames in 0..1 as it keeps them, where it has one;
- update: the share of a DrAC minibatch, which is the forward and backward pass of an IMPALA network on the 2048
  frames and on the 2048 augmented ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from adept.algorithms.augmentations import AUGMENTATIONS, BOX_SIDES, LUMA, adjust_contrast, adjust_hsv

COUNT = 2048


def best(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


# The loops: one image (3, 64, 64) in uint8 at a time


def integer(below: int, generator: torch.Generator) -> int:
    return int(torch.randint(below, (), generator=generator))


def crop(image: Tensor, generator: torch.Generator) -> Tensor:
    padded = functional.pad(image[None].float(), (12, 12, 12, 12), mode="replicate")[0].byte()
    top, left = integer(25, generator), integer(25, generator)
    return padded[:, top : top + 64, left : left + 64]


def random_conv(image: Tensor, generator: torch.Generator) -> Tensor:
    kernel = nn.init.xavier_normal_(torch.empty(3, 3, 3, 3), generator=generator)
    raw = functional.conv2d(image[None].float(), kernel, padding=1)[0]
    low, high = raw.min(), raw.max()
    return (raw - (low + high) / 2).mul_(255 / (high - low).clamp(min=255)).add_(127.5).round_().byte()


def color_jitter(image: Tensor, generator: torch.Generator) -> Tensor:
    brightness, contrast, saturation = 0.6 + 0.8 * torch.rand((3, 1, 1, 1), generator=generator)
    hue = torch.rand((1, 1, 1), generator=generator) - 0.5
    pixels = image[None].float()
    if integer(2, generator):
        pixels = adjust_hsv(adjust_contrast(pixels, contrast, 255), hue, saturation, brightness, 255)
    else:
        pixels = adjust_contrast(adjust_hsv(pixels, hue, saturation, brightness, 255), contrast, 255)
    return pixels[0].round_().byte()


def rotate(image: Tensor, generator: torch.Generator) -> Tensor:
    return image.rot90(integer(4, generator), (1, 2))


def flip(image: Tensor, generator: torch.Generator) -> Tensor:
    return image.flip(2) if integer(2, generator) else image


def cutout(image: Tensor, generator: torch.Generator, colour: Tensor | int = 0) -> Tensor:
    low, high = BOX_SIDES
    height, width = (low + integer(high - low + 1, generator) for _ in range(2))
    top, left = integer(65 - height, generator), integer(65 - width, generator)
    result = image.clone()
    result[:, top : top + height, left : left + width] = colour
    return result


def cutout_color(image: Tensor, generator: torch.Generator) -> Tensor:
    return cutout(image, generator, torch.randint(256, (3, 1, 1), generator=generator, dtype=torch.uint8))


def grayscale(image: Tensor, generator: torch.Generator) -> Tensor:
    red, green, blue = image.float()
    return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue).round_().byte().expand(3, -1, -1)


ONE_IMAGE = {
    "crop": crop,
    "random-conv": random_conv,
    "color-jitter": color_jitter,
    "rotate": rotate,
    "flip": flip,
    "cutout": cutout,
    "cutout-color": cutout_color,
    "grayscale": grayscale,
}


# The loops of auto-drac, after what its data_augs.py does


def growing_convolution(images: Tensor) -> Tensor:
    """One layer, its weights drawn anew for each image; each result is appended to those before by a copy of all."""
    layer = nn.Conv2d(3, 3, 3, padding=1, bias=False)
    with torch.no_grad():
        done = images[:0]
        for image in images.split(1):
            nn.init.xavier_normal_(layer.weight)
            done = torch.cat((done, layer(image)))
    return done


def painted(images: Tensor) -> Tensor:
    """Clone each image, blacken its box, store it in the batch."""
    heights, widths = (np.random.default_rng(0).integers(7, 22, len(images)) for _ in range(2))
    result = torch.empty_like(images)
    for n, (image, height, width) in enumerate(zip(images, heights, widths, strict=True)):
        copy = image.clone()
        copy[:, 12 + height : 12 + 2 * height, 24 + width : 24 + 2 * width] = 0
        result[n] = copy
    return result


def painted_in_colour(images: Tensor) -> Tensor:
    """As `painted`, in NumPy, with the colour tiled to the size of the box."""
    random = np.random.default_rng(0)
    heights, widths = (random.integers(7, 22, len(images)) for _ in range(2))
    colours = random.random((len(images), 3, 1, 1))
    pixels = images.numpy()
    result = np.empty_like(pixels)
    for n, (image, height, width) in enumerate(zip(pixels, heights, widths, strict=True)):
        copy = image.copy()
        box = copy[:, 12 + height : 12 + 2 * height, 24 + width : 24 + 2 * width]
        box[:] = np.tile(colours[n], (1, *box.shape[1:]))
        result[n] = copy
    return torch.tensor(result)


AUTO_DRAC = {"random-conv": growing_convolution, "cutout": painted, "cutout-color": painted_in_colour}


# DrAC's update


class Residual(nn.Module):
    """Two convolutions beside a straight way."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the sum of both ways."""
        return inputs + self.second(torch.relu(self.first(torch.relu(inputs))))


def impala() -> nn.Module:
    """Return the IMPALA network of 16, 32 and 32 channels, with 15 logits and a value."""
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.MaxPool2d(3, 2, 1), Residual(after), Residual(after)]
    layers += [nn.ReLU(), nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 16)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def pass_through(network: nn.Module, images: Tensor) -> None:
    pixels = images.to(torch.float32, memory_format=torch.channels_last) / 255
    network(pixels).square().mean().backward()


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (COUNT, 3, 64, 64), generator=generator, dtype=torch.uint8)
    network = impala()
    update = 2 * best(lambda: pass_through(network, images), runs=3)
    print(f"\nDrAC minibatch of {COUNT}: {update:.2f} s; a copy of the frames: {1e3 * best(images.clone, 20):.1f} ms\n")
    print("| augmentation | ms | share of update | loop, ms | × | auto-drac, ms | × |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, augment in AUGMENTATIONS.items():
        one = ONE_IMAGE[name]
        ours = best(lambda augment=augment: augment(images, generator), runs=10)
        loop = best(lambda one=one: torch.stack([one(image, generator) for image in images]), runs=3)
        row = [name, f"{1e3 * ours:.1f}", f"{ours / (update + ours):.2%}", f"{1e3 * loop:.0f}", f"{loop / ours:.1f}"]
        if name in AUTO_DRAC:
            fractions = images / 255
            theirs = best(lambda name=name, fractions=fractions: AUTO_DRAC[name](fractions), runs=1)
            row += [f"{1e3 * theirs:.0f}", f"{theirs / ours:.1f}"]
        else:
            row += ["", ""]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
