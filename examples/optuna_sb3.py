"""A search with Optuna in which epochs and learning rate are not searched: ADEPT sets them in every trial.

n_epochs and learning rate depend on everything else that is searched (batch size, rollout length, clip range), so that
each must be found again for every other setting. ADEPT starts from the defaults of Stable-Baselines3 and adapts both
while a trial runs: `"optimize_for": "compute"` lets it reduce the epochs, too. The search has two dimensions less.

Run `pip install 'adept-rl[sb3,optuna]'`, then `python examples/optuna_sb3.py [--trials 20] [--steps 50000]`. With
`--storage sqlite:///search.db` the same command resumes a search.
"""

import argparse

import numpy as np
import optuna
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from adept.integrations.sb3 import AdeptCallback


class Report(BaseCallback):
    """Tell Optuna the mean return after every rollout, and stop a trial that is not worth going on with."""

    def __init__(self, trial: optuna.Trial) -> None:
        super().__init__()
        self.trial = trial

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        if not self.model.ep_info_buffer:
            return  # no episode has ended yet
        self.trial.report(mean_return(self.model), self.num_timesteps)
        if self.trial.should_prune():
            raise optuna.TrialPruned


def mean_return(model: PPO) -> float:
    return float(np.mean([episode["r"] for episode in model.ep_info_buffer or ()]))


def objective(trial: optuna.Trial, task: str, steps: int) -> float:
    model = PPO(
        "MlpPolicy",
        make_vec_env(task, n_envs=4, seed=trial.number),
        # neither n_epochs nor learning_rate
        n_steps=trial.suggest_categorical("n_steps", [128, 256, 512]),
        batch_size=trial.suggest_categorical("batch_size", [64, 128, 256]),
        gamma=trial.suggest_float("gamma", 0.95, 0.999, log=True),
        gae_lambda=trial.suggest_float("gae_lambda", 0.8, 1.0),
        ent_coef=trial.suggest_float("ent_coef", 1e-5, 0.02, log=True),
        clip_range=trial.suggest_categorical("clip_range", [0.1, 0.2, 0.3]),
        seed=trial.number,
        device="cpu",
    )
    adapts = AdeptCallback({"name": "hindsight", "optimize_for": "compute"}, verbose=0)
    model.learn(steps, callback=[adapts, Report(trial)])
    trial.set_user_attr("last_lr_scale", adapts.engine.settings.lr_scale)
    trial.set_user_attr("advice", str(adapts.advice()))
    return mean_return(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="CartPole-v1")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--storage", default=None)
    options = parser.parse_args()

    study = optuna.create_study(
        study_name=options.task,
        direction="maximize",
        storage=options.storage,
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
    )
    study.sampler = optuna.samplers.TPESampler(seed=1 + len(study.trials))  # a resumed search draws other settings
    study.optimize(lambda trial: objective(trial, options.task, options.steps), n_trials=options.trials)
    best = study.best_trial
    print(f"best return {best.value:.1f} with {best.params}")
    print(
        f"its learning rate ended at {best.user_attrs['last_lr_scale']:.2f} × the default; {best.user_attrs['advice']}"
    )


if __name__ == "__main__":
    main()
