"""PPO of Tianshou on CartPole, with ADEPT.

    python examples/tianshou_cartpole.py                           # advice at the end; changes nothing
    python examples/tianshou_cartpole.py --scheduler hindsight     # also adapts the learning rate
    python examples/tianshou_cartpole.py --scheduler ucb           # the paper's bandit chooses the epochs

Needs `pip install 'adept-rl[tianshou]'`.
"""

import argparse

import gymnasium
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

from adept.integrations.tianshou import attach


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=65_536)
    parser.add_argument("--scheduler", help="hindsight, kl-rate, ucb, …; without it, advice only")
    arguments = parser.parse_args()
    steps = arguments.steps

    envs = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1") for _ in range(8)])
    actions = gymnasium.make("CartPole-v1").action_space
    policy = ProbabilisticActorPolicy(
        actor=DiscreteActor(preprocess_net=Net(state_shape=4, hidden_sizes=[64]), action_shape=2),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=actions,
        action_scaling=False,
        action_bound_method=None,
    )
    critic = DiscreteCritic(preprocess_net=Net(state_shape=4, hidden_sizes=[64]))
    algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3))

    # `attach(algorithm)` for advice alone, `attach(algorithm, "hindsight")` to adapt the learning rate.
    attach(algorithm, arguments.scheduler)

    result = algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=Collector(algorithm, envs, VectorReplayBuffer(2048, 8)),
            test_collector=None,
            max_epochs=1,
            epoch_num_steps=steps,
            collection_step_num_env_steps=2048,
            batch_size=64,
        )
    )
    print(result)


if __name__ == "__main__":
    main()
