"""PPO of rsl_rl on 64 pendulums at once, with ADEPT.

    python examples/rsl_rl_pendulum.py                           # advice at the end; changes nothing
    python examples/rsl_rl_pendulum.py --scheduler hindsight     # also adapts the learning rate
    python examples/rsl_rl_pendulum.py --scheduler ucb           # the paper's bandit chooses the epochs

Needs `pip install 'adept-rl[rsl_rl]'`. A controller replaces rsl_rl's KL rule.
"""

import argparse
import math

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from adept.integrations.rsl_rl import attach


class Pendulums(VecEnv):
    """The swing-up of Gymnasium's Pendulum-v1, for many pendulums in one tensor."""

    num_actions, max_episode_length, device = 1, 200, "cpu"

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.cfg = num_envs, {}
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self._angle, self._speed = self._start(num_envs)

    @staticmethod
    def _start(number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (2 * torch.rand(number) - 1) * math.pi, 2 * torch.rand(number) - 1

    def get_observations(self) -> TensorDict:
        """Return cosine and sine of the angle, and the speed."""
        state = torch.stack([self._angle.cos(), self._angle.sin(), self._speed / 8], dim=1)
        return TensorDict({"policy": state}, batch_size=[self.num_envs])

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        """Move every pendulum by 0.05 s, and put those back whose time is over."""
        force = 2 * actions[:, 0].clamp(-1, 1)
        upright = torch.remainder(self._angle + math.pi, 2 * math.pi) - math.pi
        rewards = -(upright**2 + 0.1 * self._speed**2 + 0.001 * force**2)
        self._speed = (self._speed + (15 * self._angle.sin() + 3 * force) * 0.05).clamp(-8, 8)
        self._angle = self._angle + self._speed * 0.05
        self.episode_length_buf += 1
        over = self.episode_length_buf >= self.max_episode_length
        angle, speed = self._start(self.num_envs)
        self._angle, self._speed = torch.where(over, angle, self._angle), torch.where(over, speed, self._speed)
        self.episode_length_buf[over] = 0
        return self.get_observations(), rewards, over.long(), {"time_outs": over}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=262_144)
    parser.add_argument("--scheduler", help="hindsight, kl-rate, ucb, …; without it, advice only")
    arguments = parser.parse_args()

    torch.manual_seed(1)
    network = {"class_name": "MLPModel", "hidden_dims": [64, 64]}
    config = {
        "num_steps_per_env": 32,
        "save_interval": 1000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "algorithm": {"class_name": "PPO"},
        "actor": {**network, "distribution_cfg": {"class_name": "GaussianDistribution"}},
        "critic": network,
    }
    runner = OnPolicyRunner(Pendulums(64), config)
    # `attach(runner)` for advice alone, `attach(runner, "hindsight")` to adapt the learning rate.
    attach(runner, arguments.scheduler)
    runner.learn(arguments.steps // (64 * 32), init_at_random_ep_len=True)


if __name__ == "__main__":
    main()
