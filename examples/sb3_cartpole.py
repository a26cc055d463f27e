"""PPO of Stable-Baselines3 on CartPole: first advice alone, then epochs chosen before every update.

Run `pip install 'adept-rl[sb3]'`, then `python examples/sb3_cartpole.py [--scheduler '[10, 5, 1]']`. The scheduler is
data: a name in quotes ('"hindsight"', '"ucb"'), a list of arms, or '{"name": "hindsight", "dear": "compute"}'.
"""

import argparse
import json
import tempfile
from pathlib import Path

from stable_baselines3 import PPO

from adept.integrations.sb3 import AdeptCallback


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=16_384)
    parser.add_argument("--scheduler", type=json.loads, default=[10, 5, 1])
    options = parser.parse_args()

    # Changes nothing; at the end it prints what the epochs and the learning rate were worth.
    model = PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=1)
    model.learn(options.steps, callback=AdeptCallback())

    model.learn(options.steps, callback=AdeptCallback(options.scheduler), reset_num_timesteps=False)

    # The scheduler's state is saved with the model; a loaded model goes on where it was.
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "cartpole")
        model = PPO.load(Path(folder) / "cartpole", env=model.get_env(), device="cpu")
    callback = AdeptCallback(options.scheduler)
    model.learn(options.steps, callback=callback, reset_num_timesteps=False)
    print({name: round(value, 1) for name, value in callback.scheduler.diagnostics().items()})


if __name__ == "__main__":
    main()
