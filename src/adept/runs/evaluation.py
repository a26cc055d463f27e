"""Scores of a saved policy on train or test levels, and videos of it."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Evaluation:
    """What a saved policy reached."""

    iteration: int
    step: int
    levels: str
    deterministic: bool
    seed: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    def row(self) -> dict[str, Any]:
        """Return the numbers that a table of evaluations has."""
        row = dataclasses.asdict(self)
        del row["returns"], row["lengths"]
        row |= {"episodes": len(self.returns), "return_mean": float(np.mean(self.returns))}
        spread = float(np.std(self.returns, ddof=1)) if len(self.returns) > 1 else 0.0
        return row | {"return_std": spread, "length_mean": float(np.mean(self.lengths))}


class SavedPolicy:
    """The network and normaliser of a run's newest checkpoint, acting in environments."""

    def __init__(
        self, path: Path, config: Config, environments: Environments, device: str, seed: int, *, deterministic: bool
    ) -> None:
        self._device = pick_device(device)
        checkpoint = load_checkpoint(path, config)
        if checkpoint is None:
            raise ValueError(f"{path} has no checkpoint yet; let the run reach its first one")
        values, arrays = checkpoint
        self.iteration: int = values["iteration"]
        self.step = self.iteration * config.batch_size
        self._network = make_network(config.network, environments.observation_shape, environments.actions, 0)
        load_network(self._network, {name.removeprefix("learner/"): array for name, array in arrays.items()})
        self._network.to(self._device)
        self._actor = TorchActor(self._network, self._device)
        self._normalizer = None
        if config.normalize_observations:
            prefix = "collector/normalize_observations/"
            self._normalizer = ObservationNormalizer(environments.observation_shape)
            saved = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            self._normalizer.load(saved)
        self._deterministic = deterministic
        self._rng = np.random.default_rng(seed)
        bounds = environments.actions
        self._bounds = (bounds.low, bounds.high) if isinstance(bounds, Continuous) else None

    @torch.inference_mode()
    def act(self, observations: Array) -> Array:
        """Return actions: the most likely ones, or samples."""
        if self._normalizer is not None:
            observations = self._normalizer(observations).astype(np.float32)
        rows = torch.from_numpy(np.ascontiguousarray(observations)).to(self._device)
        if self._deterministic:
            actions: Array = self._network.distribution.mode(self._network.policy(rows)).cpu().numpy()
        else:
            actions = self._actor.act(rows, self._network.distribution.noise(self._rng, len(rows))).actions
        return actions if self._bounds is None else np.clip(actions, *self._bounds).astype(np.float32)


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
) -> Evaluation:
    """Play episodes with the newest checkpoint of a run.

    `levels` matters for Procgen alone: test is the full distribution, train the levels trained on. Every
    environment plays its share of the episodes, so that short ones are not counted more often than long ones. A module
    that the run's environment names is imported only with `trust`.
    """
    execution = execution or Execution()
    torch.set_num_threads(execution.threads)
    returns: list[float] = []
    lengths: list[int] = []
    with _playing(path, episodes, levels, deterministic, seed, trust, execution) as (policy, environments, started):
        count, observations = environments.count, started
        remaining = np.array([episodes // count + (index < episodes % count) for index in range(count)])
        episode_return, episode_length = np.zeros(count), np.zeros(count, np.int64)
        while remaining.any():
            result = environments.step(policy.act(observations))
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
    return Evaluation(policy.iteration, policy.step, levels, deterministic, seed, tuple(returns), tuple(lengths))


@contextlib.contextmanager
def _playing(
    path: Path, episodes: int, levels: str, deterministic: bool, seed: int, trust: bool, execution: Execution,
    **settings: Any,
) -> Iterator[tuple[SavedPolicy, Environments, Array]]:  # fmt: skip
    """Give a run's saved policy, the environments of an evaluation, and their first observations."""
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
        policy = SavedPolicy(path, config, environments, execution.device, stream, deterministic=deterministic)
        yield policy, environments, environments.restart(stream)


def frames(
    path: Path, *, episodes: int = 1, levels: str = "test", deterministic: bool = False, seed: int = 0,
    trust: bool = False,
) -> Generator[Array, None, None]:  # fmt: skip
    """Yield frames of the saved policy at play."""
    here, rendered = Execution(device="cpu"), {"count": 1, "render": True}
    with _playing(path, episodes, levels, deterministic, seed, trust, here, **rendered) as playing:
        policy, environments, observations = playing
        played = 0
        while played < episodes:
            yield environments.render()
            result = environments.step(policy.act(observations))
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
