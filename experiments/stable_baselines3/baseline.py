"""Stable-Baselines3's PPO set up like one of our configurations: same hyperparameters, network and normalisation."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize
from torch import Tensor, nn

from adept.config import Config
from adept.envs import Discrete, make_environments
from adept.networks import make_network
from adept.networks.images import ImpalaNetwork, MiniGridNetwork


class Encoder(BaseFeaturesExtractor):
    """Our network's encoder as a features extractor."""

    def __init__(self, space: gymnasium.spaces.Box, name: str) -> None:
        network = make_network(name, space.shape, Discrete(1), 0)  # the heads are left aside
        assert isinstance(network, ImpalaNetwork | MiniGridNetwork)
        super().__init__(space, 256 if isinstance(network, ImpalaNetwork) else 64)
        self.encoder = network.encoder
        self.features = nn.Sequential(network.features, nn.ReLU()) if isinstance(network, ImpalaNetwork) else None

    def forward(self, observations: Tensor) -> Tensor:
        """Return the features of pictures, which come as Stable-Baselines3 prepares them."""
        features: Tensor = self.encoder(observations)
        return features if self.features is None else self.features(features)


class Pool(VecEnv):
    """Our EnvPool environments as Stable-Baselines3 sees environments."""

    def __init__(self, config: Config) -> None:
        self._environments = make_environments(config)
        shape, actions = self._environments.observation_shape, self._environments.actions
        image = self._environments.observation_dtype == np.uint8
        space = gymnasium.spaces.Box(
            *((0, 255) if image else (-np.inf, np.inf)), shape, np.uint8 if image else np.float32
        )
        taken: gymnasium.Space[Any] = (
            gymnasium.spaces.Discrete(actions.n)
            if isinstance(actions, Discrete)
            else gymnasium.spaces.Box(np.array(actions.low, np.float32), np.array(actions.high, np.float32))
        )
        super().__init__(config.environments, space, taken)
        self._seed = config.seed
        self._returns, self._lengths = np.zeros(config.environments), np.zeros(config.environments, int)

    def reset(self) -> Any:
        """Start all environments anew."""
        self._returns[:], self._lengths[:] = 0.0, 0
        return self._environments.restart(self._seed)

    def step_async(self, actions: Any) -> None:
        """Remember the actions."""
        self._taken = actions

    def step_wait(self) -> Any:
        """Take the remembered actions."""
        result = self._environments.step(self._taken)
        self._returns += result.rewards
        self._lengths += 1
        done = result.terminated | result.truncated
        infos: list[dict[str, Any]] = [{} for _ in done]
        for row, index in enumerate(np.flatnonzero(done)):
            assert result.final_observations is not None
            infos[index] = {
                "terminal_observation": result.final_observations[row],
                "TimeLimit.truncated": bool(result.truncated[index]),
                "episode": {"r": float(self._returns[index]), "l": int(self._lengths[index])},
            }
        self._returns[done], self._lengths[done] = 0.0, 0
        return result.observations, result.rewards, done, infos

    def close(self) -> None:
        """Free the environments."""
        self._environments.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return nothing: there are no Python environments to ask."""
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Do nothing."""

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Return nothing."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return that no environment is wrapped."""
        return [False] * self.num_envs


def environments(config: Config) -> VecEnv:
    """Return what users of Stable-Baselines3 would step: Python environments, but EnvPool for Procgen."""
    if config.backend == "procgen":
        return Pool(config)

    def make() -> Any:
        if config.backend == "minigrid":
            import minigrid  # noqa: F401 - registers
            from minigrid.wrappers import ImgObsWrapper

            return Monitor(ChannelsFirst(ImgObsWrapper(gymnasium.make(f"MiniGrid-{config.task}-v0"))))
        if config.backend == "pybullet":
            import pybullet_envs_gymnasium  # noqa: F401 - registers

            return Monitor(gymnasium.make(f"{config.task}BulletEnv-v0"))
        return Monitor(gymnasium.make(config.task))

    return normalized(config, DummyVecEnv([make for _ in range(config.environments)]))


def normalized(config: Config, vector: VecEnv) -> VecEnv:
    """Return environments whose observations and rewards are scaled as the configuration asks for."""
    if not (config.normalize_observations or config.normalize_rewards):
        return vector
    return VecNormalize(
        vector, norm_obs=config.normalize_observations, norm_reward=config.normalize_rewards, gamma=config.discount
    )


class ChannelsFirst(gymnasium.ObservationWrapper):  # type: ignore[type-arg]
    """Cells as channels × height × width."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        height, width, channels = env.observation_space.shape
        self.observation_space = gymnasium.spaces.Box(0, 255, (channels, height, width), np.uint8)

    def observation(self, observation: Any) -> Any:
        """Move the channels to the front."""
        return np.moveaxis(observation, -1, 0)


def model(config: Config, epochs: int, vector: VecEnv | None = None) -> PPO:
    """Return Stable-Baselines3's PPO for a configuration with fixed epochs, by default on what its users would step.

    Its value loss has no factor ½, so its coefficient is half of ours for the same loss.
    """
    torch.set_num_threads(1)
    policy: dict[str, Any] = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}}
    if config.network == "nature":
        policy = {}  # its own default
    if config.network in ("impala", "minigrid"):
        heads = [64] if config.network == "minigrid" else []
        policy = {
            "net_arch": {"pi": heads, "vf": heads},
            "features_extractor_class": Encoder,
            "features_extractor_kwargs": {"name": config.network},
            "normalize_images": config.network == "impala",
        }
    rate = config.learning_rate
    return PPO(
        "MlpPolicy" if config.network == "mlp" else "CnnPolicy",
        vector or environments(config),
        learning_rate=(lambda left: rate * left) if config.learning_rate_decay else rate,
        n_steps=config.rollout_length,
        batch_size=config.minibatch_size,
        n_epochs=epochs,
        gamma=config.discount,
        gae_lambda=config.gae_coefficient,
        clip_range=config.clip_range,
        clip_range_vf=config.clip_range if config.clip_value_loss else None,
        ent_coef=config.entropy_coefficient,
        vf_coef=0.5 * config.value_coefficient,
        max_grad_norm=config.max_gradient_norm,
        policy_kwargs=policy,
        seed=config.seed,
        device="cpu",
    )
