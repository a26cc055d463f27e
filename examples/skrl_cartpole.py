"""PPO of skrl on CartPole, with ADEPT.

    python examples/skrl_cartpole.py                           # advice at the end; changes nothing
    python examples/skrl_cartpole.py --scheduler hindsight     # also adapts the learning rate
    python examples/skrl_cartpole.py --scheduler ucb           # the paper's bandit chooses the epochs

Needs `pip install 'adept-rl[skrl]'`.
"""

import argparse

import gymnasium
import torch
from skrl.agents.torch.ppo import PPO
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer

from adept.integrations.skrl import attach


class Policy(CategoricalMixin, Model):
    """The logits of the actions."""

    def __init__(self, env):
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
        Model.__init__(self, **spaces, device=env.device)
        CategoricalMixin.__init__(self)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))

    def compute(self, inputs, role=""):
        """Return the logits."""
        return self.net(inputs["observations"]), {}


class Value(DeterministicMixin, Model):
    """The value of an observation."""

    def __init__(self, env):
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
        Model.__init__(self, **spaces, device=env.device)
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def compute(self, inputs, role=""):
        """Return the value."""
        return self.net(inputs["observations"]), {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=65_536)
    parser.add_argument("--scheduler", help="hindsight, kl-rate, ucb, …; without it, advice only")
    arguments = parser.parse_args()
    steps = arguments.steps

    env = wrap_env(gymnasium.make_vec("CartPole-v1", num_envs=8), wrapper="gymnasium")
    agent = PPO(
        models={"policy": Policy(env), "value": Value(env)},
        memory=RandomMemory(memory_size=256, num_envs=8, device=env.device),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
        cfg={
            "rollouts": 256,
            "mini_batches": 32,
            "experiment": {"write_interval": 0, "checkpoint_interval": 0},
        },
    )

    # `attach(agent)` for advice alone, `attach(agent, "hindsight")` to adapt the learning rate.
    attach(agent, arguments.scheduler)

    SequentialTrainer(cfg={"timesteps": steps // 8, "headless": True}, env=env, agents=agent).train()


if __name__ == "__main__":
    main()
