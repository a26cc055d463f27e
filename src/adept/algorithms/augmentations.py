"""The eight image augmentations of DrAC, each over a whole batch at once.

An augmentation takes a batch of RGB images (N, 3, H, W) and a generator, and returns a new batch of the same
shape, dtype, device and scale: uint8 images are in 0..255, floating-point ones in 0..1. Every image gets
parameters of its own. All parameters are drawn from the generator before any pixel is touched, so the result
depends on nothing but the images and the generator's state. They are drawn on the generator's device and moved
to the images': a CPU generator gives the same parameters on every device, one on the images' device saves the
move. Nothing waits for the device.

The operations are those of "Automatic Data Augmentation for Generalization in Reinforcement Learning" (Raileanu
et al., 2021) and its released code, auto-drac. Deviation, for all eight: auto-drac loops over the images in Python
or goes through NumPy, and draws from the global generators; here one tensor operation serves all images.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final

import torch
from torch import Tensor

Augmentation = Callable[[Tensor, torch.Generator], Tensor]

CROP_PADDING: Final = 12
BOX_SIDES: Final = (7, 21)  # smallest and largest, both included
JITTER: Final = 0.4  # brightness, contrast and saturation factors lie in 1 ± this
HUE_SHIFT: Final = 0.5  # hue moves by up to this share of the colour circle, either way
LUMA: Final = (0.299, 0.587, 0.114)  # ITU-R BT.601 weights of red, green and blue
CHUNK: Final = 32  # images worked on at once on a CPU: their float copy fits in the second-level cache


AUGMENTATIONS: Final[dict[str, Augmentation]] = {}


def _augmentation(augment: Augmentation) -> Augmentation:
    """Enter an augmentation into the table, under its name with hyphens; what it is given is checked."""

    @wraps(augment)
    def checked(images: Tensor, generator: torch.Generator) -> Tensor:
        if images.ndim != 4 or images.shape[1] != 3 or not (images.dtype == torch.uint8 or images.is_floating_point()):
            raise ValueError(
                f"got images of shape {tuple(images.shape)} and {images.dtype}, expected (N, 3, H, W) in uint8 "
                "(0..255) or floating point (0..1); put the three colour channels second and convert other integers "
                "to uint8"
            )
        return augment(images, generator)

    AUGMENTATIONS[augment.__name__.replace("_", "-")] = checked
    return checked


@_augmentation
def crop(images: Tensor, generator: torch.Generator) -> Tensor:
    """Extend each image by 12 copies of its border pixels on every side and cut a random window of its own size.

    The window's corner is uniform over the 25 × 25 places it can have.
    """
    count, _, height, width = images.shape
    rows = _integers((count,), 2 * CROP_PADDING + 1, generator, images.device) - CROP_PADDING
    columns = _integers((count,), 2 * CROP_PADDING + 1, generator, images.device) - CROP_PADDING
    from_row = (rows[:, None] + torch.arange(height, device=images.device)).clamp_(0, height - 1)
    from_column = (columns[:, None] + torch.arange(width, device=images.device)).clamp_(0, width - 1)
    return _move_pixels(images, lambda part: (from_row[part, :, None] * width + from_column[part, None]).flatten(1))


@_augmentation
def random_conv(images: Tensor, generator: torch.Generator) -> Tensor:
    """Convolve each image with a 3×3 kernel of its own, from 3 to 3 channels, zero padding, no bias.

    The weights are Xavier-normal: w ~ N(0, 2 / (fan_in + fan_out)) with both fans 3·3·3 = 27
    (Lee et al., 2020, "Network Randomization").

    Deviation: auto-drac passes the raw result on, which is negative half of the time and unbounded. Here each
    image is shifted so that the middle of its range becomes mid-grey, and scaled down if that range is wider
    than 0..1: y' = ½ + (y − (max y + min y)/2) / max(1, max y − min y). Clipping alone would turn about one
    image in eight wholly black, and uint8 images have no other values.
    """
    kernels = torch.randn((len(images), 3, 3, 3, 3), generator=generator, device=generator.device)
    kernels = kernels.mul_((2 / (27 + 27)) ** 0.5).to(images.device, non_blocking=True)

    def convolve(pixels: Tensor, part: slice, top: float) -> Tensor:
        result = grouped_convolution(pixels, kernels[part].to(pixels.dtype))
        low, high = result.amin((1, 2, 3), keepdim=True), result.amax((1, 2, 3), keepdim=True)
        scale = top / (high - low).clamp_(min=top)
        return result.mul_(scale).add_(top / 2 - (low + high) / 2 * scale).clamp_(0, top)

    return _in_chunks(images, convolve)


@_augmentation
def color_jitter(images: Tensor, generator: torch.Generator) -> Tensor:
    """Change brightness, contrast, saturation and hue of each image by random amounts.

    In HSV, V is multiplied by a factor from 0.6..1.4, S by another, both clipped at 1, and H moves by up to half
    the colour circle either way. Contrast is (x − m)·c + m, c from 0.6..1.4, m the mean of the image's channel,
    clipped to 0..1. It comes before or after the HSV part, with equal chances.

    Deviation: auto-drac throws that coin once per batch; here each image has its own, like every other parameter.
    Deviation: auto-drac multiplies the hue's shift by 255/360, a mixture of two units, which leaves ±0.35 of the
    circle where the published setting is 0.5.
    """
    count, device = len(images), images.device
    brightness, contrast, saturation = (
        _uniform((count, 1, 1), 1 - JITTER, 1 + JITTER, generator, device) for _ in range(3)
    )
    hue = _uniform((count, 1, 1), -HUE_SHIFT, HUE_SHIFT, generator, device)
    first = _integers((count, 1, 1), 2, generator, device).bool()
    before, after = torch.where(first, contrast, 1), torch.where(first, 1, contrast)  # a factor of 1 changes nothing

    def jitter(pixels: Tensor, part: slice, top: float) -> Tensor:
        pixels = adjust_contrast(pixels, before[part], top)
        pixels = adjust_hsv(pixels, hue[part], saturation[part], brightness[part], top)
        return adjust_contrast(pixels, after[part], top)

    return _in_chunks(images, jitter)


@_augmentation
def rotate(images: Tensor, generator: torch.Generator) -> Tensor:
    """Turn each image counter-clockwise by 0, 90, 180 or 270 degrees, with equal chances."""
    count, _, height, width = images.shape
    if height != width:
        raise ValueError(f"rotate got images of {height}×{width} pixels, expected square ones; crop or pad them first")
    turns = _integers((count,), 4, generator, images.device)
    grid = torch.arange(height * width, device=images.device).view(height, width)
    turned = torch.stack([grid.rot90(quarter).flatten() for quarter in range(4)])
    return _move_pixels(images, lambda part: turned[turns[part]])


@_augmentation
def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each image left to right with probability ½.

    Deviation: auto-drac's flip exchanges top and bottom (it flips axis 2 of N, C, H, W). The mirror images of
    Procgen's levels are levels like others; upside down, its platform games are not.
    """
    mirrored = _integers((len(images),), 2, generator, images.device)
    result = torch.empty_like(images)
    for part in _chunks(images):
        both = torch.cat([images[part], images[part].flip(3)])
        half = len(both) // 2
        chosen = torch.arange(half, device=images.device) + half * mirrored[part]
        result[part] = both.index_select(0, chosen)  # whole images, twice as fast as pixel by pixel
    return result


@_augmentation
def cutout(images: Tensor, generator: torch.Generator) -> Tensor:
    """Paint a black box over each image; its sides are uniform over 7..21 pixels, its place over the image.

    Deviation: auto-drac puts the corner at (12, 24) plus the box's own sides, so that a size has one place and
    the left 31 columns are never covered. Here the place is free, and the box lies wholly inside the image.
    """
    rows, columns = _boxes(images, generator)
    result = torch.empty_like(images)
    for part in _chunks(images):
        torch.mul(images[part], 1 - rows[part] * columns[part], out=result[part])
    return result


@_augmentation
def cutout_color(images: Tensor, generator: torch.Generator) -> Tensor:
    """Paint a box over each image, as `cutout`, in a colour uniform over the 256³ colours.

    Deviation: auto-drac's colours are in 0..1 for the first minibatch and in 0..254 from then on, on images that
    stay in 0..1. Here they are on the images' scale.
    """
    rows, columns = _boxes(images, generator)
    colours = _integers((len(images), 3, 1, 1), 256, generator, images.device)
    colours = (colours / 255 if images.is_floating_point() else colours).to(images.dtype)
    result = torch.empty_like(images)
    for part in _chunks(images):
        box = rows[part] * columns[part]
        torch.mul(images[part], 1 - box, out=result[part]).addcmul_(colours[part], box)
    return result


@_augmentation
def grayscale(images: Tensor, generator: torch.Generator) -> Tensor:
    """Replace all three channels of every image by its luma, 0.299 R + 0.587 G + 0.114 B.

    As in auto-drac this happens to every image and leaves nothing to chance: the generator is not used.
    """
    del generator

    def luma(pixels: Tensor, part: slice, top: float) -> Tensor:
        del part, top  # the weights add up to one: white stays white
        red, green, blue = pixels.unbind(1)
        return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue).unsqueeze(1)

    return _in_chunks(images, luma)


def grouped_convolution(images: Tensor, kernels: Tensor) -> Tensor:
    """Convolve image n with kernel n (3, 3, 3, 3), zero padding: `conv2d` with one group per image.

    out[o, y, x] = Σ_dy ( Σ_{c, dx} kernel[o, c, dy, dx] · image[c, y + dy, x + dx] ): the inner sum is one batched
    product of a 9×9 matrix with the image and its two sideways shifts, the outer one adds three shifted planes.
    `conv2d` with a group per image takes three times as long on a CPU, longer than a loop over the images.
    """
    count, _, height, width = images.shape
    shifted = images.new_empty((count, 3, 3, height, width))  # channel, dx
    shifted[:, :, 0, :, 0] = 0
    shifted[:, :, 0, :, 1:] = images[..., :-1]
    shifted[:, :, 1] = images
    shifted[:, :, 2, :, :-1] = images[..., 1:]
    shifted[:, :, 2, :, -1] = 0
    matrices = kernels.permute(0, 3, 1, 2, 4).reshape(count, 9, 9)  # (dy, out), (channel, dx)
    above, result, below = (matrices @ shifted.view(count, 9, -1)).view(count, 3, 3, height, width).unbind(1)
    result[:, :, 1:] += above[:, :, :-1]
    result[:, :, :-1] += below[:, :, 1:]
    return result


def adjust_contrast(pixels: Tensor, factor: Tensor, top: float) -> Tensor:
    """Return (x − m)·factor + m clipped to 0..top, m the mean of each channel of each image."""
    factor = factor.unsqueeze(1)
    means = pixels.mean((2, 3), keepdim=True)
    return (pixels * factor).add_(means * (1 - factor)).clamp_(0, top)


def adjust_hsv(pixels: Tensor, hue: Tensor, saturation: Tensor, value: Tensor, top: float) -> Tensor:
    """Add `hue` (in turns) to H, and multiply S and V by their factors, clipped at 1.

    With V the largest channel, chroma C = V·S = V − smallest channel, and H the hue in sixths of a turn, red is
    V − C + C·ramp(|H − 3|), green V − C·ramp(|H − 2|) and blue V − C·ramp(|H − 4|), where ramp(d) is d − 1 clipped
    to 0..1 (A. R. Smith, 1978, "Color gamut transform pairs"). The way from RGB to H is free of branches: sorting
    the channels takes at most two exchanges, each of which turns or mirrors the circle.
    """
    tiny = torch.finfo(pixels.dtype).tiny
    red, green, blue = pixels.unbind(1)
    blue_over_green = torch.lt(green, blue, out=torch.empty_like(red))
    larger, smaller = torch.maximum(green, blue), torch.minimum(green, blue)
    not_red = torch.lt(red, larger, out=torch.empty_like(red))
    largest, other = torch.maximum(red, larger), torch.minimum(red, larger)
    chroma = largest - torch.minimum(other, smaller)
    sixths = (blue_over_green * 12).sub_(2).mul_(not_red).sub_(blue_over_green, alpha=6)
    sixths.add_(other.sub_(smaller).div_(chroma.clamp(min=tiny))).abs_()

    sixths.add_(6 * hue)
    sixths.sub_((sixths / 6).floor_(), alpha=6)
    new_value = (largest * value).clamp_(max=top)
    new_chroma = torch.minimum(chroma.mul_(saturation).mul_(new_value).div_(largest.clamp_(min=tiny)), new_value)

    result = torch.empty_like(pixels)
    for channel, (centre, sign, start) in enumerate(
        ((3, 1, new_value - 2 * new_chroma), (2, -1, new_value + new_chroma), (4, -1, new_value + new_chroma))
    ):
        ramp = (sixths - centre).abs_().clamp_(1, 2)
        torch.add(start, ramp.mul_(new_chroma), alpha=sign, out=result[:, channel])
    return result


def _integers(shape: tuple[int, ...], below: int, generator: torch.Generator, device: torch.device) -> Tensor:
    drawn = torch.randint(below, shape, generator=generator, device=generator.device)
    return drawn.to(device, non_blocking=True)


def _uniform(
    shape: tuple[int, ...], low: float, high: float, generator: torch.Generator, device: torch.device
) -> Tensor:
    drawn = torch.rand(shape, generator=generator, device=generator.device).mul_(high - low).add_(low)
    return drawn.to(device, non_blocking=True)


def _boxes(images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw a box per image; return its rows (N, 1, H, 1) and columns (N, 1, 1, W): ones inside, zeros outside."""
    count, _, height, width = images.shape
    spans = []
    for length in (height, width):
        smallest, largest = (min(side, length) for side in BOX_SIDES)
        side = smallest + _integers((count, 1), largest - smallest + 1, generator, images.device)
        start = (_uniform((count, 1), 0, 1, generator, images.device) * (length - side + 1)).floor_()
        places = torch.arange(length, device=images.device)
        spans.append(((places >= start) & (places < start + side)).to(images.dtype))
    return spans[0].view(count, 1, height, 1), spans[1].view(count, 1, 1, width)


def _chunks(images: Tensor) -> list[slice]:
    """Return the parts of the batch to work on one after the other: a few images on a CPU, all of them elsewhere."""
    size = CHUNK if images.device.type == "cpu" else len(images)
    return [slice(start, start + size) for start in range(0, len(images), max(size, 1))]


def _move_pixels(images: Tensor, sources: Callable[[slice], Tensor]) -> Tensor:
    """Fill each image with pixels of its own: pixel p of image n comes from pixel sources[n, p], in all channels."""
    result = torch.empty_like(images)
    for part in _chunks(images):
        pixels = images[part].flatten(2)
        result[part] = pixels.gather(2, sources(part).unsqueeze(1).expand_as(pixels)).view_as(images[part])
    return result


def _in_chunks(images: Tensor, work: Callable[[Tensor, slice, float], Tensor]) -> Tensor:
    """Apply `work` to the images in floating point, a few at a time, and store what it returns, rounded for uint8.

    `work` gets the pixels, which it must leave as they are, the slice of the batch that they come from, and the value
    of white: 255 for uint8 images.
    """
    result = torch.empty_like(images)
    whole_numbers = images.dtype == torch.uint8
    dtype = torch.promote_types(images.dtype, torch.float32)
    for part in _chunks(images):
        pixels = images[part].to(dtype, memory_format=torch.contiguous_format)
        changed = work(pixels, part, 255.0 if whole_numbers else 1.0)
        result[part] = changed.add_(0.5) if whole_numbers else changed  # storing as uint8 drops the fraction
    return result
