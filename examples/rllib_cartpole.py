"""PPO of RLlib on CartPole: every update judged and, with `--scheduler`, the next one chosen, alike on all learners.

Run `pip install 'adept-rl[rllib]'`, then `python examples/rllib_cartpole.py`; with a core for each of them, or a
cluster, `--runners 4 --learners 2` and the like.
"""

import argparse

from ray.rllib.algorithms.ppo import PPOConfig

from adept.integrations.rllib import attach


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=16_384)
    parser.add_argument("--runners", type=int, default=1)
    parser.add_argument("--learners", type=int, default=0, help="0 learns in the main process")
    parser.add_argument("--scheduler", help="hindsight, kl-rate, ucb, …; without it updates are only judged")
    arguments = parser.parse_args()

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=arguments.runners)
        .learners(num_learners=arguments.learners, num_gpus_per_learner=0)
        .training(train_batch_size_per_learner=2048 // max(1, arguments.learners), minibatch_size=64)
    )
    attach(config, arguments.scheduler)  # prints its advice at the end

    algorithm = config.build_algo()
    for _ in range(arguments.steps // 2048):
        learners = algorithm.train()["learners"]["__all_modules__"]
        print({name: round(float(value), 1) for name, value in learners.items() if name.startswith("adept/")})
    algorithm.stop()


if __name__ == "__main__":
    main()
