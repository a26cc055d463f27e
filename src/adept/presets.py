"""Hyperparameters by family of environments, as data, and the configuration that follows from them.

The first three families are the paper's tables. The others take the values that CleanRL and rl-zoo3 use for PPO. Where
one of those needs what is not there (state-dependent exploration, a clip range that shrinks), `source` says so. Epochs
are the family's K: what `fixed` and the rules use, and the largest of the default arms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adept.algorithms import ALGORITHMS
from adept.config import Config
from adept.rules import RULES

_NATIVE = "(envpool|gymnasium)"
_MUJOCO = (
    "Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|InvertedDoublePendulum|InvertedPendulum|Pusher|Reacher|Swimmer"
    "|Walker2d"
)
# What rl-zoo3 leaves to Stable-Baselines3, whose defaults these are. Its vf_coef multiplies (V - R)², the value
# coefficient here ½(V - R)² as in CleanRL: 0.5 there is 1 here.
_SB3 = {
    "learning_rate": 3e-4, "minibatch_size": 64, "entropy_coefficient": 0.0, "value_coefficient": 1.0,
    "clip_value_loss": False,
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """Environments that share their hyperparameters."""

    name: str
    match: str
    """regular expression for the whole of `backend/name`"""
    epochs: int
    source: str
    values: Mapping[str, Any]
    special: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """values of single tasks that differ, by a regular expression for the task's name"""

    @property
    def arms(self) -> tuple[int, ...]:
        """The default arms: K, half of it, and 1."""
        return tuple(dict.fromkeys((self.epochs, max(1, self.epochs // 2), 1)))


FAMILIES = (
    Family(
        "procgen", r"procgen/.*", 3, "the paper, table of hyperparameters for PPO and DrAC on Procgen",
        {
            "arms": (3, 2, 1), "steps": 25_000_000, "environments": 64, "rollout_length": 256, "minibatch_size": 2048,
            "learning_rate": 5e-4, "discount": 0.999, "entropy_coefficient": 0.01, "normalize_rewards": True,
            "network": "impala", "restart_every": 50,
        },
    ),
    Family(
        "minigrid", r"minigrid/.*", 4, "the paper, table of hyperparameters for PPO on MiniGrid and PyBullet",
        {
            "steps": 500_000, "environments": 16, "rollout_length": 128, "minibatch_size": 256, "learning_rate": 1e-3,
            "discount": 0.99, "entropy_coefficient": 0.01, "network": "minigrid",
        },
    ),
    Family(
        "pybullet", r"pybullet/.*", 10, "the paper, table of hyperparameters for PPO on MiniGrid and PyBullet",
        {
            "steps": 2_000_000, "environments": 1, "rollout_length": 2048, "minibatch_size": 64, "learning_rate": 2e-4,
            "learning_rate_decay": True, "discount": 0.99, "entropy_coefficient": 0.0, "clip_value_loss": False,
            "normalize_observations": True, "normalize_rewards": True, "network": "mlp",
        },
    ),
    Family(
        "mujoco", rf"{_NATIVE}/({_MUJOCO})-v\d", 10,
        "CleanRL, ppo_continuous_action.py; Swimmer's discount is rl-zoo3's",
        {
            "steps": 1_000_000, "environments": 1, "rollout_length": 2048, "minibatch_size": 64, "learning_rate": 3e-4,
            "learning_rate_decay": True, "discount": 0.99, "entropy_coefficient": 0.0, "clip_value_loss": True,
            "normalize_observations": True, "normalize_rewards": True, "network": "mlp",
        },
        {r"Swimmer-v\d": {"discount": 0.9999}},
    ),
    Family(
        "cartpole", rf"{_NATIVE}/CartPole-v\d", 20, "rl-zoo3, ppo.yml, with a clip range that stays at 0.2",
        _SB3 | {
            "steps": 100_000, "environments": 8, "rollout_length": 32, "minibatch_size": 256, "learning_rate": 1e-3,
            "learning_rate_decay": True, "discount": 0.98, "gae_coefficient": 0.8, "network": "mlp",
        },
    ),
    Family(
        "acrobot", rf"{_NATIVE}/Acrobot-v\d", 4, "rl-zoo3, ppo.yml",
        _SB3 | {
            "steps": 1_000_000, "environments": 16, "rollout_length": 256, "discount": 0.99, "gae_coefficient": 0.94,
            "normalize_observations": True, "normalize_rewards": True, "network": "mlp",
        },
    ),
    Family(
        "pendulum", rf"{_NATIVE}/Pendulum-v\d", 10, "rl-zoo3, ppo.yml, without state-dependent exploration (gSDE)",
        _SB3 | {
            "steps": 100_000, "environments": 4, "rollout_length": 1024, "learning_rate": 1e-3, "discount": 0.9,
            "network": "mlp",
        },
    ),
    Family(
        "mountain-car", rf"{_NATIVE}/MountainCar-v\d", 4, "rl-zoo3, ppo.yml",
        _SB3 | {
            "steps": 1_000_000, "environments": 16, "rollout_length": 16, "discount": 0.99, "gae_coefficient": 0.98,
            "normalize_observations": True, "normalize_rewards": True, "network": "mlp",
        },
    ),
    Family(
        "mountain-car-continuous", rf"{_NATIVE}/MountainCarContinuous-v\d", 10,
        "rl-zoo3, ppo.yml, without state-dependent exploration (gSDE)",
        _SB3 | {
            "steps": 20_000, "environments": 1, "rollout_length": 8, "minibatch_size": 8, "learning_rate": 7.77e-5,
            "discount": 0.9999, "gae_coefficient": 0.9, "clip_range": 0.1, "entropy_coefficient": 0.00429,
            "value_coefficient": 2 * 0.19, "max_gradient_norm": 5.0, "normalize_observations": True,
            "normalize_rewards": True, "network": "mlp",
        },
    ),
    Family(
        "lunar-lander", rf"{_NATIVE}/LunarLander(Continuous)?-v\d", 4, "rl-zoo3, ppo.yml",
        _SB3 | {
            "steps": 1_000_000, "environments": 16, "rollout_length": 1024, "discount": 0.999,
            "gae_coefficient": 0.98, "entropy_coefficient": 0.01, "network": "mlp",
        },
    ),
    Family(
        "bipedal-walker", rf"{_NATIVE}/BipedalWalker-v\d", 10, "rl-zoo3, ppo.yml",
        _SB3 | {
            "steps": 5_000_000, "environments": 32, "rollout_length": 2048, "discount": 0.999, "clip_range": 0.18,
            "normalize_observations": True, "normalize_rewards": True, "network": "mlp",
        },
    ),
    Family(
        "atari", r"envpool/[A-Za-z0-9]+-v5", 4, "CleanRL, ppo_atari_envpool.py",
        {
            "steps": 10_000_000, "environments": 8, "rollout_length": 128, "minibatch_size": 256,
            "learning_rate": 2.5e-4, "learning_rate_decay": True, "discount": 0.99, "clip_range": 0.1,
            "entropy_coefficient": 0.01, "clip_value_loss": True, "network": "nature", "monitor_every": 25,
        },
    ),
)  # fmt: skip
"""The first that matches is taken; for other environments the defaults of `Config` stand."""

# "Best found" on Procgen, and the setting of the MiniGrid experiments. PyBullet's best is not reported: Procgen's.
SCHEDULER_OPTIONS: dict[tuple[str, str], dict[str, float]] = {
    ("ucb", "minigrid"): {"exploration": 1.0, "window": 50},
    ("ucb", ""): {"exploration": 5.0, "window": 10},
    ("thompson", "drac"): {"step_size": 0.1, "window": 50},
    ("thompson", ""): {"step_size": 1.0, "window": 50},
}

# Table "best augmentation type of DrAC for each Procgen environment".
_BEST = {
    "crop": ("bigfish", "starpilot", "fruitbot", "plunder", "chaser", "dodgeball", "heist", "leaper", "maze"),
    "flip": ("bossfight",),
    "rotate": ("caveflyer",),
    "random-conv": ("coinrun", "jumper"),
    "color-jitter": ("ninja", "climber", "miner"),
}
AUGMENTATIONS = {game: augmentation for augmentation, games in _BEST.items() for game in games}


def family(env: str) -> Family | None:
    """Return the family of an environment by `backend/name`."""
    return next((one for one in FAMILIES if re.fullmatch(one.match, env)), None)


def preset(env: str, algo: str = "ppo", scheduler: str = Config.scheduler) -> Config:
    """Return the configuration of an environment's family, or sensible defaults for one that has none."""
    task, found = env.partition("/")[2], family(env)
    values: dict[str, Any] = {"env": env, "algo": algo, "scheduler": scheduler}
    if found:
        values |= {"arms": found.arms} | dict(found.values)
        for pattern, special in found.special.items():
            values |= special if re.fullmatch(pattern, task) else {}
    values |= ALGORITHMS[algo].defaults if algo in ALGORITHMS else {}
    name = found.name if found else ""
    options = (SCHEDULER_OPTIONS.get((scheduler, key)) for key in (name, algo, ""))
    values["scheduler_options"] = next(filter(None, options), {})
    if algo == "drac" and name == "procgen":
        values["augmentation"] = AUGMENTATIONS.get(task, "crop")
    if scheduler == "fixed" or scheduler in RULES:
        values |= {"epochs": found.epochs if found else Config.epochs, "arms": ()}
    return Config(**values)


def summary() -> str:
    """Return the families, one line each, for help."""
    return "\n".join(f"- {one.name} (K={one.epochs}): {one.source}" for one in FAMILIES)
