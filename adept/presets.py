"""The paper's tables of hyperparameters as data, and the configuration that follows from them."""

from __future__ import annotations

from typing import Any

from adept.config import Config

# Table "shared hyperparameters for PPO and DrAC on Procgen" and table "… for PPO on MiniGrid and PyBullet".
BACKENDS: dict[str, dict[str, Any]] = {
    "procgen": {
        "arms": (3, 2, 1),
        "steps": 25_000_000,
        "environments": 64,
        "rollout_length": 256,
        "minibatch_size": 2048,
        "learning_rate": 5e-4,
        "discount": 0.999,
        "entropy_coefficient": 0.01,
        "normalize_rewards": True,
        "network": "impala",
        "restart_every": 50,
    },
    "minigrid": {
        "arms": (4, 2, 1),
        "steps": 500_000,
        "environments": 16,
        "rollout_length": 128,
        "minibatch_size": 256,
        "learning_rate": 1e-3,
        "discount": 0.99,
        "entropy_coefficient": 0.01,
        "network": "minigrid",
    },
    "pybullet": {
        "arms": (10, 5, 1),
        "steps": 2_000_000,
        "environments": 1,
        "rollout_length": 2048,
        "minibatch_size": 64,
        "learning_rate": 2e-4,
        "learning_rate_decay": True,
        "discount": 0.99,
        "entropy_coefficient": 0.0,
        "clip_value_loss": False,
        "normalize_observations": True,
        "normalize_rewards": True,
        "network": "mlp",
    },
}

# The reward is normalised for PPO, not for DrAC (same table).
ALGORITHMS: dict[str, dict[str, Any]] = {"ppo": {}, "drac": {"normalize_rewards": False}}

BASELINE_EPOCHS = {"procgen": 3, "minigrid": 4, "pybullet": 10}
"""The number of epochs of the paper's fixed baselines."""

# "Best found" on Procgen, and the setting of the MiniGrid experiments. PyBullet's best is not reported: Procgen's.
SCHEDULER_OPTIONS: dict[tuple[str, str], dict[str, float]] = {
    ("ucb", "minigrid"): {"exploration": 1.0, "window": 50},
    ("ucb", ""): {"exploration": 5.0, "window": 10},
    ("thompson", "drac"): {"step_size": 0.1, "window": 50},
    ("thompson", ""): {"step_size": 1.0, "window": 50},
}

# Table "best augmentation type of DrAC for each Procgen environment".
AUGMENTATIONS = {
    "bigfish": "crop",
    "starpilot": "crop",
    "fruitbot": "crop",
    "bossfight": "flip",
    "ninja": "color-jitter",
    "plunder": "crop",
    "caveflyer": "rotate",
    "coinrun": "random-conv",
    "jumper": "random-conv",
    "chaser": "crop",
    "climber": "color-jitter",
    "dodgeball": "crop",
    "heist": "crop",
    "leaper": "crop",
    "maze": "crop",
    "miner": "color-jitter",
}


def preset(env: str, algo: str = "ppo", scheduler: str = "ucb") -> Config:
    """Return the paper's configuration for an environment, or sensible defaults for one it does not cover."""
    backend = env.partition("/")[0]
    values: dict[str, Any] = {"env": env, "algo": algo, "scheduler": scheduler}
    values |= BACKENDS.get(backend, {}) | ALGORITHMS.get(algo, {})
    for key in (backend, algo, ""):
        if (scheduler, key) in SCHEDULER_OPTIONS:
            values["scheduler_options"] = SCHEDULER_OPTIONS[scheduler, key]
            break
    if algo == "drac" and backend == "procgen":
        values["augmentation"] = AUGMENTATIONS.get(env.partition("/")[2], "crop")
    if scheduler == "fixed":
        values["arms"] = (BASELINE_EPOCHS.get(backend, 4),)
    return Config(**values)
