"""Scores of a saved policy on train or test levels, and videos of it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adept.algorithms.learner import load_network
from adept.config import Config, Execution
from adept.envs import Array, Environments, backend_of, make_environments
from adept.envs.base import Continuous
from adept.extras import require
from adept.networks import TorchActor, make_network
from adept.normalization import ObservationNormalizer
from adept.runs.checkpoints import load_checkpoint
from adept.runs.imports import import_trusted, named_environments
from adept.runs.records import read_config
from adept.runs.safe_io import aside, gist
from adept.seeding import stream_seed
from adept.training import pick_device

TEST_EPISODES = 100
VIDEO_FRAMES_PER_SECOND = 30

OnEpisode = Callable[[int, int], None]
"""Told after each episode how many of how many have ended."""


def saved_policy(
    path: Path, config: Config, environments: Environments, device: torch.device, seed: int, *, deterministic: bool
) -> tuple[int, Callable[[Array], Array]]:
    """Return the iteration of a run's newest checkpoint, and its policy: actions, the likeliest or drawn, by rows."""
    checkpoint = load_checkpoint(path, config)
    if checkpoint is None:
        raise ValueError(f"{path} has no checkpoint yet; let the run reach its first one")
    values, arrays = checkpoint
    network = make_network(config.network, environments.observation_shape, environments.actions, 0)
    load_network(network, {name.removeprefix("learner/"): array for name, array in arrays.items()})
    network.to(device)
    normalizer = None
    if config.normalize_observations:
        prefix = "collector/normalize_observations/"
        normalizer = ObservationNormalizer(environments.observation_shape)
        normalizer.load({name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)})
    actor, rng, space = TorchActor(network, device), np.random.default_rng(seed), environments.actions

    @torch.inference_mode()
    def act(observations: Array) -> Array:
        if normalizer is not None:
            observations = normalizer(observations).astype(np.float32)
        rows = torch.from_numpy(np.ascontiguousarray(observations)).to(device)
        if deterministic:
            actions: Array = network.distribution.mode(network.policy(rows)).cpu().numpy()
        else:
            actions = actor.act(rows, network.distribution.noise(rng, len(rows))).actions
        return np.clip(actions, space.low, space.high).astype(np.float32) if isinstance(space, Continuous) else actions

    return values["iteration"], act


def evaluate(
    path: Path,
    *,
    episodes: int = 100,
    levels: str = "test",
    deterministic: bool = False,
    seed: int = 0,
    execution: Execution | None = None,
    trust: bool = False,
    on_episode: OnEpisode | None = None,
) -> tuple[dict[str, Any], list[float]]:
    """Play episodes with the newest checkpoint of a run; return a row for evaluation.csv, and each episode's return.

    `levels` matters for Procgen alone: test is the full distribution, train the levels trained on. Every
    environment plays its share of the episodes, so that short ones are not counted more often than long ones. A module
    that the run's environment names is imported only with `trust`.
    """
    execution = execution or Execution()
    torch.set_num_threads(execution.threads)
    returns: list[float] = []
    lengths: list[int] = []
    with _playing(path, episodes, levels, deterministic, seed, trust, execution) as playing:
        iteration, act, environments, observations = playing
        count = environments.count
        remaining = np.array([episodes // count + (index < episodes % count) for index in range(count)])
        episode_return, episode_length = np.zeros(count), np.zeros(count, np.int64)
        while remaining.any():
            result = environments.step(act(observations))
            observations = result.observations
            episode_return += result.rewards
            episode_length += 1
            for index in np.flatnonzero(result.terminated | result.truncated):
                if remaining[index]:
                    returns.append(float(episode_return[index]))
                    lengths.append(int(episode_length[index]))
                    remaining[index] -= 1
                    if on_episode is not None:
                        on_episode(len(returns), episodes)
                episode_return[index], episode_length[index] = 0.0, 0
    row = {
        "iteration": iteration, "step": iteration * read_config(path).batch_size, "levels": levels,
        "deterministic": deterministic, "seed": seed, "episodes": len(returns), "return_mean": float(np.mean(returns)),
        "return_std": float(np.std(returns, ddof=1)) if len(returns) > 1 else 0.0,
        "length_mean": float(np.mean(lengths)),
    }  # fmt: skip
    return row, returns


@contextlib.contextmanager
def _playing(
    path: Path, episodes: int, levels: str, deterministic: bool, seed: int, trust: bool, execution: Execution,
    **settings: Any,
) -> Iterator[tuple[int, Callable[[Array], Array], Environments, Array]]:  # fmt: skip
    """Give a run's saved policy and its iteration, the environments of an evaluation, and their first observations."""
    if levels not in ("train", "test"):
        raise ValueError(f"levels must be train or test, got {levels!r}")
    if episodes < 1:
        raise ValueError(f"episodes must be a whole number ≥ 1, got {episodes!r}")
    config = read_config(path)
    import_trusted(named_environments(config), trust, str(path))
    settings = {"count": min(backend_of(config).evaluation_environments, episodes), **settings}
    made = make_environments(
        config, evaluating=True, test_levels=levels == "test", threads=execution.env_threads, **settings
    )
    stream = stream_seed(config.seed, "evaluation", seed)
    with contextlib.closing(made) as environments:
        device = pick_device(execution.device)
        iteration, act = saved_policy(path, config, environments, device, stream, deterministic=deterministic)
        yield iteration, act, environments, environments.restart(stream)


def frames(
    path: Path, *, episodes: int = 1, levels: str = "test", deterministic: bool = False, seed: int = 0,
    trust: bool = False,
) -> Generator[Array, None, None]:  # fmt: skip
    """Yield frames of the saved policy at play."""
    here, rendered = Execution(device="cpu"), {"count": 1, "render": True}
    with _playing(path, episodes, levels, deterministic, seed, trust, here, **rendered) as playing:
        _, act, environments, observations = playing
        played = 0
        while played < episodes:
            yield environments.render()
            result = environments.step(act(observations))
            observations = result.observations
            played += int((result.terminated | result.truncated)[0])


def write_video(path: Path, output: Path, **options: Any) -> int:
    """Write a video (mp4) or animation (gif) of the saved policy at play; return the number of frames."""
    imageio = require("imageio.v2", "video")
    if output.suffix not in (".mp4", ".gif"):
        raise ValueError(f"a video ends in .mp4 or .gif, got {output.name!r}")
    ffmpeg = require("imageio_ffmpeg", "video")
    settings: dict[str, Any] = {"fps": VIDEO_FRAMES_PER_SECOND, "macro_block_size": 2, "ffmpeg_log_level": "quiet"}
    if output.suffix == ".gif":
        settings = {"duration": 1000 / VIDEO_FRAMES_PER_SECOND, "loop": 0}
    pictures = frames(path, **options)
    first, count = next(pictures), 0  # a mistake comes before a file is made
    try:
        with aside(output) as other:
            with imageio.get_writer(other, **settings) as writer:
                for frame in itertools.chain([first], pictures):
                    writer.append_data(enlarged(frame))
                    count += 1
            if output.suffix == ".mp4":  # that ffmpeg came to grief, on a full disk for one, imageio does not say
                ffmpeg.count_frames_and_secs(other)
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{output} cannot be written: {gist(error)}; is there room on the disk?") from error
    finally:
        pictures.close()
    return count


def enlarged(frame: Array, at_least: int = 256) -> Array:
    """Repeat the pixels of a small picture until it can be looked at."""
    times = max(1, -(-at_least // min(frame.shape[:2])))
    return np.repeat(np.repeat(frame, times, 0), times, 1)
