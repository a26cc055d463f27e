"""A search with Ray Tune in which epochs and learning rate are not searched: ADEPT sets them in every trial.

ADEPT starts from RLlib's num_epochs and learning rate and adapts both while a trial runs
(`"optimize_for": "compute"` lets it reduce the epochs, too), so that the search space is two dimensions smaller.
ASHA ends the trials that are behind.

Run `pip install 'adept-rl[rllib]'`, then `python examples/tune_rllib.py [--trials 20] [--steps 50000]`.
"""

import argparse
from pathlib import Path

from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.schedulers import ASHAScheduler

from adept.integrations.rllib import attach

SEARCHED = {  # neither num_epochs nor lr
    "train_batch_size_per_learner": tune.choice([1024, 2048, 4096]),
    "minibatch_size": tune.choice([64, 128, 256]),
    "gamma": tune.loguniform(0.95, 0.999),
    "lambda_": tune.uniform(0.8, 1.0),
    "entropy_coeff": tune.loguniform(1e-5, 0.02),
    "clip_param": tune.choice([0.1, 0.2, 0.3]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="CartPole-v1")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path("tune"))
    options = parser.parse_args()

    config = PPOConfig().environment(options.task).training(**SEARCHED)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=4)  # a trial takes one core
    attach(config, {"name": "hindsight", "optimize_for": "compute"}, verbose=0)

    asha = ASHAScheduler("num_env_steps_sampled_lifetime", grace_period=options.steps // 4, max_t=options.steps)
    results = tune.Tuner(
        config.algo_class,
        param_space=config,
        tune_config=tune.TuneConfig(
            metric="env_runners/episode_return_mean", mode="max", num_samples=options.trials, scheduler=asha
        ),
        run_config=tune.RunConfig(name=options.task, storage_path=str(options.out.resolve())),
    ).fit()
    best = results.get_best_result()
    its_config = PPOConfig.from_dict(best.config)
    found = {name: getattr(its_config, name) for name in SEARCHED}
    lr_scale = best.metrics["learners"]["__all_modules__"]["adept/lr_scale"]
    print(f"best return {best.metrics['env_runners']['episode_return_mean']:.1f} with {found}")
    print(f"its learning rate ended at {float(lr_scale):.2f} × the default")


if __name__ == "__main__":
    main()
