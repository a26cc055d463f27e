from __future__ import annotations

import re
from pathlib import Path

import pytest

from adept.config import Config
from adept.presets import FAMILIES, family, preset

# Environments × steps each, minibatch, K, learning rate, discount, λ, clip range, entropy coefficient, value clipped,
# observations and rewards normalised: from the files that the families name, with Stable-Baselines3's defaults.
TABLE = {
    "HalfCheetah-v4": (1, 2048, 64, 10, 3e-4, 0.99, 0.95, 0.2, 0.0, True, True),
    "Walker2d-v5": (1, 2048, 64, 10, 3e-4, 0.99, 0.95, 0.2, 0.0, True, True),
    "Swimmer-v4": (1, 2048, 64, 10, 3e-4, 0.9999, 0.95, 0.2, 0.0, True, True),
    "CartPole-v1": (8, 32, 256, 20, 1e-3, 0.98, 0.8, 0.2, 0.0, False, False),
    "Acrobot-v1": (16, 256, 64, 4, 3e-4, 0.99, 0.94, 0.2, 0.0, False, True),
    "Pendulum-v1": (4, 1024, 64, 10, 1e-3, 0.9, 0.95, 0.2, 0.0, False, False),
    "MountainCar-v0": (16, 16, 64, 4, 3e-4, 0.99, 0.98, 0.2, 0.0, False, True),
    "MountainCarContinuous-v0": (1, 8, 8, 10, 7.77e-5, 0.9999, 0.9, 0.1, 0.00429, False, True),
    "LunarLander-v3": (16, 1024, 64, 4, 3e-4, 0.999, 0.98, 0.2, 0.01, False, False),
    "LunarLanderContinuous-v2": (16, 1024, 64, 4, 3e-4, 0.999, 0.98, 0.2, 0.01, False, False),
    "BipedalWalker-v3": (32, 2048, 64, 10, 3e-4, 0.999, 0.95, 0.18, 0.0, False, True),
    "Breakout-v5": (8, 128, 256, 4, 2.5e-4, 0.99, 0.95, 0.1, 0.01, True, False),
}


def facts(config: Config) -> tuple[object, ...]:
    assert config.normalize_observations == config.normalize_rewards
    return (
        config.environments, config.rollout_length, config.minibatch_size, max(config.choices), config.learning_rate,
        config.discount, config.gae_coefficient, config.clip_range, config.entropy_coefficient,
        config.clip_value_loss, config.normalize_observations,
    )  # fmt: skip


@pytest.mark.parametrize("task", TABLE)
def test_values_are_those_of_the_sources(task: str) -> None:
    backends = ("envpool",) if task == "Breakout-v5" else ("envpool", "gymnasium")
    for backend in backends:
        assert facts(preset(f"{backend}/{task}")) == TABLE[task]


def test_decay_widths_and_what_is_left_over() -> None:
    decaying = {name for name in TABLE if preset(f"envpool/{name}").learning_rate_decay}
    assert decaying == {"HalfCheetah-v4", "Walker2d-v5", "Swimmer-v4", "CartPole-v1", "Breakout-v5"}
    assert preset("envpool/Breakout-v5").network == "nature"
    continuous = preset("envpool/MountainCarContinuous-v0")
    assert (continuous.value_coefficient, continuous.max_gradient_norm) == (0.38, 5.0)


def test_the_value_loss_weighs_what_it_does_in_the_source() -> None:
    # CleanRL: 0.5 · ½(V - R)². Stable-Baselines3: 0.5 · (V - R)², without the ½.
    half = {name for name in TABLE if preset(f"envpool/{name}").value_coefficient == 0.5}
    assert half == {"HalfCheetah-v4", "Walker2d-v5", "Swimmer-v4", "Breakout-v5"}
    assert {preset(f"envpool/{name}").value_coefficient for name in set(TABLE) - half} == {1.0, 0.38}


def test_arms_and_epochs() -> None:
    arms = {"envpool/CartPole-v1": (20, 10, 1), "envpool/Hopper-v4": (10, 5, 1), "minigrid/DoorKey-6x6": (4, 2, 1),
            "procgen/coinrun": (3, 2, 1)}  # fmt: skip
    assert {env: preset(env, scheduler="ucb").arms for env in arms} == arms
    assert preset("envpool/Hopper-v4").epochs == 10
    assert preset("gymnasium/Taxi-v3", scheduler="fixed").epochs == 4


def test_names_that_only_look_alike_have_no_family() -> None:
    for env in ("envpool/HopperHop-v1", "envpool/AcrobotSwingup-v1", "gymnasium/Taxi-v3", "gymnasium/Breakout-v5"):
        assert family(env) is None


def test_every_environment_of_a_family_is_one_of_envpools() -> None:
    envpool = pytest.importorskip("envpool")
    known = [f"envpool/{name}" for name in envpool.list_all_envs()]
    sizes = {one.name: sum(1 for env in known if family(env) is one) for one in FAMILIES}
    for name, size in sizes.items():
        assert size or name in ("procgen", "minigrid", "pybullet"), name
    # Atari's pattern is broad: every environment it takes has to be one of the games, four frames of 84 × 84.
    games = [env for env in known if (found := family(env)) and found.name == "atari"]
    assert len(games) > 50
    for env in (games[0], games[len(games) // 2], games[-1]):
        spec = envpool.make_spec(re.sub("^envpool/", "", env))
        assert tuple(spec.observation_space.shape) == (4, 84, 84)


def test_the_page_on_training_lists_every_family() -> None:
    page = (Path(__file__).parent.parent / "docs" / "training.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (\d+) \|", page, re.MULTILINE)
    assert dict(rows) == {one.name: str(one.epochs) for one in FAMILIES}
