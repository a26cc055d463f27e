"""PPO of RLlib on CartPole with ADEPT, which judges every update and makes the same choice on all learners.

    python examples/rllib_cartpole.py                           # advice at the end; changes nothing
    python examples/rllib_cartpole.py --scheduler hindsight     # also adapts the learning rate
    python examples/rllib_cartpole.py --scheduler ucb           # the paper's bandit chooses the epochs

Needs `pip install 'adept-rl[rllib]'`. With enough cores, or a cluster, add `--runners 4 --learners 2` and the like.
"""

import argparse

from ray.rllib.algorithms.ppo import PPOConfig

from adept.integrations.rllib import attach


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=65_536)
    parser.add_argument("--runners", type=int, default=1)
    parser.add_argument("--learners", type=int, default=0, help="0 learns in the main process")
    parser.add_argument("--scheduler", help="hindsight, kl-rate, ucb, …; without it, advice only")
    arguments = parser.parse_args()

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=arguments.runners)
        .learners(num_learners=arguments.learners, num_gpus_per_learner=0)
        .training(train_batch_size_per_learner=2048 // max(1, arguments.learners), minibatch_size=64)
    )
    # `attach(config)` for advice alone, `attach(config, "hindsight")` to adapt the learning rate.
    attach(config, arguments.scheduler)

    algorithm = config.build_algo()
    for _ in range(arguments.steps // 2048):
        learners = algorithm.train()["learners"]["__all_modules__"]
        print({name: float(f"{float(value):.3g}") for name, value in learners.items() if name.startswith("adept/")})
    algorithm.stop()


if __name__ == "__main__":
    main()
