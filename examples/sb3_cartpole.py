"""PPO of Stable-Baselines3 on CartPole, its number of epochs chosen by a bandit before every update.

Run `pip install 'adept-rl[sb3]'`, then `python examples/sb3_cartpole.py`.
"""

import argparse
import tempfile
from pathlib import Path

from stable_baselines3 import PPO

import adept
from adept.integrations.sb3 import AdeptCallback


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=16_384)
    steps = parser.parse_args().steps

    model = PPO("MlpPolicy", "CartPole-v1", verbose=1, device="cpu", seed=1)
    model.learn(steps, callback=AdeptCallback(adept.UCB([10, 5, 1])))

    # The scheduler's state is saved with the model; a loaded model goes on where it was.
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "cartpole")
        model = PPO.load(Path(folder) / "cartpole", env=model.get_env(), device="cpu")
    callback = AdeptCallback(adept.UCB([10, 5, 1]))
    model.learn(steps, callback=callback, reset_num_timesteps=False)
    print({name: round(value, 1) for name, value in callback.scheduler.diagnostics().items()})


if __name__ == "__main__":
    main()
