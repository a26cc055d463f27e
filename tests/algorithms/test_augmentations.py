"""The augmentations against kornia, colorsys and plain loops over the images."""

from __future__ import annotations

import colorsys
import importlib.util
from collections.abc import Iterator
from typing import Any

import kornia
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from adept.algorithms import augmentations
from adept.algorithms.augmentations import AUGMENTATIONS, adjust_contrast, adjust_hsv, grouped_convolution

NAMES = list(AUGMENTATIONS)
RANDOM = [name for name in NAMES if name != "grayscale"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def augment(name: str, images: Tensor, seed: int = 0) -> Tensor:
    return AUGMENTATIONS[name](images, generator(seed))


def noise(count: int = 40, size: int = 64, dtype: torch.dtype = torch.uint8) -> Tensor:
    images = torch.randint(256, (count, 3, size, size), generator=generator(99), dtype=torch.uint8)
    return images if dtype == torch.uint8 else images.to(dtype) / 255


def uniform(count: int, low: float, high: float, draws: torch.Generator) -> Tensor:
    return torch.rand((count, 1, 1), generator=draws) * (high - low) + low


# What holds for all of them


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("count", [0, 1, 33])
@pytest.mark.parametrize("name", NAMES)
def test_result_has_shape_dtype_and_scale_of_the_images(name: str, count: int, dtype: torch.dtype) -> None:
    images = noise(count, dtype=dtype)
    result = augment(name, images)
    assert (result.shape, result.dtype, result.device) == (images.shape, images.dtype, images.device)
    if count and dtype != torch.uint8:
        assert 0 <= result.min() < 0.5 < result.max() <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_black_and_white_images_stay_in_range(name: str, dtype: torch.dtype) -> None:
    images = torch.tensor([0, 1], dtype=dtype).view(2, 1, 1, 1).expand(2, 3, 64, 64).repeat(20, 1, 1, 1)
    result = augment(name, images)
    assert result.isfinite().all()
    assert result.min() >= 0
    assert result.max() <= 1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_images_are_left_alone_and_share_no_memory_with_the_result(name: str, dtype: torch.dtype) -> None:
    images = noise(dtype=dtype)
    before = images.clone()
    augment(name, images).zero_()
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", NAMES)
def test_generator_alone_decides(name: str) -> None:
    images = noise()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = augment(name, images)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(augment(name, images), first)


@pytest.mark.parametrize("name", RANDOM)
def test_generator_moves_on(name: str) -> None:
    images, draws = noise(), generator()
    assert not torch.equal(AUGMENTATIONS[name](images, draws), AUGMENTATIONS[name](images, draws))


@pytest.mark.parametrize("name", RANDOM)
def test_each_image_has_parameters_of_its_own(name: str) -> None:
    results = augment(name, noise(1).expand(40, -1, -1, -1))
    distinct = len({result.numpy().tobytes() for result in results})
    expected = {"flip": 2, "rotate": 4, "crop": 37}  # the 40 windows drawn are 37 of the 625 there are
    assert distinct == expected.get(name, 40)


@pytest.mark.parametrize("name", NAMES)
def test_batch_larger_than_a_chunk_is_the_same_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images = noise()
    chunked = augment(name, images)
    monkeypatch.setattr(augmentations, "CHUNK", 1000)
    torch.testing.assert_close(augment(name, images), chunked, rtol=0, atol=1)


@pytest.mark.parametrize("name", NAMES)
def test_uint8_and_float_images_get_the_same_treatment(name: str) -> None:
    whole = augment(name, noise()).to(torch.float32)
    fractions = augment(name, noise(dtype=torch.float32)) * 255
    assert (whole - fractions).abs().max() <= 0.5 + 1e-3


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_channels_last_stays_channels_last(name: str, dtype: torch.dtype) -> None:
    images = noise(dtype=dtype)
    result = augment(name, images.contiguous(memory_format=torch.channels_last))
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert_same_images(result.contiguous(), augment(name, images))


@pytest.mark.parametrize("name", NAMES)
def test_views_give_what_their_copies_give(name: str) -> None:
    view = noise(80, 70)[::2, :, 3:67, 2:66].transpose(2, 3)
    assert not view.is_contiguous()
    assert_same_images(augment(name, view), augment(name, view.contiguous()))


def assert_same_images(result: torch.Tensor, expected: torch.Tensor) -> None:
    """Check equality up to the rounding of sums taken in another order: tens of numbers in 0..1, each within 6e-8."""
    torch.testing.assert_close(result, expected, rtol=0, atol=1 if result.dtype == torch.uint8 else 1e-5)


class Operations(TorchDispatchMode):
    """Records the name of every tensor operation."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", NAMES)
def test_no_loop_over_images_and_no_wait_for_the_device(name: str) -> None:
    counts = []
    for count in (2, 32):
        with Operations() as seen:
            augment(name, noise(count))
        counts.append(len(seen.names))
        assert not {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select"} & set(seen.names)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", NAMES)
def test_wrong_images_are_refused_with_what_is_right(name: str) -> None:
    with pytest.raises(ValueError, match=r"\(2, 64, 64, 3\).*expected \(N, 3, H, W\).*channels second"):
        augment(name, torch.zeros(2, 64, 64, 3))
    with pytest.raises(ValueError, match=r"torch\.int64.*expected .* uint8"):
        augment(name, torch.zeros(2, 3, 64, 64, dtype=torch.int64))


# Those that move pixels


def shares(which: Tensor, kinds: int) -> list[float]:
    return (torch.bincount(which, minlength=kinds) / len(which)).tolist()


def candidates_met(name: str, candidates: list[Tensor], images: Tensor) -> Tensor:
    """Return which candidate each result equals; every result must equal exactly one."""
    result = augment(name, images)
    equal = torch.stack([(result == candidate).flatten(1).all(1) for candidate in candidates], 1)
    assert (equal.sum(1) == 1).all()
    return equal.int().argmax(1)


def test_flip_is_kornias_horizontal_flip_of_half_the_images() -> None:
    images = noise(1000, 16)
    which = candidates_met("flip", [images, kornia.geometry.transform.hflip(images)], images)
    assert shares(which, 2) == pytest.approx([0.5, 0.5], abs=0.06)


def test_rotate_is_kornias_turn_by_each_quarter() -> None:
    images = noise(1000, 16)
    fractions = images / 255
    turned = [
        kornia.geometry.transform.rotate(fractions, torch.full((1000,), 90.0 * k)).mul(255).round().byte()
        for k in range(4)
    ]
    assert torch.equal(turned[1], images.rot90(1, (2, 3)))
    which = candidates_met("rotate", turned, images)
    assert shares(which, 4) == pytest.approx([0.25] * 4, abs=0.06)


def test_rotate_refuses_oblong_images() -> None:
    with pytest.raises(ValueError, match="8×4 pixels, expected square"):
        augment("rotate", torch.zeros(1, 3, 8, 4))


def test_crop_is_a_window_of_the_image_with_replicated_border() -> None:
    images = noise(1000)
    images[:, 0] = torch.arange(64, dtype=torch.uint8)[:, None] * 4  # the pixel names its place
    images[:, 1] = torch.arange(64, dtype=torch.uint8) * 4
    padded = functional.pad(images.float(), (12, 12, 12, 12), mode="replicate").byte()
    result = augment("crop", images)
    tops, lefts = result[:, 0, 32, 32].int() // 4 - 20, result[:, 1, 32, 32].int() // 4 - 20
    for image, result_of, top, left in zip(padded, result, tops.tolist(), lefts.tolist(), strict=True):
        assert torch.equal(result_of, image[:, top : top + 64, left : left + 64])
    for places in (tops, lefts):
        assert sorted(set(places.tolist())) == list(range(25))
        assert places.float().mean() == pytest.approx(12, abs=0.8)  # 3.5 standard errors
    assert np.corrcoef(tops, lefts)[0, 1] == pytest.approx(0, abs=0.12)


# Those that paint a box


def boxes(result: Tensor, images: Tensor) -> Iterator[tuple[int, int, int, int]]:
    """Yield top, left, height and width of the only rectangle in which each result differs."""
    for changed in (result != images).any(1):
        rows, columns = changed.any(1).nonzero().flatten(), changed.any(0).nonzero().flatten()
        top, left, height, width = int(rows[0]), int(columns[0]), len(rows), len(columns)
        assert changed[top : top + height, left : left + width].all()
        assert int(changed.sum()) == height * width
        yield top, left, height, width


def test_cutout_paints_one_black_box_of_any_size_and_place() -> None:
    images = noise(2000).clamp_(min=1)
    result = augment("cutout", images)
    found = np.array(list(boxes(result, images)))
    for image, result_of, (top, left, height, width) in zip(images, result, found, strict=True):
        expected = image.clone()
        expected[:, top : top + height, left : left + width] = 0
        assert torch.equal(result_of, expected)
    for start, side in ((found[:, 0], found[:, 2]), (found[:, 1], found[:, 3])):
        assert sorted(set(side)) == list(range(7, 22))
        assert side.mean() == pytest.approx(14, abs=0.35)
        assert start.min() == 0
        assert (start + side).max() == 64
        assert (start / (64 - side)).mean() == pytest.approx(0.5, abs=0.025)
    assert np.corrcoef(found[:, 2], found[:, 3])[0, 1] == pytest.approx(0, abs=0.08)


def test_cutout_color_paints_the_box_in_one_colour() -> None:
    images = noise(600)
    box = augment("cutout", torch.full_like(images, 255)) == 0
    result = augment("cutout-color", images)
    colours = (result * box).amax((2, 3), keepdim=True)
    assert torch.equal(result, torch.where(box, colours, images))
    drawn = colours.flatten(1).double()
    assert drawn.min() == 0
    assert drawn.max() == 255
    assert drawn.mean(0).tolist() == pytest.approx([127.5] * 3, abs=10)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.14


# Random convolution


def test_grouped_convolution_is_conv2d_with_a_kernel_per_image() -> None:
    draws = generator()
    images, kernels = torch.rand((5, 3, 7, 9), generator=draws), torch.randn((5, 3, 3, 3, 3), generator=draws)
    stacked = functional.conv2d(images.view(1, 15, 7, 9), kernels.view(15, 3, 3, 3), padding=1, groups=5)
    expected = stacked.view_as(images)
    torch.testing.assert_close(grouped_convolution(images, kernels), expected)


def test_random_conv_is_the_loop_over_images() -> None:
    images = noise(dtype=torch.float32)
    kernels = torch.randn((40, 3, 3, 3, 3), generator=generator()) / 27**0.5  # Xavier: variance 2 / (27 + 27)
    result = augment("random-conv", images)
    for image, kernel, result_of in zip(images, kernels, result, strict=True):
        raw = functional.conv2d(image[None], kernel, padding=1)[0]
        low, high = raw.min(), raw.max()
        expected = 0.5 + (raw - (low + high) / 2) / max(1.0, float(high - low))
        torch.testing.assert_close(result_of, expected, rtol=0, atol=1e-5)


def test_random_conv_keeps_the_contrast_of_what_fits_and_shrinks_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    identity = torch.zeros(3, 3, 3, 3)
    identity[range(3), range(3), 1, 1] = 27**0.5  # the drawn weights are divided by this
    image = torch.full((3, 64, 64), 0.25)
    image[0, 5, 6] = 0.75  # range 0.25..0.75: as it was, its middle is mid-grey already
    for gain, low, high in ((1.0, 0.25, 0.75), (0.5, 0.375, 0.625), (8.0, 0.0, 1.0), (-8.0, 1.0, 0.0)):
        kernel = identity * gain
        monkeypatch.setattr(torch, "randn", lambda *_, kernel=kernel, **__: kernel.clone()[None])
        expected = torch.full((3, 64, 64), low)
        expected[0, 5, 6] = high
        torch.testing.assert_close(augment("random-conv", image[None])[0], expected)


# Colours


def test_contrast_is_kornias_with_each_channel_an_image() -> None:
    images, factors = noise(12, dtype=torch.float32), torch.linspace(0, 2, 12)
    expected = kornia.enhance.adjust_contrast_with_mean_subtraction(
        images.view(36, 1, 64, 64), factors.repeat_interleave(3)
    ).view_as(images)
    torch.testing.assert_close(adjust_contrast(images, factors.view(-1, 1, 1), 1.0), expected)


def test_hue_saturation_and_brightness_are_each_kornias() -> None:
    images, one = noise(12, dtype=torch.float32), torch.ones(12, 1, 1)
    images[:, :, :8, :8] = images[:, :1, :8, :8]  # greys, which have no hue
    images[:, :, :2, :2] = 0
    dark = images / 2  # brighter ones are clipped in V here, which keeps the hue, and channel by channel in kornia
    turns, factors = torch.linspace(-0.5, 0.5, 12), torch.linspace(0, 2, 12)
    column = factors.view(-1, 1, 1)
    enhance = kornia.enhance
    for given, changes, expected in (
        (images, (turns.view(-1, 1, 1), one, one), enhance.adjust_hue(images, turns * 2 * torch.pi)),
        (images, (0 * one, column, one), enhance.adjust_saturation(images, factors)),
        (dark, (0 * one, one, column), enhance.adjust_brightness_accumulative(dark, factors)),
    ):
        torch.testing.assert_close(adjust_hsv(given, *changes, 1.0), expected, rtol=0, atol=1e-5)


def test_hsv_adjustment_is_that_of_the_standard_library_pixel_by_pixel() -> None:
    draws = generator(1)
    pixels = torch.rand((200, 3, 1, 1), generator=draws, dtype=torch.float64)
    hue, saturation, value = (
        2 * torch.rand((200, 1, 1), generator=draws, dtype=torch.float64) - shift for shift in (1, 0, 0)
    )
    result = adjust_hsv(pixels, hue, saturation, value, 1.0)
    for pixel, turn, of_s, of_v, result_of in zip(pixels, hue, saturation, value, result, strict=True):
        h, s, v = colorsys.rgb_to_hsv(*pixel.flatten().tolist())
        expected = colorsys.hsv_to_rgb((h + turn.item()) % 1, min(1, s * of_s.item()), min(1, v * of_v.item()))
        assert result_of.flatten().tolist() == pytest.approx(expected, abs=1e-9)


def test_color_jitter_is_the_loop_over_images() -> None:
    images, draws = noise(dtype=torch.float32), generator()
    brightness, contrast, saturation = (uniform(40, 0.6, 1.4, draws) for _ in range(3))
    hue = uniform(40, -0.5, 0.5, draws)
    contrast_first = torch.randint(2, (40,), generator=draws).bool().tolist()
    assert 10 < sum(contrast_first) < 30
    result = augment("color-jitter", images)
    for n, image in enumerate(images):
        image = image[None]
        if contrast_first[n]:
            image = adjust_contrast(image, contrast[n], 1.0)
        h, s, v = kornia.color.rgb_to_hsv(image).unbind(1)
        h, s, v = h + 2 * torch.pi * hue[n], s * saturation[n], v * brightness[n]
        image = kornia.color.hsv_to_rgb(torch.stack([h % (2 * torch.pi), s.clamp(max=1), v.clamp(max=1)], 1))
        if not contrast_first[n]:
            image = adjust_contrast(image, contrast[n], 1.0)
        torch.testing.assert_close(result[n], image[0], rtol=0, atol=1e-5)


def test_grayscale_is_kornias() -> None:
    images = noise()
    expected = kornia.color.rgb_to_grayscale(images).expand_as(images)  # fixed point: a rounding apart
    assert (augment("grayscale", images).int() - expected.int()).abs().max() <= 1
    fractions = noise(dtype=torch.float32)
    torch.testing.assert_close(
        augment("grayscale", fractions), kornia.color.rgb_to_grayscale(fractions).expand_as(fractions)
    )


def test_grayscale_rounds_to_the_nearest() -> None:
    red, green, blue = (torch.zeros(1, 3, 1, 1, dtype=torch.uint8) for _ in range(3))
    red[:, 0], green[:, 1], blue[:, 2] = 255, 255, 255
    lumas = [augment("grayscale", colour).flatten().tolist() for colour in (red, green, blue)]
    assert lumas == [[76] * 3, [150] * 3, [29] * 3]  # 76.245, 149.685, 29.07


# Real frames


@pytest.fixture(scope="module")
def frames() -> Tensor:
    if importlib.util.find_spec("envpool") is None:  # not imported here: its Qt libraries are to be loaded first
        pytest.skip("Procgen frames need EnvPool: pip install 'adept-rl[envpool]'")
    from adept.envs import make_environments
    from adept.extras import MissingExtra
    from adept.presets import preset

    try:
        environments = make_environments(preset("procgen/coinrun"), count=8)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    first = environments.restart(0)
    environments.close()
    return torch.from_numpy(np.array(first))


@pytest.mark.procgen
@pytest.mark.parametrize("name", NAMES)
def test_procgen_frames_are_changed_and_stay_pictures(name: str, frames: Tensor) -> None:
    assert frames.shape == (8, 3, 64, 64)
    result = augment(name, frames)
    assert (result.shape, result.dtype) == (frames.shape, torch.uint8)
    changed = (result != frames).flatten(1).any(1)
    assert changed.any() if name in ("flip", "rotate") else changed.all()
    assert (result.float().flatten(1).std(1) > 4).all()  # something is still to be seen
